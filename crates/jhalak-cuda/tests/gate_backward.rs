//! The backward kernels assemble for their targets, and the tuned ones hardly spill.

use jhalak_cases::case::any_case;
use jhalak_cuda::kernels::portable;
use jhalak_cuda::plan::{BackwardPlan, BackwardWorkspace, DqSum, Limits};
use jhalak_gate::{Gate, Kernel};
use jhalak_problem::{
    Attention, Backward, BackwardInputs, DType, Device, Gradient, GradientTargets, OutOrDelta,
    Problem, TensorView, TensorViewMut,
};
use jhalak_ptx::Target;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

fn contiguous(shape: &[usize]) -> Vec<isize> {
    (0..shape.len()).map(|d| shape[d + 1..].iter().product::<usize>() as isize).collect()
}

/// A view of device memory that nobody reads.
fn view(dtype: DType, shape: &[usize]) -> TensorView<'static> {
    let (ptr, strides) = (std::ptr::without_provenance(1 << 20), contiguous(shape));
    // SAFETY: the host reads nothing of another device's memory.
    unsafe { TensorView::from_raw(ptr, dtype, Device::Cuda(0), shape, &strides) }.unwrap()
}

fn gradient(dtype: DType, shape: &[usize], at: usize) -> Option<Gradient<'static>> {
    let (ptr, strides) = (std::ptr::without_provenance_mut(at << 40), contiguous(shape));
    // SAFETY: the host writes nothing to another device's memory.
    let view = unsafe { TensorViewMut::from_raw(ptr, dtype, Device::Cuda(0), shape, &strides) };
    Some(Gradient::Write(view.unwrap()))
}

/// The plan of a call for dq, dk and dv, and dbias where there is a bias.
fn plan(problem: &Problem<'_>, limits: Limits) -> Option<BackwardPlan> {
    let inputs = problem.tensors();
    let numbers = view(DType::F32, &problem.lse_shape());
    let dout = view(problem.dtype(), &problem.out_shape());
    let mut targets = GradientTargets::default();
    targets.dq = gradient(problem.dtype(), inputs.q.shape(), 1);
    targets.dk = gradient(problem.dtype(), inputs.k.shape(), 2);
    targets.dv = gradient(problem.dtype(), inputs.v.shape(), 3);
    targets.dbias = inputs.bias.and_then(|bias| gradient(bias.dtype(), bias.shape(), 7));
    let out = OutOrDelta::Delta(numbers);
    let inputs = BackwardInputs { dout, out, lse: numbers, dlse: None };
    let call = Backward::new(problem, inputs, targets).unwrap();
    let columns = problem.head_dim().next_multiple_of(16) as u32;
    let dq_sum = Some(DqSum { address: 4 << 40, columns });
    let dbias_sum = Some(6 << 40);
    let turns = problem.is_deterministic().then_some(8 << 40);
    let workspace = BackwardWorkspace { delta: 5 << 40, dq_sum, dbias_sum, turns };
    BackwardPlan::new(&call, limits, &workspace).unwrap()
}

fn assembled(gate: &Gate, plan: &BackwardPlan, architecture: &str) -> Kernel {
    let module = portable::backward(&plan.class).unwrap();
    let assembled = gate.assemble(&module.text(), architecture).unwrap();
    assembled.assert_no_advisory();
    assembled.kernel(portable::BACKWARD).clone()
}

/// Bytes of spilled registers that a kernel may store: what the tuned ones did when they were tuned.
const SPILLS: u32 = 48;

#[test]
fn tuned_backward_kernels_spill_no_more_than_when_they_were_tuned() {
    let gate = Gate::new().unwrap();
    // The shared memory of one device is larger than that of the smallest of its architecture.
    let large = Limits { shared_bytes: 163 * 1024, ..Limits::of(Target::Sm80) };
    for (dtype, limits, architecture) in [
        (DType::BF16, large, "sm_80"),
        (DType::F16, large, "sm_90"),
        (DType::BF16, Limits::of(Target::Sm80), "sm_89"),
        (DType::F16, Limits::of(Target::Sm75), "sm_75"),
        (DType::F32, large, "sm_80"),
    ] {
        for dim in [32, 64, 96, 128, 192, 256] {
            let ordered = Attention::new().causal().deterministic();
            for attention in [Attention::new(), Attention::new().causal(), ordered] {
                let x = view(dtype, &[2, 1024, 4, dim]);
                let problem = Problem::new(&attention, x, x, x).unwrap();
                let plan = plan(&problem, limits).expect("there is work");
                let kernel = assembled(&gate, &plan, architecture);
                let spilled = kernel.spill_stores;
                assert!(spilled <= SPILLS, "{dtype} {architecture} {dim}: {kernel:?}");
            }
        }
    }
}

/// Every option and layout, as the emulator's tests draw them, always the same ones.
#[test]
fn backward_kernels_with_any_options_assemble() {
    let gate = Gate::new().unwrap();
    for (dtypes, target, architecture) in [
        (&[DType::F16, DType::BF16, DType::F32][..], Target::Sm80, "sm_80"),
        (&[DType::F16, DType::F32], Target::Sm75, "sm_75"),
    ] {
        let mut runner = TestRunner::deterministic();
        let cases = any_case(dtypes, 150);
        for _ in 0..40 {
            let case = cases.new_tree(&mut runner).unwrap().current();
            let tensors = case.tensors();
            let views = tensors.views_on(Device::Cuda(0), |_| 1 << 20);
            let problem = Problem::new(&case.options(&views), views.q, views.k, views.v).unwrap();
            if let Some(plan) = plan(&problem, Limits::of(target)) {
                assembled(&gate, &plan, architecture);
            }
        }
    }
}
