//! Runs a case's forward pass on the GPU, into poisoned outputs, and judges the results.

use std::sync::OnceLock;

use jhalak_cases::attended::Attended;
use jhalak_cases::case::{Case, Tensors};
use jhalak_cuda::Engine;
use jhalak_cuda::plan::Limits;
use jhalak_problem::{Device, Forward, Problem};
use jhalak_ptx::Target;

const DEVICE: Device = Device::Cuda(0);

/// The first GPU, with the kernels of an architecture. Kernels are shared by all tests.
pub fn engine(target: Target) -> Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    let engine = ENGINE.get_or_init(|| Engine::new(0).unwrap()).clone();
    match target {
        Target::Sm75 => engine.with_limits(Limits::of(target)),
        _ => engine,
    }
}

/// Runs a case and judges it.
pub fn check(case: &Case, target: Target) -> Result<(), String> {
    judged(case, &case.tensors(), target)
}

/// Runs a case on these tensors and judges it.
pub fn judged(case: &Case, tensors: &Tensors, target: Target) -> Result<(), String> {
    let (q, k, v) = (tensors.q.view(), tensors.k.view(), tensors.v.view());
    let problem = Problem::new(&case.attention(tensors), q, k, v).unwrap();
    forward(case, tensors, target)?.judge(&problem)
}

/// Runs a case on the GPU.
pub fn forward(case: &Case, tensors: &Tensors, target: Target) -> Result<Attended, String> {
    let engine = engine(target);
    let stream = engine.context().stream().unwrap();
    let mut buffers = Vec::new();
    let mut upload = |bytes: &[u8]| {
        let buffer = engine.context().allocate(bytes.len().max(1)).unwrap();
        // SAFETY: the memory is new and as large as what is copied.
        unsafe { engine.context().copy_to_device(buffer.address(), bytes).unwrap() };
        let address = buffer.address();
        buffers.push(buffer);
        address
    };
    let views = tensors.views_on(DEVICE, &mut upload);
    let attention = case.options(&views);
    let problem = Problem::new(&attention, views.q, views.k, views.v).unwrap();
    let mut attended = Attended::poisoned(&problem, &case.layouts[3]);
    let Attended { out, lse } = &mut attended;
    let [out_at, lse_at] = [&*out, &*lse].map(|tensor| upload(&tensor.bytes()));
    // SAFETY: the host writes nothing to another device's memory.
    let outputs = unsafe { (out.view_mut_at(out_at, DEVICE), lse.view_mut_at(lse_at, DEVICE)) };
    let call = Forward::new(&problem, outputs.0, outputs.1).unwrap();
    // SAFETY: the buffers live until the stream has done the work.
    let launched = unsafe { engine.forward(&stream, &call) };
    launched.and_then(|()| Ok(stream.synchronize()?)).map_err(|error| error.to_string())?;
    for (tensor, at) in [(out, out_at), (lse, lse_at)] {
        let mut bytes = tensor.bytes();
        // SAFETY: the memory is there, and the stream is done.
        unsafe { engine.context().copy_to_host(&mut bytes, at).unwrap() };
        tensor.set_bytes(&bytes);
    }
    Ok(attended)
}
