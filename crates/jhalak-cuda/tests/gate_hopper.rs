//! The kernels for Hopper assemble, keep their registers, and are not serialised.

use jhalak_cuda::plan::{ForwardPlan, Limits, Path};
use jhalak_gate::{Gate, Kernel};
use jhalak_problem::{Attention, DType, Device, Forward, Problem, TensorView, TensorViewMut};
use jhalak_ptx::Target;

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

fn assembled(attention: &Attention<'_>, dtype: DType, keys: usize, dims: [usize; 2]) -> Kernel {
    let q = view(dtype, &[2, keys, 4, dims[0]]);
    let v = view(dtype, &[2, keys, 4, dims[1]]);
    let problem = Problem::new(attention, q, q, v).unwrap();
    let out = view_mut(problem.out_dtype(), &problem.out_shape(), 1);
    let lse = view_mut(problem.lse_dtype(), &problem.lse_shape(), 2);
    let call = Forward::new(&problem, out, lse).unwrap();
    let plan = ForwardPlan::new(&call, Limits::of(Target::Sm90a), None).unwrap().unwrap();
    assert_eq!(plan.path, Path::Hopper);
    let module = plan.class.module().unwrap();
    let assembled = Gate::new().unwrap().assemble(&module.text(), "sm_90a").unwrap();
    assembled.assert_no_advisory();
    assembled.kernel(plan.class.name()).clone()
}

#[test]
fn tuned_kernels_do_not_spill() {
    for dims in [[128, 128], [64, 64], [256, 256], [192, 128], [192, 192], [96, 96], [64, 128]] {
        for keys in [1024, 8192] {
            for attention in [Attention::new(), Attention::new().causal()] {
                for dtype in [DType::BF16, DType::F16] {
                    let kernel = assembled(&attention, dtype, keys, dims);
                    assert_eq!(kernel.spill_stores, 0, "{dtype} {dims:?} {keys}: {kernel}");
                }
            }
        }
    }
}
