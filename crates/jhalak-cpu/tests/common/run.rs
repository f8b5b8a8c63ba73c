//! Runs a case on an engine, into poisoned outputs, and judges the results.

use jhalak_cpu::{Engine, IsaKind};
use jhalak_problem::reference::{self, judge};
use jhalak_problem::{
    Attention, Backward, BackwardInputs, DType, Forward, Gradient, GradientTargets, OutOrDelta,
    Problem,
};

use super::case::{Case, Tensors};
use super::strided::{Layout, Strided, noise};

/// out and lse of an engine.
pub struct Attended {
    pub out: Strided,
    pub lse: Strided,
}

/// How a backward pass is asked for.
#[derive(Clone, Debug)]
pub struct Ask {
    /// dq, dk, dv, dbias, dsinks.
    pub wanted: [bool; 5],
    /// Add to f32 buffers that hold something.
    pub add: bool,
    pub give_delta: bool,
    pub dlse: bool,
    pub layouts: [Layout; 4],
}

impl Default for Ask {
    fn default() -> Self {
        let layouts = std::array::from_fn(|_| Layout::default());
        Ask { wanted: [true; 5], add: false, give_delta: false, dlse: true, layouts }
    }
}

/// Gradients of an engine, in the order of [`Ask::wanted`].
pub type Grads = [Option<Strided>; 5];

pub fn engine(isa: IsaKind, threads: usize) -> Engine {
    Engine::with_isa(isa).unwrap().threads(threads).unwrap()
}

pub fn forward(engine: &Engine, problem: &Problem<'_>, layout: &Layout) -> Attended {
    let mut out = Strided::poisoned(problem.out_dtype(), &problem.out_shape(), layout);
    let mut lse = Strided::poisoned(problem.lse_dtype(), &problem.lse_shape(), layout);
    let call = Forward::new(problem, out.view_mut(), lse.view_mut()).unwrap();
    engine.forward(&call).unwrap();
    assert!(out.gaps_are_untouched() && lse.gaps_are_untouched());
    Attended { out, lse }
}

/// The gradient that flows into out and lse.
pub fn upstream(problem: &Problem<'_>, ask: &Ask, seed: u64) -> (Strided, Option<Strided>) {
    let dtype = problem.dtype();
    let dout = Strided::new(dtype, &problem.out_shape(), &ask.layouts[0], |i| noise(seed + 91, i));
    let dlse = ask.dlse.then(|| {
        let shape = problem.lse_shape();
        Strided::new(problem.lse_dtype(), &shape, &Layout::default(), |i| noise(seed + 92, i))
    });
    (dout, dlse)
}

/// What gradients are added to.
const BEFORE: f64 = 0.5;

pub fn backward(
    engine: &Engine,
    problem: &Problem<'_>,
    shapes: [Option<(Vec<usize>, DType)>; 5],
    attended: &Attended,
    upstream: &(Strided, Option<Strided>),
    ask: &Ask,
) -> Grads {
    let accumulator = if problem.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
    let mut n = 0;
    let mut grads: Grads = shapes.map(|shape| {
        n += 1;
        let (shape, dtype) = shape.filter(|_| ask.wanted[n - 1])?;
        // The last two are small or score-shaped: plain.
        let layout = if n <= 3 { ask.layouts[n].clone() } else { Layout::default() };
        Some(if ask.add {
            let layout = Layout { broadcast: 0, ..layout };
            Strided::new(accumulator, &shape, &layout, |_| BEFORE)
        } else {
            Strided::poisoned(dtype, &shape, &layout)
        })
    });
    let delta = ask.give_delta.then(|| delta_of(problem, attended, &upstream.0));
    let inputs = BackwardInputs {
        dout: upstream.0.view(),
        out: match &delta {
            Some(delta) => OutOrDelta::Delta(delta.view()),
            None => OutOrDelta::Out(attended.out.view()),
        },
        lse: attended.lse.view(),
        dlse: upstream.1.as_ref().map(Strided::view),
    };
    let mut targets = GradientTargets::default();
    let [dq, dk, dv, dbias, dsinks] = &mut grads;
    targets.dq = target(dq, ask.add);
    targets.dk = target(dk, ask.add);
    targets.dv = target(dv, ask.add);
    targets.dbias = target(dbias, ask.add);
    targets.dsinks = target(dsinks, ask.add);
    let call = Backward::new(problem, inputs, targets).unwrap();
    engine.backward(&call).unwrap();
    assert!(grads.iter().flatten().all(Strided::gaps_are_untouched));
    grads
}

