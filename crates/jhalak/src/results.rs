//! What calls return: [`Attended`] and [`Gradients`].

use jhalak_problem::{Gradient, GradientTargets, Problem, Result, Tensor, TensorView};

/// The result of a forward call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Attended {
    /// [B, Sq, Hq, Dv], or [total_q, Hq, Dv] for packed sequences; 0 where a query sees no key.
    pub out: Tensor,
    /// [B, Hq, Sq], or [Hq, total_q], f32 (f64 for f64 inputs): the natural logarithm of the sum
    /// of exponentials; −∞ where a query sees no key.
    pub lse: Tensor,
}

impl Attended {
    /// A result that was kept elsewhere, for [`backward`](crate::FlashAttention::backward) and
    /// [`merge`](crate::merge), which check that it fits.
    pub fn new(out: Tensor, lse: Tensor) -> Self {
        Attended { out, lse }
    }
}

/// The result of a backward call; each gradient is shaped as the tensor it belongs to.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Gradients {
    /// Gradient of q, in its dtype.
    pub dq: Tensor,
    /// Gradient of k, in its dtype.
    pub dk: Tensor,
    /// Gradient of v, in its dtype.
    pub dv: Tensor,
    /// Gradient of the bias, where there is one: f32, f64 for f64 inputs.
    pub dbias: Option<Tensor>,
    /// Gradient of the sinks, where there are any: f32, f64 for f64 inputs.
    pub dsinks: Option<Tensor>,
}

impl Gradients {
    /// Zero gradients for everything that the problem has.
    pub(crate) fn zeros(problem: &Problem<'_>, qkv: [&TensorView<'_>; 3]) -> Result<Self> {
        let [dq, dk, dv] = qkv.map(|view| Tensor::zeros(view.dtype(), view.shape()));
        // What sums over many rows stays wide, as lse does.
        let wide = problem.lse_dtype();
        let bias_shape = problem.bias_shape();
        let has_sinks = problem.heads_q() > 0 && problem.sink(0).is_some();
        Ok(Gradients {
            dq: dq?,
            dk: dk?,
            dv: dv?,
            dbias: bias_shape.map(|shape| Tensor::zeros(wide, &shape)).transpose()?,
            dsinks: has_sinks.then(|| Tensor::zeros(wide, &[problem.heads_q()])).transpose()?,
        })
    }

    /// Asks for all of them.
    pub(crate) fn targets(&mut self) -> GradientTargets<'_> {
        fn write(tensor: &mut Tensor) -> Option<Gradient<'_>> {
            Some(Gradient::Write(tensor.view_mut()))
        }
        let mut targets = GradientTargets::default();
        targets.dq = write(&mut self.dq);
        targets.dk = write(&mut self.dk);
        targets.dv = write(&mut self.dv);
        targets.dbias = self.dbias.as_mut().and_then(write);
        targets.dsinks = self.dsinks.as_mut().and_then(write);
        targets
    }
}
