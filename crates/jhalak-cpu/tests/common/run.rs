//! Runs a case on an engine, into poisoned outputs, and judges the results.

use jhalak_cpu::{Engine, IsaKind};
use jhalak_problem::reference::{self, judge};
use jhalak_problem::{
    Backward, BackwardInputs, DType, Forward, Gradient, GradientTargets, OutOrDelta, Problem,
};

use super::case::Case;
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

/// Runs a case forward and backward on one instruction set and judges everything.
pub fn check(case: &Case, ask: &Ask, isa: IsaKind, threads: usize) -> Result<(), String> {
    let engine = engine(isa, threads);
    let tensors = case.tensors();
    let attention = case.attention(&tensors);
    let problem =
        Problem::new(&attention, tensors.q.view(), tensors.k.view(), tensors.v.view()).unwrap();
    let attended = forward(&engine, &problem, &ask.layouts[3]);
    let exact = reference::forward(&problem).unwrap();
    let yard = reference::in_dtype::forward(&problem).unwrap();
    let out = attended.out.values();
    judge::close("out", problem.out_dtype(), 2.0, &exact.out, &yard.out, &out)?;
    judge::lse_close(problem.dtype(), &exact.lse, &attended.lse.values())?;

    let upstream = upstream(&problem, ask, case.seed);
    let dout = upstream.0.values();
    let dlse = upstream.1.as_ref().map(Strided::values);
    let dtype_of =
        |x: &Option<Strided>| x.as_ref().map(|x| (x.view().shape().to_vec(), x.view().dtype()));
    let input = |x: &Strided| Some((x.view().shape().to_vec(), problem.dtype()));
    let shapes = [
        input(&tensors.q),
        input(&tensors.k),
        input(&tensors.v),
        dtype_of(&tensors.bias),
        dtype_of(&tensors.sinks),
    ];
    let grads = backward(&engine, &problem, shapes, &attended, &upstream, ask);
    let truth = reference::backward(&problem, &dout, dlse.as_deref()).unwrap();
    let yard = reference::in_dtype::backward(&problem, &dout, dlse.as_deref()).unwrap();
    let all = |g: reference::Gradients| [Some(g.dq), Some(g.dk), Some(g.dv), g.dbias, g.dsinks];
    let names = ["dq", "dk", "dv", "dbias", "dsinks"];
    for (((name, grad), truth), yard) in names.iter().zip(grads).zip(all(truth)).zip(all(yard)) {
        let (Some(grad), Some(truth), Some(yard)) = (grad, truth, yard) else { continue };
        let before = if ask.add { BEFORE } else { 0.0 };
        let plus = |x: Vec<f64>| x.into_iter().map(|x| x + before).collect::<Vec<_>>();
        let dtype = grad.view().dtype();
        if *name == "dsinks" {
            // One number per head, so the yardstick can be right by chance.
            let slack = sink_slack(&problem, &exact, &dout);
            for (h, value) in grad.values().into_iter().enumerate() {
                let error = (value - before - truth[h]).abs();
                let bound = 3.0 * (yard[h] - truth[h]).abs() + slack[h];
                if error > bound {
                    return Err(format!("dsinks[{h}] is {error:e} off, bound {bound:e}"));
                }
            }
            continue;
        }
        judge::close(name, dtype, 3.0, &plus(truth), &plus(yard), &grad.values())?;
    }
    Ok(())
}

/// What rounding out may do to the sinks' gradient through delta: for each head, one unit of out's
/// type of Σ |dout ∘ out|, plus f32 rounding.
fn sink_slack(problem: &Problem<'_>, exact: &reference::Attended, dout: &[f64]) -> Vec<f64> {
    let (heads, width) = (problem.heads_q(), problem.head_dim_v());
    let unit = judge::ulp(problem.out_dtype(), 1.0) + judge::ulp(DType::F32, 1.0);
    let mut slack = vec![1e-6; heads];
    for (n, (out, dout)) in exact.out.iter().zip(dout).enumerate() {
        slack[n / width % heads] += unit * (out * dout).abs();
    }
    slack
}