fn target(grad: &mut Option<Strided>, add: bool) -> Option<Gradient<'_>> {
    let view = grad.as_mut()?.view_mut();
    Some(if add { Gradient::Add(view) } else { Gradient::Write(view) })
}

fn delta_of(problem: &Problem<'_>, attended: &Attended, dout: &Strided) -> Strided {
    let (out, dout) = (attended.out.values(), dout.values());
    let width = problem.head_dim_v();
    let heads = problem.heads_q();
    let rows_per_storage = *problem.lse_shape().last().unwrap();
    Strided::new(problem.lse_dtype(), &problem.lse_shape(), &Layout::default(), |i| {
        let (storage, h, row) = match *i {
            [b, h, i] => (b, h, i),
            [h, i] => (0, h, i),
            _ => unreachable!(),
        };
        let at = ((storage * rows_per_storage + row) * heads + h) * width;
        (at..at + width).map(|n| out[n] * dout[n]).sum()
    })
}

/// The shape and dtype of each tensor that has a gradient.
pub fn gradient_shapes(tensors: &Tensors) -> [Option<(Vec<usize>, DType)>; 5] {
    let of = |x: &Strided| (x.view().shape().to_vec(), x.view().dtype());
    let Tensors { q, k, v, bias, sinks, .. } = tensors;
    [Some(of(q)), Some(of(k)), Some(of(v)), bias.as_ref().map(of), sinks.as_ref().map(of)]
}

/// The gradients of a case for an upstream gradient made from `seed`.
pub fn backward_of(
    engine: &Engine,
    problem: &Problem<'_>,
    tensors: &Tensors,
    attended: &Attended,
    ask: &Ask,
    seed: u64,
) -> Grads {
    let upstream = upstream(problem, ask, seed);
    backward(engine, problem, gradient_shapes(tensors), attended, &upstream, ask)
}

/// Runs a case forward and backward on one instruction set and judges everything.
pub fn check(case: &Case, ask: &Ask, isa: IsaKind, threads: usize) -> Result<(), String> {
    let tensors = case.tensors();
    judge(&engine(isa, threads), &case.attention(&tensors), &tensors, ask, case.seed)
}

