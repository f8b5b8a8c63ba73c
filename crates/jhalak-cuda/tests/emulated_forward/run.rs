//! Runs a case's forward pass in the emulator, into poisoned outputs, and judges the results.

use jhalak_cases::attended::Attended;
use jhalak_cases::case::{Case, Tensors};
use jhalak_cuda::kernels::KernelClass;
use jhalak_cuda::plan::{ForwardPlan, Limits, PassPlan, Path, SplitWorkspace, Value};
use jhalak_problem::{Device, Forward, Problem};
use jhalak_ptx::emulator::{Argument, Launch, Memory};

/// Where the emulator's tensors are said to be: a device that the host does not read.
const DEVICE: Device = Device::Cuda(0);
/// Enough for the largest case.
const STEPS: u64 = 1 << 30;

/// Runs a case and judges it, its keys whole or split into parts.
pub fn check_parts(case: &Case, limits: Limits, parts: u32) -> Result<(), String> {
    let tensors = case.tensors();
    let (q, k, v) = (tensors.q.view(), tensors.k.view(), tensors.v.view());
    let problem = Problem::new(&case.attention(&tensors), q, k, v).unwrap();
    forward_parts(case, &tensors, limits, parts)?.judge(&problem)
}

/// The kernels that run a case.
pub fn path(case: &Case, limits: Limits) -> Path {
    let tensors = case.tensors();
    let mut at = 0;
    let views = tensors.views_on(DEVICE, |_| {
        at += 1 << 40;
        at
    });
    let attention = case.options(&views);
    let problem = Problem::new(&attention, views.q, views.k, views.v).unwrap();
    let attended = &mut Attended::poisoned(&problem, &case.layouts[3]);
    let [out_at, lse_at] = [1 << 56, 1 << 57];
    // SAFETY: the host writes nothing to another device's memory.
    let outputs = unsafe {
        (attended.out.view_mut_at(out_at, DEVICE), attended.lse.view_mut_at(lse_at, DEVICE))
    };
    let call = Forward::new(&problem, outputs.0, outputs.1).unwrap();
    ForwardPlan::new(&call, limits, None).unwrap().expect("there is work").path
}

/// Runs a case and judges it.
pub fn check(case: &Case, limits: Limits) -> Result<(), String> {
    judged(case, &case.tensors(), limits)
}

/// Runs a case on these tensors and judges it.
pub fn judged(case: &Case, tensors: &Tensors, limits: Limits) -> Result<(), String> {
    let (q, k, v) = (tensors.q.view(), tensors.k.view(), tensors.v.view());
    let problem = Problem::new(&case.attention(tensors), q, k, v).unwrap();
    forward(case, tensors, limits)?.judge(&problem)
}

/// Runs a case in the emulator.
pub fn forward(case: &Case, tensors: &Tensors, limits: Limits) -> Result<Attended, String> {
    forward_parts(case, tensors, limits, 1)
}

/// Runs a case in the emulator with its keys split into so many parts, which are merged.
pub fn forward_parts(
    case: &Case,
    tensors: &Tensors,
    limits: Limits,
    parts: u32,
) -> Result<Attended, String> {
    let mut memory = Memory::new();
    let views = tensors.views_on(DEVICE, |bytes| memory.alloc(bytes));
    let attention = case.options(&views);
    let problem = Problem::new(&attention, views.q, views.k, views.v).unwrap();
    let mut attended = Attended::poisoned(&problem, &case.layouts[3]);
    let Attended { out, lse } = &mut attended;
    let [out_at, lse_at] = [&*out, &*lse].map(|tensor| memory.alloc(&tensor.bytes()));
    // SAFETY: the host writes nothing to another device's memory.
    let outputs = unsafe { (out.view_mut_at(out_at, DEVICE), lse.view_mut_at(lse_at, DEVICE)) };
    let call = Forward::new(&problem, outputs.0, outputs.1).unwrap();
    let split = (parts > 1).then(|| {
        let poison = vec![0xff; SplitWorkspace::bytes(&problem, parts)];
        SplitWorkspace::at(memory.alloc(&poison), &problem, parts)
    });
    let mut run = |class: KernelClass, grid, arguments: &[Value]| {
        launch(&class, grid, arguments, case.seed, &mut memory)
    };
    if let Some(plan) = ForwardPlan::new(&call, limits, split.as_ref()).unwrap() {
        run(plan.class, plan.grid, &plan.arguments)?;
    }
    let merge = split.map(|split| PassPlan::combine(&call, limits, &split).unwrap());
    if let Some(plan) = merge.flatten() {
        run(plan.class.into(), plan.grid, &plan.arguments)?;
    }
    for (tensor, at) in [(out, out_at), (lse, lse_at)] {
        let count = tensor.bytes().len();
        tensor.set_bytes(&memory.read(at, count).map_err(|fault| fault.to_string())?);
    }
    Ok(attended)
}

fn launch(
    class: &KernelClass,
    [x, y]: [u32; 2],
    arguments: &[Value],
    seed: u64,
    memory: &mut Memory,
) -> Result<(), String> {
    let module = class.module().map_err(|error| error.to_string())?;
    let mut launch = Launch::new(&module, class.name())
        .grid(x, y, 1)
        .block(class.threads())
        .dynamic_shared(class.shared_bytes())
        .seed(seed)
        .step_limit(STEPS);
    for argument in arguments {
        launch = match *argument {
            Value::U32(value) => launch.arg(value),
            Value::U64(value) => launch.arg(value),
            Value::F32(value) => launch.arg(value),
            Value::Map(tensor) => {
                let (spec, base) = (tensor.spec(), tensor.address());
                launch.arg(Argument::Tensor { spec, base })
            }
        };
    }
    launch.run(memory).map(|_| ()).map_err(|report| format!("{report}\n{class:?}"))
}
