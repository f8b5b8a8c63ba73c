//! Small inputs that look random, and how far apart two tensors are.

use jhalak::{DType, Tensor};

/// Values in [-1, 1) that differ from seed to seed.
pub(crate) fn tensor(seed: u32, shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    let value = |i: usize| {
        let x = (i as u32).wrapping_mul(0x9E37_79B9).wrapping_add(seed.wrapping_mul(0x85EB_CA6B));
        let x = (x ^ (x >> 15)).wrapping_mul(0x2C1B_3C6D);
        (x ^ (x >> 12)) as f32 / 2f32.powi(31) - 1.0
    };
    Tensor::from_vec((0..n).map(value).collect(), shape).unwrap()
}

/// The largest difference; two −∞ are equal, a NaN is as far as can be.
#[allow(dead_code, reason = "not every test compares")]
pub(crate) fn difference(a: &Tensor, b: &Tensor) -> f64 {
    assert_eq!(a.shape(), b.shape());
    assert!(a.dtype() == b.dtype() || b.dtype() == DType::F32);
    let pairs = a.to_f64_vec().into_iter().zip(b.to_f64_vec());
    pairs.fold(0.0, |worst, (a, b)| {
        let d = if a == b { 0.0 } else { (a - b).abs() };
        if d.is_nan() { f64::INFINITY } else { worst.max(d) }
    })
}
