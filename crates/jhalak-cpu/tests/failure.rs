//! Settings that cannot be had, and tensors elsewhere, are errors that name them.

use jhalak_cpu::{Engine, IsaKind};
use jhalak_problem::{DType, Device, Error, TensorView, TensorViewMut};

#[test]
fn an_instruction_set_that_the_machine_lacks_is_an_error() {
    for isa in IsaKind::ALL.into_iter().filter(|isa| !isa.is_available()) {
        let error = Engine::with_isa(isa).unwrap_err();
        assert!(matches!(&error, Error::Environment(m) if m.contains(&isa.to_string())));
    }
}

#[test]
fn no_threads_at_all_are_an_error() {
    let error = Engine::with_isa(IsaKind::Scalar).unwrap().threads(0).unwrap_err();
    assert!(error.to_string().contains("threads"), "{error}");
}

#[test]
fn a_merge_of_tensors_on_another_device_is_an_error() {
    let (device, out_shape, lse_shape) = (Device::Cuda(0), [1, 2, 1, 4], [1, 1, 2]);
    let input = |address, shape: &[usize]| {
        let ptr = std::ptr::without_provenance(address);
        // SAFETY: never read: the device is refused.
        unsafe { TensorView::from_raw(ptr, DType::F32, device, shape, &vec![1; shape.len()]) }
            .unwrap()
    };
    let output = |address, shape: &[usize], strides: &[isize]| {
        let ptr = std::ptr::without_provenance_mut(address);
        // SAFETY: never written: the device is refused.
        unsafe { TensorViewMut::from_raw(ptr, DType::F32, device, shape, strides) }.unwrap()
    };
    let parts = [(input(0x1000, &out_shape), input(0x2000, &lse_shape))];
    let (out, lse) =
        (output(0x3000, &out_shape, &[8, 4, 4, 1]), output(0x4000, &lse_shape, &[2, 2, 1]));
    let engine = Engine::with_isa(IsaKind::Scalar).unwrap();
    let error = engine.merge(&parts, out, lse).unwrap_err();
    assert!(matches!(error, Error::Device { argument: "out", .. }), "{error}");
}
