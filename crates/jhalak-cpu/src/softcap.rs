//! tanh and its derivative for soft-capped scores, branch-free so that loops are vectorised.
//!
//! With e = exp(−2|x|): tanh|x| = (1 − e) / (1 + e) and the derivative 1 − tanh² = 4e / (1 + e)²,
//! which keeps its relative accuracy where tanh is close to 1. Below 1/4 tanh is its power series.

use crate::isa::Float;

/// Element types whose tanh a score needs.
pub(crate) trait Softcap: Float {
    /// (tanh x, 1 − tanh² x), each to 1e-6 relative.
    fn tanh_and_slope(self) -> (Self, Self);
}

impl Softcap for f32 {
    #[inline(always)]
    fn tanh_and_slope(self) -> (f32, f32) {
        let x = self;
        let magnitude = x.abs();
        // exp(−60) squared is still far above the smallest normal number. NaN stays.
        let magnitude = if magnitude > 30.0 { 30.0 } else { magnitude };
        let e = exp_of_negative(-2.0 * magnitude);
        let inverse = 1.0 / (1.0 + e);
        let slope = 4.0 * e * inverse * inverse;
        let large = ((1.0 - e) * inverse).copysign(x);
        let x2 = x * x;
        let series = -1.0 / 3.0 + x2 * (2.0 / 15.0 + x2 * (-17.0 / 315.0 + x2 * (62.0 / 2835.0)));
        let small = x + x * x2 * series;
        (if magnitude < 0.25 { small } else { large }, slope)
    }
}

impl Softcap for f64 {
    #[inline(always)]
    fn tanh_and_slope(self) -> (f64, f64) {
        let e = (-2.0 * self.abs()).exp();
        (self.tanh(), 4.0 * e / ((1.0 + e) * (1.0 + e)))
    }
}

/// exp(x) for −60 ≤ x ≤ 0, to 2 ulp: 2^n · 2^f with f in [−½, ½].
#[inline(always)]
fn exp_of_negative(x: f32) -> f32 {
    /// Adding it rounds to an integer, which is then in the low bits.
    const ROUND: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    let p = 1.0 / 720.0 + r * (1.0 / 5040.0);
    let p = 1.0 / 24.0 + r * (1.0 / 120.0 + r * p);
    let p = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * p)));
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23));
    p * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tanh_and_its_slope_are_right_to_one_millionth() {
        let mut x = 1e-30f32;
        while x < 1e30 {
            for x in [x, -x] {
                let (tanh, slope) = x.tanh_and_slope();
                let (t, s) = f64::from(x).tanh_and_slope();
                assert!((f64::from(tanh) - t).abs() <= 5e-7 * t.abs(), "tanh {x} {tanh} {t}");
                if x.abs() < 30.0 {
                    assert!((f64::from(slope) - s).abs() <= 1e-6 * s, "slope {x} {slope} {s}");
                } else {
                    assert!(slope < 1e-25);
                }
            }
            x *= 1.013;
        }
    }

    #[test]
    fn special_values_keep_their_meaning() {
        assert_eq!(0f32.tanh_and_slope(), (0.0, 1.0));
        assert_eq!(f32::INFINITY.tanh_and_slope().0, 1.0);
        assert_eq!(f32::NEG_INFINITY.tanh_and_slope().0, -1.0);
        assert!(f32::NAN.tanh_and_slope().0.is_nan());
    }
}
