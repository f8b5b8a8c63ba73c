//! The right answers to a call, and whether a result is close enough to them.

use jhalak::reference::{self, in_dtype, judge};
use jhalak::{Attended, Attention, DType, Gradients, Problem, Tensor};

use crate::cases::Tensors;
use crate::failure::Failure;

/// What a call must give, and what standard attention in the dtype itself gives.
pub(crate) struct Answers {
    dtype: DType,
    truth: (reference::Attended, reference::Gradients),
    yardstick: (reference::Attended, reference::Gradients),
}

impl Answers {
    pub(crate) fn new(attention: &Attention<'_>, tensors: &Tensors) -> Result<Self, Failure> {
        let (q, k, v) = (tensors.q.view(), tensors.k.view(), tensors.v.view());
        let problem = Problem::new(attention, q, k, v)?;
        let dout = tensors.dout.to_f64_vec();
        Ok(Answers {
            dtype: problem.dtype(),
            truth: (reference::forward(&problem)?, reference::backward(&problem, &dout, None)?),
            yardstick: (in_dtype::forward(&problem)?, in_dtype::backward(&problem, &dout, None)?),
        })
    }

    /// What is wrong with a result, a sentence each.
    pub(crate) fn judge(&self, attended: &Attended, gradients: &Gradients) -> Vec<String> {
        let ((truth, true_gradients), (yard, yard_gradients)) = (&self.truth, &self.yardstick);
        // The gradients inherit the rounding of out, which in f64 is all there is.
        let out_dtype = attended.out.dtype();
        let dtype_of = |x: &Tensor| if self.dtype == DType::F64 { out_dtype } else { x.dtype() };
        let gradient = |what, tensor: Option<&Tensor>, of: fn(&reference::Gradients) -> &[f64]| {
            let (truth_of, yard) = (of(true_gradients), of(yard_gradients));
            match tensor {
                Some(x) => {
                    let (dtype, values) = (dtype_of(x), x.to_f64_vec());
                    judge::gradient_close(what, dtype, &truth.lse, 0.0, truth_of, yard, &values)
                }
                None if truth_of.is_empty() => Ok(()),
                None => Err(format!("{what} is missing")),
            }
        };
        let (out, lse) = (attended.out.to_f64_vec(), attended.lse.to_f64_vec());
        let verdicts = [
            judge::out_close(out_dtype, &truth.lse, &truth.out, &yard.out, &out),
            judge::lse_close(self.dtype, &truth.lse, &lse),
            gradient("dq", Some(&gradients.dq), |g| &g.dq),
            gradient("dk", Some(&gradients.dk), |g| &g.dk),
            gradient("dv", Some(&gradients.dv), |g| &g.dv),
            gradient("dbias", gradients.dbias.as_ref(), |g| g.dbias.as_deref().unwrap_or(&[])),
            gradient("dsinks", gradients.dsinks.as_ref(), |g| g.dsinks.as_deref().unwrap_or(&[])),
        ];
        verdicts.into_iter().filter_map(Result::err).collect()
    }
}
