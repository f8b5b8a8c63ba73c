//! Runs a case's backward pass in the emulator, into poisoned outputs, and judges the gradients.

use jhalak_cases::case::{Case, Tensors};
use jhalak_cases::gradients::{Ask, Gradients};
use jhalak_cases::strided::{Layout, Strided};
use jhalak_cuda::kernels::passes::{self, DsinksClass, THREADS};
use jhalak_cuda::kernels::portable;
use jhalak_cuda::plan::{BackwardPlan, BackwardWorkspace, DqSum, Limits, PassPlan, Value};
use jhalak_problem::{
    Backward, BackwardInputs, DType, Device, OutOrDelta, Problem, TensorView, reference,
};
use jhalak_ptx::Module;
use jhalak_ptx::emulator::{Launch, Memory};

/// Where the emulator's tensors are said to be: a device that the host does not read.
const DEVICE: Device = Device::Cuda(0);
/// Enough for the largest case.
const STEPS: u64 = 1 << 30;

/// Runs a case and judges it.
pub fn check(case: &Case, ask: &Ask, limits: Limits) -> Result<(), String> {
    judged(case, &case.tensors(), ask, |dout| dout, limits)
}

/// Runs a case on these tensors, with a changed dout, and judges it.
pub fn judged(
    case: &Case,
    tensors: &Tensors,
    ask: &Ask,
    change: impl FnOnce(Strided) -> Strided,
    limits: Limits,
) -> Result<(), String> {
    let (q, k, v) = (tensors.q.view(), tensors.k.view(), tensors.v.view());
    let problem = Problem::new(&case.attention(tensors), q, k, v).unwrap();
    let (dout, dlse) = ask.upstream(&problem, case.seed);
    let dout = change(dout);
    let upstream = (&dout, dlse.as_ref());
    let gradients = backward(case, tensors, &problem, ask, upstream, limits, case.seed)?;
    let dlse = dlse.as_ref().map(Strided::values);
    gradients.judge(&problem, tensors, &dout.values(), dlse.as_deref())
}

/// Runs a case in the emulator, with blocks and warps in an order that follows from a seed; `host` is
/// its problem in host memory.
pub fn backward(
    case: &Case,
    tensors: &Tensors,
    host: &Problem<'_>,
    ask: &Ask,
    (dout, dlse): (&Strided, Option<&Strided>),
    limits: Limits,
    order: u64,
) -> Result<Gradients, String> {
    let mut memory = Memory::new();
    let views = tensors.views_on(DEVICE, |bytes| memory.alloc(bytes));
    let attention = case.options(&views);
    let problem = Problem::new(&attention, views.q, views.k, views.v).unwrap();
    let (out, lse) = attended(host);
    let [out, lse, dout] = [&out, &lse, dout].map(|tensor| on_device(&mut memory, tensor));
    let dlse = dlse.map(|dlse| on_device(&mut memory, dlse));
    let inputs = BackwardInputs { dout, out: OutOrDelta::Out(out), lse, dlse };

    let mut gradients = Gradients::poisoned(&problem, tensors, ask);
    let mut places = [0; 5];
    let targets = gradients.targets(|n, tensor| {
        places[n] = memory.alloc(&tensor.bytes());
        // SAFETY: the host writes nothing to another device's memory.
        unsafe { tensor.view_mut_at(places[n], DEVICE) }
    });
    run(&Backward::new(&problem, inputs, targets).unwrap(), limits, order, &mut memory)?;
    for (tensor, place) in gradients.tensors.iter_mut().zip(places) {
        let Some(tensor) = tensor else { continue };
        let count = tensor.bytes().len();
        tensor.set_bytes(&memory.read(place, count).map_err(|fault| fault.to_string())?);
    }
    Ok(gradients)
}

