//! Numbers in few bits: f16, bf16, e4m3 and tf32, and what the hardware makes of NaN.

use half::{bf16, f16};

/// The NaN that arithmetic of the hardware gives.
const NAN: u32 = 0x7fff_ffff;

/// Any NaN becomes the hardware's.
pub(super) fn canonical(x: f32) -> f32 {
    if x.is_nan() { f32::from_bits(NAN) } else { x }
}

/// A subnormal number becomes a zero of its sign.
pub(super) fn flush(x: f32) -> f32 {
    if x.is_subnormal() { 0f32.copysign(x) } else { x }
}

/// To nearest even; NaN has one form.
pub(super) fn to_f16(x: f32) -> u16 {
    if x.is_nan() { 0x7fff } else { f16::from_f32(x).to_bits() }
}

pub(super) fn from_f16(bits: u16) -> f32 {
    f16::from_bits(bits).to_f32()
}

/// To nearest even; NaN has one form.
pub(super) fn to_bf16(x: f32) -> u16 {
    if x.is_nan() { 0x7fff } else { bf16::from_f32(x).to_bits() }
}

pub(super) fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// What tensor cores read of a float as tf32: the upper 19 bits.
pub(super) fn from_tf32(bits: u32) -> f32 {
    f32::from_bits(bits & 0xffff_e000)
}

/// e4m3 has 4 bits of exponent (bias 7), 3 of mantissa, no infinity, and ±0x7f for NaN (OCP 8-bit
/// floating point specification).
pub(super) fn from_e4m3(bits: u8) -> f32 {
    let (exponent, mantissa) = (i32::from(bits >> 3 & 0xf), f32::from(bits & 7));
    let size = match bits & 0x7f {
        0x7f => f32::NAN,
        _ if exponent == 0 => mantissa * 2f32.powi(-9),
        _ => (8.0 + mantissa) * 2f32.powi(exponent - 10),
    };
    if bits & 0x80 == 0 { size } else { -size }
}

/// To nearest even; what is too large becomes ±448.
pub(super) fn to_e4m3(x: f32) -> u8 {
    if x.is_nan() {
        return 0x7f;
    }
    let size = x.abs();
    let bits = if size >= 448.0 {
        0x7e
    } else if size < 2f32.powi(-6) {
        // Subnormal: multiples of 2^-9. 8 of them are the smallest normal number.
        (size * 2f32.powi(9)).round_ties_even() as u8
    } else {
        let bits = size.to_bits();
        let rounded = bits + 0x7_ffff + (bits >> 20 & 1);
        ((rounded >> 20) - ((127 - 7) << 3)) as u8
    };
    bits | if x.is_sign_negative() { 0x80 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_e4m3_comes_back() {
        for bits in (0..=255u8).filter(|bits| bits & 0x7f != 0x7f) {
            assert_eq!(to_e4m3(from_e4m3(bits)), bits);
        }
    }

    #[test]
    fn between_two_e4m3_the_nearest_is_taken_and_the_even_one_of_two() {
        for bits in 0..0x7e_u8 {
            let (low, high) = (from_e4m3(bits), from_e4m3(bits + 1));
            let middle = (low + high) / 2.0;
            assert_eq!(to_e4m3(middle) & 1, 0, "{middle}");
            assert_eq!(to_e4m3(middle.next_down()), bits);
            assert_eq!(to_e4m3(middle.next_up()), bits + 1);
        }
    }

    #[test]
    fn e4m3_saturates() {
        for large in [448.0, 464.0, 1e30, f32::INFINITY] {
            assert_eq!(to_e4m3(large), 0x7e);
            assert_eq!(to_e4m3(-large), 0xfe);
        }
        assert_eq!(to_e4m3(f32::NAN), 0x7f);
    }
}
