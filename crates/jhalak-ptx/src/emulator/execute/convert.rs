//! Conversions: exactly as PTX defines them.

use super::formats::{from_bf16, from_e4m3, from_f16, to_bf16, to_e4m3, to_f16};
use crate::emulator::fault::Outcome;
use crate::emulator::registers::Registers;
use crate::instruction::convert::{Convert, ConvertPair, Rounding};
use crate::instruction::types::Type;

pub(super) fn convert(r: &mut Registers, lanes: u32, form: &Convert) -> Outcome<()> {
    let a = r.any(form.a, lanes)?;
    let to_nearest = form.rounding == Rounding::NearestInteger;
    let f: &dyn Fn(u64) -> u64 = match (form.to, form.from) {
        (Type::F32, Type::U32) => &|a| (a as u32 as f32).to_bits().into(),
        (Type::F32, Type::S32) => &|a| (a as i32 as f32).to_bits().into(),
        // Rust saturates as PTX does, and NaN becomes 0.
        (Type::U32, Type::F32) => &|a| u64::from(f32::from_bits(a as u32) as u32),
        (Type::S32, Type::F32) if to_nearest => {
            &|a| (f32::from_bits(a as u32).round_ties_even() as i32).cast_unsigned().into()
        }
        (Type::S32, Type::F32) => &|a| (f32::from_bits(a as u32) as i32).cast_unsigned().into(),
        (Type::F16, _) => &|a| to_f16(f32::from_bits(a as u32)).into(),
        (Type::Bf16, _) => &|a| to_bf16(f32::from_bits(a as u32)).into(),
        (_, Type::F16) => &|a| from_f16(a as u16).to_bits().into(),
        (_, Type::Bf16) => &|a| from_bf16(a as u16).to_bits().into(),
        (Type::E4m3x2, _) => &|a| {
            let [low, high] = halves(a as u32).map(|half| u64::from(to_e4m3(from_f16(half))));
            high << 8 | low
        },
        (_, Type::E4m3x2) => &|a| {
            let [low, high] = (a as u16).to_le_bytes().map(|b| u64::from(to_f16(from_e4m3(b))));
            high << 16 | low
        },
        (Type::S64, _) => &|a| i64::from(a as i32).cast_unsigned(),
        _ => &|a| a,
    };
    r.set_any(form.d, lanes, a.map(f));
    Ok(())
}

fn halves(word: u32) -> [u16; 2] {
    [word as u16, (word >> 16) as u16]
}

pub(super) fn pair(r: &mut Registers, lanes: u32, form: &ConvertPair) -> Outcome<()> {
    let (low, high) = (r.floats(form.low, lanes)?, r.floats(form.high, lanes)?);
    let (convert, bits): (fn(f32) -> u32, _) = match form.to {
        Type::F16x2 => (|x| to_f16(x).into(), 16),
        Type::Bf16x2 => (|x| to_bf16(x).into(), 16),
        _ => (|x| to_e4m3(x).into(), 8),
    };
    let pairs = std::array::from_fn(|l| convert(high[l]) << bits | convert(low[l]));
    r.set_words(form.d, lanes, pairs);
    Ok(())
}