/// Runs a call forward and backward and judges everything.
pub fn judge(
    engine: &Engine,
    attention: &Attention<'_>,
    tensors: &Tensors,
    ask: &Ask,
    seed: u64,
) -> Result<(), String> {
    let problem =
        Problem::new(attention, tensors.q.view(), tensors.k.view(), tensors.v.view()).unwrap();
    let attended = forward(engine, &problem, &ask.layouts[3]);
    let exact = reference::forward(&problem).unwrap();
    let yard = reference::in_dtype::forward(&problem).unwrap();
    let out = attended.out.values();
    judge::out_close(problem.out_dtype(), &exact.lse, &exact.out, &yard.out, &out)?;
    judge::lse_close(problem.dtype(), &exact.lse, &attended.lse.values())?;

    let upstream = upstream(&problem, ask, seed);
    let dout = upstream.0.values();
    let dlse = upstream.1.as_ref().map(Strided::values);
    let shapes = gradient_shapes(tensors);
    let grads = backward(engine, &problem, shapes, &attended, &upstream, ask);
    let truth = reference::backward(&problem, &dout, dlse.as_deref()).unwrap();
    let yard = reference::in_dtype::backward(&problem, &dout, dlse.as_deref()).unwrap();
    let all = |g: reference::Gradients| [Some(g.dq), Some(g.dk), Some(g.dv), g.dbias, g.dsinks];
    let names = ["dq", "dk", "dv", "dbias", "dsinks"];
    // |dP| ≤ ‖dout‖·‖v‖, and dq and dk multiply differences of such numbers.
    let dp = norm(&dout, problem.head_dim_v()) * norm(&tensors.v.values(), problem.head_dim_v());
    let scale = problem.scale().abs();
    let [q, k] = [&tensors.q, &tensors.k].map(|x| norm(&x.values(), 1));
    let terms = [dp * scale * k, dp * scale * q, 0.0, dp, dp];
    let delta_error = delta_error(&problem, &exact, &dout) + judge::ulp(DType::F32, dp);
    let results = names.iter().zip(grads).zip(all(truth)).zip(all(yard));
    for (n, (((name, grad), truth), yard)) in results.enumerate() {
        let (Some(grad), Some(truth), Some(yard)) = (grad, truth, yard) else { continue };
        let before = if ask.add { BEFORE } else { 0.0 };
        let plus = |x: Vec<f64>| x.into_iter().map(|x| x + before).collect::<Vec<_>>();
        let dtype = grad.view().dtype();
        // dsinks and dbias are sums of many rows into few numbers: the yardstick can be right by
        // chance.
        let rows = exact.lse.len() as f64;
        let slack = match *name {
            "dsinks" => delta_error * rows.sqrt(),
            "dbias" => {
                let shape = grad.view().shape().to_vec();
                let folded = rows / (shape[0] * shape[1] * shape[2]) as f64;
                2.0 * delta_error * folded.max(1.0).sqrt()
            }
            // The yardstick's own delta can be right by chance.
            "dq" => delta_error * scale * k,
            "dk" => delta_error * scale * q,
            _ => 0.0,
        };
        // dk adds up such differences over all queries; the weights of dq sum to 1.
        let added = if *name == "dk" { rows.sqrt() } else { 1.0 };
        let slack = slack + 2.0 * added * judge::ulp(DType::F32, terms[n]);
        let (truth, yard) = (plus(truth), plus(yard));
        judge::gradient_close(name, dtype, &exact.lse, slack, &truth, &yard, &grad.values())?;
    }
    Ok(())
}

/// The largest length of a row of `width` numbers.
fn norm(values: &[f64], width: usize) -> f64 {
    let length = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>().sqrt();
    values.chunks(width).map(length).fold(0.0, f64::max)
}

/// What rounding may do to a row's delta, in each term: half an ulp of out's type, and of the inputs'
/// type, to which the probabilities are rounded before they meet v.
fn delta_error(problem: &Problem<'_>, exact: &reference::Attended, dout: &[f64]) -> f64 {
    let width = problem.head_dim_v();
    let unit = judge::ulp(problem.out_dtype(), 1.0).max(judge::ulp(problem.dtype(), 1.0));
    let rows = exact.out.chunks(width).zip(dout.chunks(width));
    let sizes = rows.map(|(out, dout)| out.iter().zip(dout).map(|(a, b)| (a * b).abs()).sum());
    unit * sizes.fold(0.0, f64::max)
}

/// out and lse of a call, in row-major order.
pub fn attend(isa: IsaKind, attention: &Attention<'_>, tensors: &Tensors) -> (Vec<f64>, Vec<f64>) {
    let problem =
        Problem::new(attention, tensors.q.view(), tensors.k.view(), tensors.v.view()).unwrap();
    let attended = forward(&engine(isa, 2), &problem, &Layout::default());
    (attended.out.values(), attended.lse.values())
}

/// dq, dk and dv of a call for this dout, in row-major order.
pub fn gradients(
    isa: IsaKind,
    attention: &Attention<'_>,
    tensors: &Tensors,
    dout: Strided,
) -> [Vec<f64>; 3] {
    let problem =
        Problem::new(attention, tensors.q.view(), tensors.k.view(), tensors.v.view()).unwrap();
    let engine = engine(isa, 2);
    let attended = forward(&engine, &problem, &Layout::default());
    let ask = Ask { wanted: [true, true, true, false, false], ..Ask::default() };
    let shapes = gradient_shapes(tensors);
    let grads = backward(&engine, &problem, shapes, &attended, &(dout, None), &ask);
    let [dq, dk, dv, ..] = grads.map(|grad| grad.map_or_else(Vec::new, |grad| grad.values()));
    [dq, dk, dv]
}
