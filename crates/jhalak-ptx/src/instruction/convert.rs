//! Conversions between types (PTX ISA, "cvt", "cvta"). Methods carry the result's type first, as
//! PTX does.

use super::forms::forms;
use super::types::Type::{self, Bf16, Bf16x2, E4m3x2, F16, F16x2, S32, S64, U32, U64};
use crate::describe::{Describe, Reader};
use crate::names::named;
use crate::register::{B16, B32, B64, F32, Operand, Register};
use crate::target::{Since, Target, Version};

named! {
    /// How a result is rounded.
    pub enum Rounding {
        /// Not at all: the result is exact, or the upper bits are cut off.
        None = "",
        /// A float: to nearest even.
        Nearest = ".rn",
        /// A float: to nearest even, no infinities: the largest number instead.
        NearestFinite = ".rn.satfinite",
        /// An integer: to nearest even.
        NearestInteger = ".rni",
        /// An integer: towards zero.
        ZeroInteger = ".rzi",
    }
}

const BF16: &Since = &[(Target::Sm80, Version::new(7, 0))];
const FROM_BF16: &Since = &[(Target::Sm80, Version::new(7, 1))];
const PAIR: &Since = &[(Target::Sm80, Version::new(7, 0))];
const E4M3: &Since = &[(Target::Sm89, Version::new(8, 1)), (Target::Sm90a, Version::new(7, 8))];

/// `d = a`, in another type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Convert {
    pub(crate) rounding: Rounding,
    pub(crate) to: Type,
    pub(crate) from: Type,
    pub(crate) d: Register,
    pub(crate) a: Operand,
}

impl Describe for Convert {
    fn describe(&self, to: &mut impl Reader) {
        match (self.to, self.from) {
            (Bf16, _) => to.needs(BF16),
            (_, Bf16) => to.needs(FROM_BF16),
            (E4m3x2, _) | (_, E4m3x2) => to.needs(E4M3),
            _ => {}
        }
        to.name(&["cvt", self.rounding.name(), self.to.name(), self.from.name()]);
        to.output(self.d);
        to.input(self.a);
    }
}

/// `d` = two floats in a smaller type, `low` in the lower half. PTX names the upper one first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConvertPair {
    pub(crate) to: Type,
    pub(crate) d: Register,
    pub(crate) low: Operand,
    pub(crate) high: Operand,
}

impl Describe for ConvertPair {
    fn describe(&self, to: &mut impl Reader) {
        let rounding = if self.to == E4m3x2 {
            to.needs(E4M3);
            Rounding::NearestFinite
        } else {
            to.needs(PAIR);
            Rounding::Nearest
        };
        to.name(&["cvt", rounding.name(), self.to.name(), ".f32"]);
        to.output(self.d);
        to.input(self.high);
        to.input(self.low);
    }
}

named! {
    /// Between which address spaces an address is translated.
    pub enum AddressConversion {
        /// From a generic address to one in global memory.
        ToGlobal = "cvta.to.global.u64",
        /// From a place among the parameters to a generic address.
        FromParam = "cvta.param.u64",
    }
}

/// `d = a`, the address in another space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressConvert {
    pub(crate) conversion: AddressConversion,
    pub(crate) d: Register,
    pub(crate) a: Operand,
}

impl Describe for AddressConvert {
    fn describe(&self, to: &mut impl Reader) {
        if self.conversion == AddressConversion::FromParam {
            to.needs(&[(Target::Sm75, Version::new(7, 7))]);
        }
        to.name(&[self.conversion.name()]);
        to.output(self.d);
        to.input(self.a);
    }
}

fn convert(rounding: Rounding, to: Type, from: Type, d: Register, a: Operand) -> Convert {
    Convert { rounding, to, from, d, a }
}

