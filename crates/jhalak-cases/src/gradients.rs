//! [`Ask`] and [`Gradients`]: how a backward call is asked for, and its outputs, poisoned before and
//! judged after.

use jhalak_problem::reference::{self, judge};
use jhalak_problem::{DType, Gradient, GradientTargets, Problem, TensorViewMut};

use crate::case::Tensors;
use crate::strided::{Layout, Strided, noise};

/// What gradients are added to.
const BEFORE: f64 = 0.5;

/// How a backward pass is asked for.
#[derive(Clone, Debug)]
pub struct Ask {
    /// dq, dk, dv, dbias, dsinks.
    pub wanted: [bool; 5],
    /// Add to f32 buffers that hold something.
    pub add: bool,
    /// Give delta instead of out.
    pub give_delta: bool,
    /// lse has a gradient too.
    pub dlse: bool,
    /// How dout, dq, dk and dv lie.
    pub layouts: [Layout; 4],
}

impl Default for Ask {
    fn default() -> Self {
        let layouts = std::array::from_fn(|_| Layout::default());
        Ask { wanted: [true; 5], add: false, give_delta: false, dlse: true, layouts }
    }
}

impl Ask {
    /// The gradients of out and of lse that flow in.
    pub fn upstream(&self, problem: &Problem<'_>, seed: u64) -> (Strided, Option<Strided>) {
        let (shape, layout) = (problem.out_shape(), &self.layouts[0]);
        let dout = Strided::new(problem.out_dtype(), &shape, layout, |i| noise(seed + 91, i));
        let dlse = self.dlse.then(|| {
            let (dtype, shape) = (problem.lse_dtype(), problem.lse_shape());
            Strided::new(dtype, &shape, &Layout::default(), |i| noise(seed + 92, i))
        });
        (dout, dlse)
    }
}

/// dq, dk, dv, dbias and dsinks, as far as they are asked for.
pub struct Gradients {
    /// In the order of [`Ask::wanted`].
    pub tensors: [Option<Strided>; 5],
    add: bool,
}

impl Gradients {
    /// Outputs that nobody has written, or that hold what is added to.
    pub fn poisoned(problem: &Problem<'_>, tensors: &Tensors, ask: &Ask) -> Self {
        let accumulator = if problem.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
        let Tensors { q, k, v, bias, sinks, .. } = tensors;
        let inputs = [Some(q), Some(k), Some(v), bias.as_ref(), sinks.as_ref()];
        let output = |n: usize| {
            let view = inputs[n].filter(|_| ask.wanted[n])?.view();
            // The last two are small or score-shaped: plain.
            let layout = if n < 3 { ask.layouts[n + 1].clone() } else { Layout::default() };
            let layout = Layout { broadcast: 0, ..layout };
            Some(if ask.add {
                Strided::new(accumulator, view.shape(), &layout, |_| BEFORE)
            } else {
                Strided::poisoned(view.dtype(), view.shape(), &layout)
            })
        };
        Gradients { tensors: std::array::from_fn(output), add: ask.add }
    }

    /// The targets of a call, each made of its view by `target`, which may move it to a device.
    pub fn targets<'t>(
        &'t mut self,
        mut target: impl FnMut(usize, &'t mut Strided) -> TensorViewMut<'t>,
    ) -> GradientTargets<'t> {
        let add = self.add;
        let mut n = 0;
        let [dq, dk, dv, dbias, dsinks] = self.tensors.each_mut().map(|tensor| {
            n += 1;
            let view = target(n - 1, tensor.as_mut()?);
            Some(if add { Gradient::Add(view) } else { Gradient::Write(view) })
        });
        let mut targets = GradientTargets::default();
        (targets.dq, targets.dk, targets.dv) = (dq, dk, dv);
        (targets.dbias, targets.dsinks) = (dbias, dsinks);
        targets
    }

    /// Holds the gradients against the f64 reference of a problem in host memory.
    ///
    /// # Errors
    /// A sentence about what is wrong.
    pub fn judge(
        &self,
        problem: &Problem<'_>,
        tensors: &Tensors,
        dout: &[f64],
        dlse: Option<&[f64]>,
    ) -> Result<(), String> {
        if !self.tensors.iter().flatten().all(Strided::gaps_are_untouched) {
            return Err("memory between the elements of a gradient was written".to_owned());
        }
        let text = |error: jhalak_problem::Error| error.to_string();
        let exact = reference::forward(problem).map_err(text)?;
        let truth = reference::backward(problem, dout, dlse).map_err(text)?;
        let yard = reference::in_dtype::backward(problem, dout, dlse).map_err(text)?;
        let all = |g: reference::Gradients| [Some(g.dq), Some(g.dk), Some(g.dv), g.dbias, g.dsinks];
        let slacks = Slacks::new(problem, tensors, &exact, dout);
        let judged = self.tensors.iter().zip(all(truth)).zip(all(yard));
        for (n, ((grad, truth), yard)) in judged.enumerate() {
            let (Some(grad), Some(truth), Some(yard)) = (grad, truth, yard) else { continue };
            let before = if self.add { BEFORE } else { 0.0 };
            let plus = |x: Vec<f64>| x.into_iter().map(|x| x + before).collect::<Vec<_>>();
            let (truth, yard) = (plus(truth), plus(yard));
            let (name, slack) = (NAMES[n], slacks.of(n, grad.view().shape()));
            let slack = slack + tanh_slack(problem, &exact.lse, &truth);
            let dtype = grad.view().dtype();
            judge::gradient_close(name, dtype, &exact.lse, slack, &truth, &yard, &grad.values())?;
        }
        Ok(())
    }
}