/// Launches the kernels of a call.
fn run(call: &Backward<'_>, limits: Limits, seed: u64, memory: &mut Memory) -> Result<(), String> {
    let problem = call.problem();
    let rows: usize = problem.lse_shape().iter().product();
    let columns = problem.head_dim().next_multiple_of(16);
    let workspace = BackwardWorkspace {
        delta: memory.alloc_uninitialised(4 * rows),
        dq_sum: call.targets().dq.as_ref().map(|_| DqSum {
            address: memory.alloc_uninitialised(4 * rows * columns),
            columns: columns as u32,
        }),
        dbias_sum: call.targets().dbias.as_ref().map(|dbias| {
            let elements: usize = dbias.view().shape().iter().product();
            memory.alloc(&vec![0; 4 * elements])
        }),
        turns: problem
            .is_deterministic()
            .then(|| memory.alloc(&vec![0; 4 * BackwardPlan::turns(problem)])),
    };
    let mut launch = |module: &Module, name, grid: [u32; 2], threads, shared, values: &[Value]| {
        let mut launch = Launch::new(module, name)
            .grid(grid[0], grid[1], 1)
            .block(threads)
            .dynamic_shared(shared)
            .seed(seed)
            .step_limit(STEPS);
        for value in values {
            launch = match *value {
                Value::U32(value) => launch.arg(value),
                Value::U64(value) => launch.arg(value),
                Value::F32(value) => launch.arg(value),
                Value::Map(_) => unreachable!("backward kernels have no tensor maps"),
            };
        }
        launch.run(memory).map(|_| ()).map_err(|report| report.to_string())
    };
    if let Some(plan) = PassPlan::delta(call, limits, &workspace).unwrap() {
        let module = passes::delta(&plan.class).unwrap();
        launch(&module, passes::DELTA, plan.grid, THREADS, 0, &plan.arguments)?;
    }
    if let Some(plan) = BackwardPlan::new(call, limits, &workspace).unwrap() {
        let module = portable::backward(&plan.class).unwrap();
        let (threads, shared) = (plan.threads(), plan.shared_bytes());
        launch(&module, portable::BACKWARD, plan.grid, threads, shared, &plan.arguments)
            .map_err(|report| format!("{report}\n{:?}", plan.class))?;
    }
    if let Some(plan) = PassPlan::finish_dq(call, limits, &workspace).unwrap() {
        let module = passes::finish_dq(&plan.class).unwrap();
        launch(&module, passes::FINISH_DQ, plan.grid, THREADS, 0, &plan.arguments)?;
    }
    if let Some(plan) = PassPlan::finish_dbias(call, limits, &workspace).unwrap() {
        let module = passes::finish_dbias(&plan.class).unwrap();
        launch(&module, passes::FINISH_DBIAS, plan.grid, THREADS, 0, &plan.arguments)?;
    }
    if let Some(plan) = PassPlan::dsinks(call, limits, &workspace).unwrap() {
        let module = passes::dsinks(&plan.class).unwrap();
        launch(&module, passes::DSINKS, plan.grid, DsinksClass::THREADS, 0, &plan.arguments)?;
    }
    Ok(())
}

/// out and lse as the reference has them, rounded.
fn attended(problem: &Problem<'_>) -> (Strided, Strided) {
    let exact = reference::forward(problem).unwrap();
    let tensor = |dtype, shape: &[usize], values: Vec<f64>| {
        let mut values = values.into_iter();
        Strided::new(dtype, shape, &Layout::default(), |_| values.next().expect("as many"))
    };
    let out = tensor(problem.out_dtype(), &problem.out_shape(), exact.out);
    (out, tensor(DType::F32, &problem.lse_shape(), exact.lse))
}

fn on_device<'t>(memory: &mut Memory, tensor: &'t Strided) -> TensorView<'t> {
    let address = memory.alloc(&tensor.bytes());
    // SAFETY: the host reads nothing of another device's memory.
    unsafe { tensor.view_at(address, DEVICE) }
}