forms! {
    "Conversions";
    /// An unsigned number as a float, to nearest.
    cvt_f32_u32, cvt_f32_u32_to(a: B32) -> F32 = |d| convert(Rounding::Nearest, Type::F32, U32, d, a);
    /// A signed number as a float, to nearest.
    cvt_f32_s32, cvt_f32_s32_to(a: B32) -> F32 = |d| convert(Rounding::Nearest, Type::F32, S32, d, a);
    /// A float as an unsigned number, towards zero; what does not fit becomes the nearest that does.
    cvt_rzi_u32_f32, cvt_rzi_u32_f32_to(a: F32) -> B32
        = |d| convert(Rounding::ZeroInteger, U32, Type::F32, d, a);
    /// A float as a signed number, towards zero; what does not fit becomes the nearest that does.
    cvt_rzi_s32_f32, cvt_rzi_s32_f32_to(a: F32) -> B32
        = |d| convert(Rounding::ZeroInteger, S32, Type::F32, d, a);
    /// A float as a signed number, to nearest; what does not fit becomes the nearest that does.
    cvt_rni_s32_f32, cvt_rni_s32_f32_to(a: F32) -> B32
        = |d| convert(Rounding::NearestInteger, S32, Type::F32, d, a);
    /// A float as f16, to nearest.
    cvt_f16_f32, cvt_f16_f32_to(a: F32) -> B16 = |d| convert(Rounding::Nearest, F16, Type::F32, d, a);
    /// A float as bf16, to nearest.
    cvt_bf16_f32, cvt_bf16_f32_to(a: F32) -> B16 = |d| convert(Rounding::Nearest, Bf16, Type::F32, d, a);
    /// An f16 as a float.
    cvt_f32_f16, cvt_f32_f16_to(a: B16) -> F32 = |d| convert(Rounding::None, Type::F32, F16, d, a);
    /// A bf16 as a float.
    cvt_f32_bf16, cvt_f32_bf16_to(a: B16) -> F32 = |d| convert(Rounding::None, Type::F32, Bf16, d, a);
    /// Two f16 as two e4m3, to nearest; what is too large becomes ±448.
    cvt_e4m3x2_f16x2, cvt_e4m3x2_f16x2_to(a: B32) -> B16
        = |d| convert(Rounding::NearestFinite, E4m3x2, F16x2, d, a);
    /// Two e4m3 as two f16.
    cvt_f16x2_e4m3x2, cvt_f16x2_e4m3x2_to(a: B16) -> B32
        = |d| convert(Rounding::Nearest, F16x2, E4m3x2, d, a);
    /// An unsigned number in 64 bits.
    cvt_u64_u32, cvt_u64_u32_to(a: B32) -> B64 = |d| convert(Rounding::None, U64, U32, d, a);
    /// A signed number in 64 bits.
    cvt_s64_s32, cvt_s64_s32_to(a: B32) -> B64 = |d| convert(Rounding::None, S64, S32, d, a);
    /// The low 32 bits.
    cvt_u32_u64, cvt_u32_u64_to(a: B64) -> B32 = |d| convert(Rounding::None, U32, U64, d, a);
    /// Two floats as f16, to nearest; the first in the low half.
    cvt_f16x2_f32, cvt_f16x2_f32_to(low: F32, high: F32) -> B32
        = |d| ConvertPair { to: F16x2, d, low, high };
    /// Two floats as bf16, to nearest; the first in the low half.
    cvt_bf16x2_f32, cvt_bf16x2_f32_to(low: F32, high: F32) -> B32
        = |d| ConvertPair { to: Bf16x2, d, low, high };
    /// Two floats as e4m3, to nearest, the first in the low byte; what is too large becomes ±448.
    cvt_e4m3x2_f32, cvt_e4m3x2_f32_to(low: F32, high: F32) -> B16
        = |d| ConvertPair { to: E4m3x2, d, low, high };
    /// A generic address as one in global memory.
    cvta_to_global, cvta_to_global_to(a: B64) -> B64
        = |d| AddressConvert { conversion: AddressConversion::ToGlobal, d, a };
    /// The generic address of a place among the parameters.
    cvta_param, cvta_param_to(a: B64) -> B64
        = |d| AddressConvert { conversion: AddressConversion::FromParam, d, a };
}
