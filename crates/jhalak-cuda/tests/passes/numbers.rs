//! Numbers for tests.

use half::{bf16, f16};
use jhalak_problem::DType;

/// The `n`th of numbers between −1 and 1 that look random.
pub fn noise(n: usize) -> f64 {
    let mut x = (n as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(0x2545_F491_4F6C_DD1D);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (x >> 11) as f64 / (1u64 << 52) as f64 - 1.0
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
