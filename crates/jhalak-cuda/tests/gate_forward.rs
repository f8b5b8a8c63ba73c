//! The forward kernels assemble for their targets, and the tuned ones do not spill.

use jhalak_cases::case::any_case;
use jhalak_cuda::kernels::portable;
use jhalak_cuda::plan::{ForwardPlan, Limits, SplitWorkspace};
use jhalak_gate::{Gate, Kernel};
use jhalak_problem::{Attention, DType, Device, Forward, Problem, TensorView, TensorViewMut};
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

fn view_mut(dtype: DType, shape: &[usize], at: usize) -> TensorViewMut<'static> {
    let (ptr, strides) = (std::ptr::without_provenance_mut(at << 40), contiguous(shape));
    // SAFETY: the host writes nothing to another device's memory.
    unsafe { TensorViewMut::from_raw(ptr, dtype, Device::Cuda(0), shape, &strides) }.unwrap()
}

fn assembled(
    gate: &Gate,
    attention: &Attention<'_>,
    dtype: DType,
    [queries, dim]: [usize; 2],
    limits: Limits,
    architecture: &str,
) -> Kernel {
    let (q, x) = (view(dtype, &[2, queries, 4, dim]), view(dtype, &[2, 1024, 4, dim]));
    let problem = Problem::new(attention, q, x, x).unwrap();
    let out = view_mut(problem.out_dtype(), &problem.out_shape(), 1);
    let lse = view_mut(problem.lse_dtype(), &problem.lse_shape(), 2);
    // Few queries as they are when their keys are split.
    let split = (queries < 64).then(|| SplitWorkspace::at(3 << 40, &problem, 8));
    let call = Forward::new(&problem, out, lse).unwrap();
    let plan = ForwardPlan::new(&call, limits, split.as_ref());
    let plan = plan.unwrap().expect("there is work");
    let module = plan.class.module().unwrap();
    let assembled = gate.assemble(&module.text(), architecture).unwrap();
    assembled.assert_no_advisory();
    assembled.kernel(portable::FORWARD).clone()
}

/// Bytes of spilled registers that a kernel may store: what the tuned ones did when they were tuned.
/// A head dimension of 256 takes half of a thread's registers for its results alone.
fn spills_at_most(dim: usize) -> u32 {
    match dim {
        256 => 320,
        _ => 32,
    }
}

#[test]
fn tuned_forward_kernels_spill_no_more_than_when_they_were_tuned() {
    let gate = Gate::new().unwrap();
    for (dtype, target, architecture) in [
        (DType::BF16, Target::Sm80, "sm_80"),
        (DType::F16, Target::Sm80, "sm_90"),
        (DType::BF16, Target::Sm80, "sm_89"),
        (DType::F16, Target::Sm75, "sm_75"),
        (DType::F32, Target::Sm80, "sm_80"),
    ] {
        for dim in [32, 64, 96, 128, 192, 256] {
            for attention in [Attention::new(), Attention::new().causal()] {
                let limits = Limits::of(target);
                let kernel = assembled(&gate, &attention, dtype, [1024, dim], limits, architecture);
                let spilled = kernel.spill_stores;
                assert!(spilled <= spills_at_most(dim), "{dtype} {architecture} {dim}: {kernel:?}");
                for queries in [1, 20] {
                    let sizes = [queries, dim];
                    let kernel = assembled(&gate, &attention, dtype, sizes, limits, architecture);
                    let spilled = kernel.spill_stores;
                    assert!(
                        spilled <= spills_at_most(dim),
                        "{dtype} {architecture} {dim}: {kernel:?}"
                    );
                }
            }
        }
    }
}

/// Every option and layout, as the emulator's tests draw them, always the same ones.
#[test]
fn forward_kernels_with_any_options_assemble() {
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
            let out = view_mut(problem.out_dtype(), &problem.out_shape(), 1);
            let lse = view_mut(problem.lse_dtype(), &problem.lse_shape(), 2);
            let call = Forward::new(&problem, out, lse).unwrap();
            let Some(plan) = ForwardPlan::new(&call, Limits::of(target), None).unwrap() else {
                continue;
            };
            let text = plan.class.module().unwrap().text();
            gate.assemble(&text, architecture).unwrap().assert_no_advisory();
        }
    }
}
