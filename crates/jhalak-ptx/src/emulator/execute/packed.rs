//! Pairs of f16 or bf16 in one register. Sums and products are the hardware's; exponentials are
//! computed more exactly.

use half::{bf16, f16};

use crate::emulator::fault::Outcome;
use crate::emulator::registers::{Registers, each};
use crate::instruction::packed::{Packed, PackedEx2, PackedFusedMulAdd, PackedOperator as Op};
use crate::instruction::types::Type;

/// The NaN that arithmetic of the hardware gives.
const NAN: u16 = 0x7fff;

fn widen(ty: Type, bits: u16) -> f64 {
    if ty == Type::Bf16x2 { bf16::from_bits(bits).to_f64() } else { f16::from_bits(bits).to_f64() }
}

fn round(ty: Type, x: f64) -> u16 {
    if x.is_nan() {
        NAN
    } else if ty == Type::Bf16x2 {
        bf16::from_f64(x).to_bits()
    } else {
        f16::from_f64(x).to_bits()
    }
}

/// The same function of the lower and of the upper halves.
fn halves<const N: usize>(words: [u32; N], f: impl Fn([u16; N]) -> u16) -> u32 {
    let low = f(words.map(|word| word as u16));
    let high = f(words.map(|word| (word >> 16) as u16));
    u32::from(high) << 16 | u32::from(low)
}

/// The sums of two pairs.
pub(super) fn sum(ty: Type, pairs: [u32; 2]) -> u32 {
    halves(pairs, |[a, b]| round(ty, widen(ty, a) + widen(ty, b)))
}

pub(super) fn binary(r: &mut Registers, lanes: u32, form: &Packed) -> Outcome<()> {
    let (a, b) = (r.words(form.a, lanes)?, r.words(form.b, lanes)?);
    let apply = |[a, b]: [u16; 2]| {
        let (x, y) = (widen(form.ty, a), widen(form.ty, b));
        match form.operator {
            Op::Add => round(form.ty, x + y),
            Op::Sub => round(form.ty, x - y),
            Op::Mul => round(form.ty, x * y),
            Op::Min | Op::Max if x.is_nan() => round(form.ty, y),
            Op::Min | Op::Max if y.is_nan() => a,
            Op::Min => {
                if x < y || (x == y && x.is_sign_negative()) {
                    a
                } else {
                    b
                }
            }
            Op::Max => {
                if x > y || (x == y && x.is_sign_positive()) {
                    a
                } else {
                    b
                }
            }
        }
    };
    r.set_words(form.d, lanes, each(|l| halves([a[l], b[l]], apply)));
    Ok(())
}

pub(super) fn fused(r: &mut Registers, lanes: u32, form: &PackedFusedMulAdd) -> Outcome<()> {
    let (a, b) = (r.words(form.a, lanes)?, r.words(form.b, lanes)?);
    let c = r.words(form.c, lanes)?;
    let apply = |words: [u16; 3]| {
        let [a, b, c] = words.map(|bits| widen(form.ty, bits));
        round(form.ty, sum_to_odd(a * b, c))
    };
    r.set_words(form.d, lanes, each(|l| halves([a[l], b[l], c[l]], apply)));
    Ok(())
}

/// A sum that is rounded to odd where it is not exact, so that the next rounding is as if there had
/// been none before.
fn sum_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let part = sum - a;
    let error = (a - (sum - part)) + (b - part);
    if error == 0.0 || !error.is_finite() || sum.to_bits() & 1 == 1 {
        sum
    } else if error > 0.0 {
        sum.next_up()
    } else {
        sum.next_down()
    }
}

pub(super) fn ex2(r: &mut Registers, lanes: u32, form: &PackedEx2) -> Outcome<()> {
    let a = r.words(form.a, lanes)?;
    let apply = |[bits]: [u16; 1]| {
        let result = round(form.ty, widen(form.ty, bits).exp2());
        // Of bf16, subnormal results become 0.
        if form.ty == Type::Bf16x2 && result & 0x7f80 == 0 { 0 } else { result }
    };
    r.set_words(form.d, lanes, each(|l| halves([a[l]], apply)));
    Ok(())
}
