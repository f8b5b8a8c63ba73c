//! Runs a case on the GPU, into poisoned outputs, and judges the results.

use std::sync::OnceLock;

use jhalak_cases::attended::Attended;
use jhalak_cases::case::{Case, Tensors};
use jhalak_cases::gradients::{Ask, Gradients};
use jhalak_cases::strided::Strided;
use jhalak_cuda::Engine;
use jhalak_cuda::plan::Limits;
use jhalak_problem::{Backward, BackwardInputs, Device, Forward, OutOrDelta, Problem};
use jhalak_ptx::Target;

use crate::memory::Memory;

const DEVICE: Device = Device::Cuda(0);

/// The first GPU, with the kernels of an architecture: of Hopper where they cover the call. Kernels are shared by all tests.
pub fn engine(target: Target) -> Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    let engine = ENGINE.get_or_init(|| Engine::new(0).unwrap()).clone();
    match target {
        Target::Sm75 => engine.with_limits(Limits::of(target)),
        Target::Sm90a => engine,
        _ => {
            let portable = engine.limits().portable();
            engine.with_limits(portable)
        }
    }
}

/// Runs a case forward and, with its result, backward, and judges both.
pub fn check(case: &Case, ask: &Ask, target: Target) -> Result<(), String> {
    let tensors = case.tensors();
    let (q, k, v) = (tensors.q.view(), tensors.k.view(), tensors.v.view());
    let problem = Problem::new(&case.attention(&tensors), q, k, v).unwrap();
    let engine = engine(target);
    let attended = forward(&engine, case, &tensors)?;
    attended.judge(&problem)?;
    let (dout, dlse) = ask.upstream(&problem, case.seed);
    let gradients = backward(&engine, case, &tensors, &attended, ask, (&dout, dlse.as_ref()))?;
    let dlse = dlse.as_ref().map(Strided::values);
    gradients.judge(&problem, &tensors, &dout.values(), dlse.as_deref())
}

/// Runs a case forward.
pub fn forward(engine: &Engine, case: &Case, tensors: &Tensors) -> Result<Attended, String> {
    let mut memory = Memory::new(engine.context());
    let stream = engine.context().stream().unwrap();
    let views = tensors.views_on(DEVICE, |bytes| memory.upload(bytes));
    let attention = case.options(&views);
    let problem = Problem::new(&attention, views.q, views.k, views.v).unwrap();
    let mut attended = Attended::poisoned(&problem, &case.layouts[3]);
    let Attended { out, lse } = &mut attended;
    let [out_at, lse_at] = [&*out, &*lse].map(|tensor| memory.upload(&tensor.bytes()));
    // SAFETY: the host writes nothing to another device's memory.
    let outputs = unsafe { (out.view_mut_at(out_at, DEVICE), lse.view_mut_at(lse_at, DEVICE)) };
    let call = Forward::new(&problem, outputs.0, outputs.1).unwrap();
    let workspace = engine.forward_workspace_bytes(&problem).unwrap();
    let workspace = memory.allocate(workspace);
    // SAFETY: the memory lives until the stream has done the work.
    let launched = unsafe { engine.forward(&stream, &call, workspace) };
    launched.and_then(|()| Ok(stream.synchronize()?)).map_err(|error| error.to_string())?;
    memory.download(out, out_at);
    memory.download(lse, lse_at);
    Ok(attended)
}

/// Runs a case backward.
pub fn backward(
    engine: &Engine,
    case: &Case,
    tensors: &Tensors,
    attended: &Attended,
    ask: &Ask,
    (dout, dlse): (&Strided, Option<&Strided>),
) -> Result<Gradients, String> {
    let mut memory = Memory::new(engine.context());
    let stream = engine.context().stream().unwrap();
    let views = tensors.views_on(DEVICE, |bytes| memory.upload(bytes));
    let attention = case.options(&views);
    let problem = Problem::new(&attention, views.q, views.k, views.v).unwrap();
    let [out_at, lse_at, dout_at] =
        [&attended.out, &attended.lse, dout].map(|tensor| memory.upload(&tensor.bytes()));
    let dlse_at = dlse.map(|tensor| memory.upload(&tensor.bytes()));
    // SAFETY: the host reads nothing of another device's memory.
    let inputs = unsafe {
        BackwardInputs {
            dout: dout.view_at(dout_at, DEVICE),
            out: OutOrDelta::Out(attended.out.view_at(out_at, DEVICE)),
            lse: attended.lse.view_at(lse_at, DEVICE),
            dlse: dlse.zip(dlse_at).map(|(tensor, at)| tensor.view_at(at, DEVICE)),
        }
    };
    let mut gradients = Gradients::poisoned(&problem, tensors, ask);
    let mut places = [0; 5];
    let targets = gradients.targets(|n, tensor| {
        places[n] = memory.upload(&tensor.bytes());
        // SAFETY: the host writes nothing to another device's memory.
        unsafe { tensor.view_mut_at(places[n], DEVICE) }
    });
    let dbias = targets.dbias.is_some();
    let workspace = memory.allocate(Engine::backward_workspace_bytes(&problem, dbias));
    let call = Backward::new(&problem, inputs, targets).unwrap();
    // SAFETY: the memory lives until the stream has done the work.
    let launched = unsafe { engine.backward(&stream, &call, workspace) };
    launched.and_then(|()| Ok(stream.synchronize()?)).map_err(|error| error.to_string())?;
    for (tensor, place) in gradients.tensors.iter_mut().zip(places) {
        if let Some(tensor) = tensor {
            memory.download(tensor, place);
        }
    }
    Ok(gradients)
}
