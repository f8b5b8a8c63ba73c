//! Numbers for tests.

use half::{bf16, f16};
use jhalak_problem::DType;

/// The `n`th of numbers between −1 and 1 that look random.
pub fn noise(n: usize) -> f64 {
    jhalak_cases::strided::noise(0, &[n]) / 4.0
}

/// The nearest number of a type.
pub fn rounded(dtype: DType, x: f64) -> f64 {
    match dtype {
        DType::F16 => f16::from_f64(x).into(),
        DType::BF16 => bf16::from_f64(x).into(),
        _ => f64::from(x as f32),
    }
}

/// Half of the distance between neighbours of a type around a number.
pub fn half_ulp(dtype: DType, x: f64) -> f64 {
    let (bits, smallest) = match dtype {
        DType::F16 => (11, -14),
        DType::BF16 => (8, -126),
        _ => (24, -126),
    };
    let exponent = if x == 0.0 { smallest } else { (x.abs().log2().floor() as i32).max(smallest) };
    f64::from(exponent - bits).exp2()
}

/// Panics unless `found` is within `most` of `expected`, or both are NaN, or the same infinity.
#[track_caller]
pub fn assert_close(found: f64, expected: f64, most: f64, what: impl std::fmt::Display) {
    let same = found == expected || (found.is_nan() && expected.is_nan());
    let close = (found - expected).abs() <= most;
    assert!(same || close, "{what}: {found:e} instead of {expected:e}, not within {most:e}");
}
