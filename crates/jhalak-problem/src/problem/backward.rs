//! [`Backward`]: a checked problem, what its forward saved, and where its gradients go.

use super::Problem;
use super::checks::{check_dtype, device_error, f32_or};
use super::rows::{rows_of, rows_of_mut};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::matrix::{Matrix, MatrixMut};
use crate::problem::UnusedRows;
use crate::tensor::{TensorView, TensorViewMut};

/// The forward's result, or what the backward needs of it.
#[derive(Clone, Copy, Debug)]
pub enum OutOrDelta<'a> {
    /// The forward's out, from which delta is computed.
    Out(TensorView<'a>),
    /// rowsum(dout ∘ out), shaped and typed as lse.
    Delta(TensorView<'a>),
}

/// What a backward call reads besides the forward's inputs.
#[derive(Clone, Copy, Debug)]
pub struct BackwardInputs<'a> {
    /// The gradient of out: shaped as out, f32 or the dtype of q.
    pub dout: TensorView<'a>,
    /// The forward's out (f32 or the dtype of q), or delta.
    pub out: OutOrDelta<'a>,
    /// The forward's lse.
    pub lse: TensorView<'a>,
    /// The gradient of lse, shaped and typed as lse, where lse was used.
    pub dlse: Option<TensorView<'a>>,
}

/// Where one gradient goes, and how.
#[derive(Debug)]
pub enum Gradient<'a> {
    /// Replaces what is there: the dtype of the tensor it belongs to, or f32.
    Write(TensorViewMut<'a>),
    /// Adds to what is there: f32, or f64 for f64 inputs.
    Add(TensorViewMut<'a>),
}

impl Gradient<'_> {
    /// Where it goes.
    pub fn view(&self) -> TensorView<'_> {
        match self {
            Gradient::Write(view) | Gradient::Add(view) => view.as_view(),
        }
    }

    fn view_mut(&self) -> &TensorViewMut<'_> {
        match self {
            Gradient::Write(view) | Gradient::Add(view) => view,
        }
    }

    /// Whether the gradient is added to what is there.
    pub fn adds(&self) -> bool {
        matches!(self, Gradient::Add(_))
    }
}

/// The gradients that are asked for; each is shaped as the tensor it belongs to.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct GradientTargets<'a> {
    /// Gradient of q.
    pub dq: Option<Gradient<'a>>,
    /// Gradient of k.
    pub dk: Option<Gradient<'a>>,
    /// Gradient of v.
    pub dv: Option<Gradient<'a>>,
    /// Gradient of the bias, summed over its broadcast dimensions.
    pub dbias: Option<Gradient<'a>>,
    /// Gradient of the sinks.
    pub dsinks: Option<Gradient<'a>>,
}

/// A backward call: a [`Problem`], what it reads and what it writes, all checked.
#[derive(Debug)]
pub struct Backward<'a> {
    problem: &'a Problem<'a>,
    inputs: BackwardInputs<'a>,
    targets: GradientTargets<'a>,
}