/// tanh may err by 1e-6 relative, which a capped score carries into its weight. A forward pass has the
/// same error in its lse; that of the reference has not.
fn tanh_slack(problem: &Problem<'_>, lse: &[f64], truth: &[f64]) -> f64 {
    let largest = |values: &[f64]| {
        values.iter().filter(|x| x.is_finite()).fold(0f64, |max, x| max.max(x.abs()))
    };
    if problem.softcap().is_some() { 1e-6 * largest(lse) * largest(truth) } else { 0.0 }
}

const NAMES: [&str; 5] = ["dq", "dk", "dv", "dbias", "dsinks"];

/// What is allowed beside the yardstick's error, where the yardstick can be right by chance.
struct Slacks {
    /// Rows of lse.
    rows: f64,
    /// What rounding may do to delta, and to a row's dP.
    delta: f64,
    /// |dP| ≤ ‖dout‖·‖v‖, and dq and dk multiply differences of such numbers.
    dp: f64,
    scale: f64,
    q: f64,
    k: f64,
}

impl Slacks {
    fn new(
        problem: &Problem<'_>,
        tensors: &Tensors,
        exact: &reference::Attended,
        dout: &[f64],
    ) -> Self {
        let width = problem.head_dim_v();
        let dp = norm(dout, width) * norm(&tensors.v.values(), width);
        Slacks {
            rows: exact.lse.len() as f64,
            delta: delta_error(problem, exact, dout) + judge::ulp(DType::F32, dp),
            dp,
            scale: problem.scale().abs(),
            q: norm(&tensors.q.values(), 1),
            k: norm(&tensors.k.values(), 1),
        }
    }

    fn of(&self, n: usize, shape: &[usize]) -> f64 {
        let Slacks { rows, delta, dp, scale, q, k } = *self;
        let unit = |x: f64| 2.0 * judge::ulp(DType::F32, x);
        match NAMES[n] {
            "dq" => delta * scale * k + unit(dp * scale * k),
            // dk adds up such differences over all queries; the weights of dq sum to 1.
            "dk" => delta * scale * q + rows.sqrt() * unit(dp * scale * q),
            "dv" => unit(0.0),
            // These are sums of many rows into few numbers.
            "dbias" => {
                let folded = rows / (shape[0] * shape[1] * shape[2]) as f64;
                2.0 * delta * folded.max(1.0).sqrt() + unit(dp)
            }
            _ => delta * rows.sqrt() + unit(dp),
        }
    }
}

/// The largest length of a row of `width` numbers, of those that are finite.
fn norm(values: &[f64], width: usize) -> f64 {
    let length = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>().sqrt();
    largest(values.chunks(width).map(length))
}

fn largest(sizes: impl Iterator<Item = f64>) -> f64 {
    sizes.filter(|size| size.is_finite()).fold(0.0, f64::max)
}

/// What rounding may do to a row's delta, in each term: half an ulp of out's type, and of the inputs'
/// type, to which the probabilities are rounded before they meet v.
fn delta_error(problem: &Problem<'_>, exact: &reference::Attended, dout: &[f64]) -> f64 {
    let width = problem.head_dim_v();
    let unit = judge::ulp(problem.out_dtype(), 1.0).max(judge::ulp(problem.dtype(), 1.0));
    let rows = exact.out.chunks(width).zip(dout.chunks(width));
    let sizes = rows.map(|(out, dout)| out.iter().zip(dout).map(|(a, b)| (a * b).abs()).sum());
    unit * largest(sizes)
}
