//! Integers: exactly as PTX defines them.

use crate::emulator::fault::Outcome;
use crate::emulator::registers::{Lanes, Registers, each, mask_of};
use crate::instruction::integer::{
    BitField, BitInsert, Integer, IntegerOperator as Op, Lop3, Permute,
};
use crate::instruction::multiply::{MulAdd, MulWide};
use crate::instruction::types::Type;
use crate::register::Operand;

pub(super) fn integer(r: &mut Registers, lanes: u32, form: &Integer) -> Outcome<()> {
    let b = form.b.unwrap_or(form.a);
    match form.ty {
        Type::U64 | Type::S64 | Type::B64 => {
            let a = r.wide(form.a, lanes)?;
            // The amount of a shift is a 32-bit number.
            let b = r.any(b, lanes)?;
            if form.operator == Op::Popc {
                r.set_words(form.d, lanes, a.map(u64::count_ones));
                return Ok(());
            }
            r.set_wide(form.d, lanes, wide(form, &a, &b));
            forget_quotients_by_zero(r, lanes, form, mask_of(|lane| b[lane] == 0));
        }
        _ => {
            let (a, b) = (r.words(form.a, lanes)?, r.words(b, lanes)?);
            r.set_words(form.d, lanes, words(form, &a, &b));
            forget_quotients_by_zero(r, lanes, form, mask_of(|lane| b[lane] == 0));
        }
    }
    Ok(())
}

/// PTX leaves the result of a division by zero open, so nobody may use it.
fn forget_quotients_by_zero(r: &mut Registers, lanes: u32, form: &Integer, zero: u32) {
    if matches!(form.operator, Op::Div | Op::Rem) {
        r.unset(form.d, lanes & zero);
    }
}

macro_rules! operators {
    ($name:ident, $unsigned:ty, $signed:ty, $double:ty, $signed_double:ty, $is_signed:pat) => {
        fn $name(form: &Integer, a: &Lanes<$unsigned>, b: &Lanes<$unsigned>) -> Lanes<$unsigned> {
            let signed = matches!(form.ty, $is_signed);
            let map = |f: fn($unsigned, $unsigned) -> $unsigned| each(|l| f(a[l], b[l]));
            let map_signed = |f: fn($signed, $signed) -> $signed| {
                each(|l| f(a[l].cast_signed(), b[l].cast_signed()).cast_unsigned())
            };
            match (form.operator, signed) {
                (Op::Add, _) => map(<$unsigned>::wrapping_add),
                (Op::Sub, _) => map(<$unsigned>::wrapping_sub),
                (Op::MulLo, _) => map(<$unsigned>::wrapping_mul),
                (Op::MulHi, false) => map(|a, b| {
                    (<$double>::from(a) * <$double>::from(b) >> <$unsigned>::BITS) as $unsigned
                }),
                (Op::MulHi, true) => map_signed(|a, b| {
                    (<$signed_double>::from(a) * <$signed_double>::from(b) >> <$unsigned>::BITS)
                        as $signed
                }),
                (Op::Div, false) => map(|a, b| a.checked_div(b).unwrap_or(<$unsigned>::MAX)),
                (Op::Div, true) => map_signed(|a, b| if b == 0 { -1 } else { a.wrapping_div(b) }),
                (Op::Rem, false) => map(|a, b| a.checked_rem(b).unwrap_or(a)),
                (Op::Rem, true) => map_signed(|a, b| if b == 0 { a } else { a.wrapping_rem(b) }),
                (Op::Min, false) => map(<$unsigned>::min),
                (Op::Min, true) => map_signed(<$signed>::min),
                (Op::Max, false) => map(<$unsigned>::max),
                (Op::Max, true) => map_signed(<$signed>::max),
                (Op::And, _) => map(|a, b| a & b),
                (Op::Or, _) => map(|a, b| a | b),
                (Op::Xor, _) => map(|a, b| a ^ b),
                (Op::Shl, _) => {
                    map(|a, b| u32::try_from(b).ok().and_then(|b| a.checked_shl(b)).unwrap_or(0))
                }
                (Op::Shr, false) => {
                    map(|a, b| u32::try_from(b).ok().and_then(|b| a.checked_shr(b)).unwrap_or(0))
                }
                (Op::Shr, true) => each(|l| {
                    let by = b[l].min((<$unsigned>::BITS - 1).into());
                    (a[l].cast_signed() >> by).cast_unsigned()
                }),
                (Op::Not, _) => map(|a, _| !a),
                (Op::Neg, _) => map(|a, _| a.wrapping_neg()),
                (Op::Abs, _) => map_signed(|a, _| a.wrapping_abs()),
                (Op::Popc, _) => map(|a, _| a.count_ones().into()),
            }
        }
    };
}

