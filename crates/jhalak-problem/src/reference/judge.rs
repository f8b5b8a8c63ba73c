//! The rule of how exact an engine must be.
//!
//! An engine may be at most so many times as far from the truth as plain attention in the inputs'
//! own type is, plus one unit in the last place of the largest number.

use crate::dtype::DType;

/// The distance of neighbouring numbers of `dtype` at `x`; that of the smallest normal number
/// below it.
pub fn ulp(dtype: DType, x: f64) -> f64 {
    let smallest = match dtype {
        DType::F16 => -14,
        DType::F64 => -1022,
        _ => -126,
    };
    // The exponent field; zero and subnormal numbers of f64 lie below every `smallest`.
    let exponent = ((x.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(smallest);
    2f64.powi(exponent + 1 - dtype.significand_bits() as i32)
}

/// Whether out is close enough: [`close`] with factor 2.
///
/// Scores are f32 in every engine, and a weight carries its score's rounding as a relative error.
/// In a small tensor the yardstick can be right by chance, so one ulp of the largest lse, times the
/// largest output, is allowed for it.
///
/// # Errors
/// A sentence that names the largest error, its place and the bound.
///
/// # Panics
/// If the lengths differ.
pub fn out_close(
    dtype: DType,
    lse: &[f64],
    truth: &[f64],
    yardstick: &[f64],
    values: &[f64],
) -> Result<(), String> {
    let slack = ulp(DType::F32, largest(lse)) * largest(truth);
    close("out", dtype, 2.0, slack, truth, yardstick, values)
}

/// Whether a gradient is close enough: [`close`] with factor 3.
///
/// A backward pass knows the softmax from lse, which is kept in f32: every weight carries its
/// rounding as a relative error, which the yardstick does not know. One ulp of the largest lse,
/// times the largest gradient, is allowed for it. `slack` is what the caller can account for
/// besides: differences of large numbers in f32, say.
///
/// # Errors
/// A sentence that names the largest error, its place and the bound.
///
/// # Panics
/// If the lengths differ.
pub fn gradient_close(
    what: &str,
    dtype: DType,
    lse: &[f64],
    slack: f64,
    truth: &[f64],
    yardstick: &[f64],
    values: &[f64],
) -> Result<(), String> {
    let slack = ulp(DType::F32, largest(lse)) * largest(truth) + slack;
    close(what, dtype, 3.0, slack, truth, yardstick, values)
}

/// The largest finite magnitude.
fn largest(values: &[f64]) -> f64 {
    values.iter().filter(|x| x.is_finite()).fold(0f64, |max, x| max.max(x.abs()))
}

/// Whether `values` are close enough to `truth`: largest error at most `factor` times the
/// yardstick's, plus 1 ulp of the largest true number in `dtype`, the type of the values, plus
/// `slack`.
///
/// A yardstick that happens to be exact (a sum of one term, say) counts as half an ulp wrong. f64
/// has no yardstick but itself: there the bound is 1e-13, and 1e-11 of the largest number.
///
/// # Errors
/// A sentence that names the largest error, its place and the bound.
///
/// # Panics
/// If the lengths differ.
pub fn close(
    what: &str,
    dtype: DType,
    factor: f64,
    slack: f64,
    truth: &[f64],
    yardstick: &[f64],
    values: &[f64],
) -> Result<(), String> {
    assert!(
        truth.len() == values.len() && truth.len() == yardstick.len(),
        "{what}: lengths differ"
    );
    let largest = largest(truth);
    let unit = ulp(dtype, largest);
    let yard = truth.iter().zip(yardstick).filter(|(t, y)| t.is_finite() && y.is_finite());
    let yard = yard.fold(0f64, |max, (t, y)| max.max((t - y).abs()));
    let bound = match dtype {
        DType::F64 => 1e-13 + 1e-11 * largest,
        _ => factor * yard.max(0.5 * unit) + unit + slack,
    };
    within(what, truth, values, |_| bound)
}

/// Whether lse is close enough: 1e-5 + 4 ulp for f32 inputs, 1e-3 or 4 ulp for 16-bit ones,
/// 1e-12 relative for f64.
///
/// # Errors
/// A sentence that names the largest error, its place and the bound.
///
/// # Panics
/// If the lengths differ.
pub fn lse_close(input: DType, truth: &[f64], values: &[f64]) -> Result<(), String> {
    assert_eq!(truth.len(), values.len(), "lse: lengths differ");
    within("lse", truth, values, |truth| match input {
        DType::F64 => 1e-12 * (1.0 + truth.abs()),
        DType::F32 => 1e-5 + 4.0 * ulp(DType::F32, truth),
        // Of huge scores, as of no others, 1e-3 is less than f32 can tell.
        _ => (4.0 * ulp(DType::F32, truth)).max(1e-3),
    })
}

/// ‖values − truth‖ / ‖truth‖ (Frobenius); 0 where they are equal, all zeros included.
pub fn relative_error(truth: &[f64], values: &[f64]) -> f64 {
    let square = |x: f64| x * x;
    let error: f64 = truth.iter().zip(values).map(|(t, v)| square(t - v)).sum();
    if error == 0.0 {
        return 0.0;
    }
    (error / truth.iter().map(|&t| square(t)).sum::<f64>()).sqrt()
}

/// NaN for NaN, infinities exactly, the rest within the bound at its place.
fn within(
    what: &str,
    truth: &[f64],
    values: &[f64],
    bound: impl Fn(f64) -> f64,
) -> Result<(), String> {
    let mut worst: Option<(f64, String)> = None;
    for (n, (&t, &v)) in truth.iter().zip(values).enumerate() {
        let right = if t.is_nan() {
            v.is_nan()
        } else if t.is_infinite() {
            v == t
        } else {
            (v - t).abs() <= bound(t)
        };
        let excess = if v.is_finite() { (v - t).abs() } else { f64::INFINITY };
        if !right && worst.as_ref().is_none_or(|(error, _)| excess > *error) {
            let bound = bound(t);
            worst = Some((excess, format!("{what}[{n}] is {v:e}, truth {t:e}, bound {bound:e}")));
        }
    }
    worst.map_or(Ok(()), |(_, message)| Err(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_tells_right_from_wrong() {
        let truth = [1.0, f64::NAN, f64::NEG_INFINITY, 0.25];
        let yard = [1.001, f64::NAN, f64::NEG_INFINITY, 0.25];
        let judge = |values: &[f64]| close("x", DType::F32, 2.0, 0.0, &truth, &yard, values);
        assert!(judge(&[1.0019, f64::NAN, f64::NEG_INFINITY, 0.2481]).is_ok());
        assert!(judge(&[1.0021, f64::NAN, f64::NEG_INFINITY, 0.25]).is_err());
        assert!(judge(&[1.0, 0.0, f64::NEG_INFINITY, 0.25]).is_err());
        assert!(judge(&[f64::NAN, f64::NAN, f64::NEG_INFINITY, 0.25]).is_err());
        assert!(judge(&[1.0, f64::NAN, -1e30, 0.25]).is_err());
        assert!(lse_close(DType::BF16, &[2.0], &[2.0009]).is_ok());
        assert!(lse_close(DType::F32, &[2.0], &[2.0009]).is_err());
        for wrong in [0.0, f64::INFINITY, f64::NAN] {
            assert!(lse_close(DType::F32, &[f64::NEG_INFINITY], &[wrong]).is_err());
        }
        let message = judge(&[1.0, f64::NAN, f64::NEG_INFINITY, 9.25]).unwrap_err();
        assert!(message.starts_with("x[3] is 9.25e0, truth 2.5e-1, bound "), "{message}");
        assert_eq!(relative_error(&[3.0, 4.0], &[3.0, 4.5]), 0.1);
        assert_eq!(relative_error(&[0.0], &[0.0]), 0.0);
    }

    #[test]
    fn ulps_are_those_of_the_type() {
        assert_eq!(ulp(DType::F32, 1.0), f64::from(f32::EPSILON));
        assert_eq!(ulp(DType::F64, 1.5), f64::EPSILON);
        assert_eq!(ulp(DType::BF16, 4.0), 2f64.powi(-5));
        assert_eq!(ulp(DType::F16, 1e-9), 2f64.powi(-24));
        assert_eq!(ulp(DType::F64, 8f64.next_down()), 4.0 * f64::EPSILON);
        assert_eq!(ulp(DType::F64, 0.0), 2f64.powi(-1074));
    }
}