impl<'a> Backward<'a> {
    /// Checks a backward call.
    ///
    /// # Errors
    /// A wrong shape, dtype or device; a gradient of a tensor that the problem lacks; an output
    /// that overlaps itself or another tensor.
    pub fn new(
        problem: &'a Problem<'a>,
        inputs: BackwardInputs<'a>,
        targets: GradientTargets<'a>,
    ) -> Result<Self> {
        let (out_shape, lse_shape) = (problem.out_shape(), problem.lse_shape());
        check_shape("dout", &inputs.dout, &out_shape)?;
        problem.check_f32_or_input_dtype("dout", &inputs.dout)?;
        let lse_shaped = |argument, view: &TensorView<'_>| {
            check_shape(argument, view, &lse_shape)?;
            check_dtype(argument, view, problem.lse_dtype())
        };
        lse_shaped("lse", &inputs.lse)?;
        let out = match inputs.out {
            OutOrDelta::Out(out) => {
                check_shape("out", &out, &out_shape)?;
                problem.check_f32_or_input_dtype("out", &out)?;
                ("out", out)
            }
            OutOrDelta::Delta(delta) => {
                lse_shaped("delta", &delta)?;
                ("delta", delta)
            }
        };
        if let Some(dlse) = &inputs.dlse {
            lse_shaped("dlse", dlse)?;
        }
        let backward = Backward { problem, inputs, targets };
        backward.check_targets(out)?;
        Ok(backward)
    }

    fn check_targets(&self, out: (&'static str, TensorView<'_>)) -> Result<()> {
        let (problem, inputs, targets) = (self.problem, &self.inputs, &self.targets);
        let all = [
            ("dq", &targets.dq, Some(&problem.q)),
            ("dk", &targets.dk, Some(&problem.k)),
            ("dv", &targets.dv, Some(&problem.v)),
            ("dbias", &targets.dbias, problem.bias.as_ref()),
            ("dsinks", &targets.dsinks, problem.sinks.as_ref()),
        ];
        let mut others = vec![
            ("dout", Some(inputs.dout)),
            ("lse", Some(inputs.lse)),
            ("dlse", inputs.dlse),
            (out.0, Some(out.1)),
        ];
        for (argument, view) in &others {
            if let Some(view) = view.filter(|view| view.device() != problem.q.device()) {
                return Err(device_error(argument, problem.q.device(), view.device()));
            }
        }
        for (argument, gradient, tensor) in all {
            let Some(gradient) = gradient else { continue };
            let Some(tensor) = tensor else {
                let rule = "needs the tensor that it is the gradient of";
                return Err(Error::Combination { argument, rule });
            };
            let view = gradient.view();
            check_shape(argument, &view, tensor.shape())?;
            let accumulator = if problem.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
            if gradient.adds() {
                check_dtype(argument, &view, accumulator)?;
            } else if view.dtype() != tensor.dtype() && view.dtype() != accumulator {
                let expected = f32_or(tensor.dtype());
                return Err(Error::DType { argument, expected, got: view.dtype() });
            }
            problem.check_output(argument, &view, &others)?;
            others.push((argument, Some(view)));
        }
        Ok(())
    }

    /// What is computed.
    pub fn problem(&self) -> &'a Problem<'a> {
        self.problem
    }

    /// What is read.
    pub fn inputs(&self) -> &BackwardInputs<'a> {
        &self.inputs
    }

    /// The gradients that are asked for.
    pub fn targets(&self) -> &GradientTargets<'a> {
        &self.targets
    }

    /// Rows [used Sq, Dv] of dout.
    pub fn dout(&self, b: usize, h: usize) -> Matrix<'a> {
        self.out_rows(&self.inputs.dout, b, h)
    }

    /// Rows [used Sq, Dv] of the forward's out, unless delta was given.
    pub fn out(&self, b: usize, h: usize) -> Option<Matrix<'a>> {
        match &self.inputs.out {
            OutOrDelta::Out(out) => Some(self.out_rows(out, b, h)),
            OutOrDelta::Delta(_) => None,
        }
    }

    /// delta [used Sq, 1], where it was given.
    pub fn delta(&self, b: usize, h: usize) -> Option<Matrix<'a>> {
        match &self.inputs.out {
            OutOrDelta::Out(_) => None,
            OutOrDelta::Delta(delta) => Some(self.lse_rows(delta, b, h)),
        }
    }

    /// lse [used Sq, 1].
    pub fn lse(&self, b: usize, h: usize) -> Matrix<'a> {
        self.lse_rows(&self.inputs.lse, b, h)
    }

    /// The gradient of lse [used Sq, 1], where there is one.
    pub fn dlse(&self, b: usize, h: usize) -> Option<Matrix<'a>> {
        self.inputs.dlse.as_ref().map(|dlse| self.lse_rows(dlse, b, h))
    }

    /// Rows [used Sq, D] of dq, query head `h`.
    pub fn dq(&self, b: usize, h: usize) -> Option<MatrixMut<'_>> {
        let s = self.problem.sequence(b);
        self.gradient_rows(&self.targets.dq, s.storage, s.rows_q.start, s.used_q, h)
    }

    /// Rows [used Sk, D] of dk, key head `h`.
    pub fn dk(&self, b: usize, h: usize) -> Option<MatrixMut<'_>> {
        let s = self.problem.sequence(b);
        self.gradient_rows(&self.targets.dk, s.storage, s.rows_k.start, s.used_k, h)
    }

    /// Rows [used Sk, Dv] of dv, key head `h`.
    pub fn dv(&self, b: usize, h: usize) -> Option<MatrixMut<'_>> {
        let s = self.problem.sequence(b);
        self.gradient_rows(&self.targets.dv, s.storage, s.rows_k.start, s.used_k, h)
    }

    /// The rows of dq that no sequence uses; must become 0, or stay as they are if it adds.
    pub fn unused_dq(&self, unused: &UnusedRows, h: usize) -> Option<MatrixMut<'_>> {
        let rows = &unused.rows;
        self.gradient_rows(&self.targets.dq, unused.storage, rows.start, rows.len(), h)
    }

    /// The rows of dk that no sequence uses.
    pub fn unused_dk(&self, unused: &UnusedRows, h: usize) -> Option<MatrixMut<'_>> {
        let rows = &unused.rows;
        self.gradient_rows(&self.targets.dk, unused.storage, rows.start, rows.len(), h)
    }

    /// The rows of dv that no sequence uses.
    pub fn unused_dv(&self, unused: &UnusedRows, h: usize) -> Option<MatrixMut<'_>> {
        let rows = &unused.rows;
        self.gradient_rows(&self.targets.dv, unused.storage, rows.start, rows.len(), h)
    }

    /// The whole [Sq, Sk] plane of dbias at its own indices (`b`, `h`), both within
    /// [`bias_shape`](Problem::bias_shape), at its own size.
    pub fn dbias_plane(&self, b: usize, h: usize) -> Option<MatrixMut<'_>> {
        let view = self.targets.dbias.as_ref()?.view_mut();
        let (rows, cols) = (view.shape()[2], view.shape()[3]);
        let ptr = if rows == 0 || cols == 0 {
            std::ptr::null_mut()
        } else {
            view.element_ptr(&[b, h, 0, 0])
        };
        let strides = (view.strides()[2], view.strides()[3]);
        Some(MatrixMut::new(ptr, view.dtype(), (rows, cols), strides))
    }

    /// dsinks as [Hq, 1].
    pub fn dsinks(&self) -> Option<MatrixMut<'_>> {
        let view = self.targets.dsinks.as_ref()?.view_mut();
        let ptr = view.as_view().as_ptr().cast_mut().cast();
        Some(MatrixMut::new(ptr, view.dtype(), (view.shape()[0], 1), (view.strides()[0], 0)))
    }

    fn out_rows(&self, view: &TensorView<'a>, b: usize, h: usize) -> Matrix<'a> {
        let s = self.problem.sequence(b);
        rows_of(view, self.problem.packed, s.storage, s.rows_q.start, s.used_q, h)
    }

    fn lse_rows(&self, view: &TensorView<'a>, b: usize, h: usize) -> Matrix<'a> {
        let s = self.problem.sequence(b);
        let stride = view.strides()[view.strides().len() - 1];
        let ptr = if s.used_q == 0 {
            view.as_ptr().cast()
        } else if self.problem.packed {
            view.element_ptr(&[h, s.rows_q.start])
        } else {
            view.element_ptr(&[s.storage, h, s.rows_q.start])
        };
        Matrix::new(ptr, view.dtype(), view.device(), (s.used_q, 1), (stride, 0))
    }

    fn gradient_rows<'s>(
        &'s self,
        gradient: &'s Option<Gradient<'a>>,
        storage: usize,
        first: usize,
        rows: usize,
        head: usize,
    ) -> Option<MatrixMut<'s>> {
        let view = gradient.as_ref()?.view_mut();
        Some(rows_of_mut(view, self.problem.packed, storage, first, rows, head))
    }
}

fn check_shape(argument: &'static str, view: &TensorView<'_>, wanted: &[usize]) -> Result<()> {
    if view.shape() == wanted {
        return Ok(());
    }
    Err(Error::shape(argument, format!("{wanted:?}"), view.shape()))
}