operators!(words, u32, i32, u64, i64, Type::S32);
operators!(wide, u64, i64, u128, i128, Type::S64);

pub(super) fn bit_field(r: &mut Registers, lanes: u32, form: &BitField) -> Outcome<()> {
    let a = r.words(form.a, lanes)?;
    let (start, length) = (r.words(form.start, lanes)?, r.words(form.length, lanes)?);
    let values = each(|l| {
        let (start, length) = (start[l] & 0xff, length[l] & 0xff);
        let field = a[l].checked_shr(start).unwrap_or(0);
        if length < 32 { field & ((1 << length) - 1) } else { field }
    });
    r.set_words(form.d, lanes, values);
    Ok(())
}

pub(super) fn bit_insert(r: &mut Registers, lanes: u32, form: &BitInsert) -> Outcome<()> {
    let [a, b, start] = three(r, lanes, [form.a, form.b, form.start])?;
    let length = r.words(form.length, lanes)?;
    let values = each(|l| {
        let (start, length) = (start[l] & 0xff, length[l] & 0xff);
        let ones = if length < 32 { (1 << length) - 1 } else { u32::MAX };
        let field = u32::checked_shl(ones, start).unwrap_or(0);
        (b[l] & !field) | (u32::checked_shl(a[l], start).unwrap_or(0) & field)
    });
    r.set_words(form.d, lanes, values);
    Ok(())
}

pub(super) fn lop3(r: &mut Registers, lanes: u32, form: &Lop3) -> Outcome<()> {
    let [a, b, c] = three(r, lanes, form.inputs)?;
    let values = each(|l| {
        (0..8).filter(|row| form.table >> row & 1 == 1).fold(0, |bits, row| {
            let pick = |bit: u32, value: u32| if row >> bit & 1 == 1 { value } else { !value };
            bits | (pick(2, a[l]) & pick(1, b[l]) & pick(0, c[l]))
        })
    });
    r.set_words(form.d, lanes, values);
    Ok(())
}

fn three(r: &Registers, lanes: u32, [a, b, c]: [Operand; 3]) -> Outcome<[Lanes<u32>; 3]> {
    Ok([r.words(a, lanes)?, r.words(b, lanes)?, r.words(c, lanes)?])
}

pub(super) fn permute(r: &mut Registers, lanes: u32, form: &Permute) -> Outcome<()> {
    let [a, b, selector] = three(r, lanes, [form.a, form.b, form.selector])?;
    let values = each(|l| {
        let bytes = (u64::from(b[l]) << 32 | u64::from(a[l])).to_le_bytes();
        u32::from_le_bytes(std::array::from_fn(|i| {
            let nibble = selector[l] >> (4 * i) & 0xf;
            let byte = bytes[nibble as usize & 7];
            if nibble & 8 == 0 { byte } else { (byte.cast_signed() >> 7).cast_unsigned() }
        }))
    });
    r.set_words(form.d, lanes, values);
    Ok(())
}

fn product(ty: Type, a: u32, b: u32) -> u64 {
    if ty == Type::S32 {
        (i64::from(a.cast_signed()) * i64::from(b.cast_signed())).cast_unsigned()
    } else {
        u64::from(a) * u64::from(b)
    }
}

pub(super) fn mul_wide(r: &mut Registers, lanes: u32, form: &MulWide) -> Outcome<()> {
    let (a, b) = (r.words(form.a, lanes)?, r.words(form.b, lanes)?);
    r.set_wide(form.d, lanes, each(|l| product(form.ty, a[l], b[l])));
    Ok(())
}

pub(super) fn mul_add(r: &mut Registers, lanes: u32, form: &MulAdd) -> Outcome<()> {
    if form.wide {
        let (a, b) = (r.words(form.a, lanes)?, r.words(form.b, lanes)?);
        let c = r.wide(form.c, lanes)?;
        r.set_wide(form.d, lanes, each(|l| product(form.ty, a[l], b[l]).wrapping_add(c[l])));
    } else if form.ty == Type::U64 {
        let (a, b, c) = (r.wide(form.a, lanes)?, r.wide(form.b, lanes)?, r.wide(form.c, lanes)?);
        r.set_wide(form.d, lanes, each(|l| a[l].wrapping_mul(b[l]).wrapping_add(c[l])));
    } else {
        let [a, b, c] = three(r, lanes, [form.a, form.b, form.c])?;
        r.set_words(form.d, lanes, each(|l| a[l].wrapping_mul(b[l]).wrapping_add(c[l])));
    }
    Ok(())
}
