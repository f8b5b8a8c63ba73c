//! Integer products that are wider than their factors, and products with a sum.

use super::forms::forms;
use super::types::Type::{self, S32, U32, U64};
use crate::describe::{Describe, Reader};
use crate::register::{B32, B64, Operand, Register};

/// `d = a · b` in 64 bits, of two 32-bit factors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MulWide {
    pub(crate) ty: Type,
    pub(crate) d: Register,
    pub(crate) a: Operand,
    pub(crate) b: Operand,
}

impl Describe for MulWide {
    fn describe(&self, to: &mut impl Reader) {
        to.name(&["mul.wide", self.ty.name()]);
        to.output(self.d);
        to.input(self.a);
        to.input(self.b);
    }
}

/// `d = a · b + c`: the low half of the product, or with `wide` all 64 bits of two 32-bit factors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MulAdd {
    pub(crate) wide: bool,
    pub(crate) ty: Type,
    pub(crate) d: Register,
    pub(crate) a: Operand,
    pub(crate) b: Operand,
    pub(crate) c: Operand,
}

impl Describe for MulAdd {
    fn describe(&self, to: &mut impl Reader) {
        to.name(&["mad", if self.wide { ".wide" } else { ".lo" }, self.ty.name()]);
        to.output(self.d);
        to.input(self.a);
        to.input(self.b);
        to.input(self.c);
    }
}

forms! {
    "Products of integers";
    /// All 64 bits of the unsigned product a · b.
    mul_wide_u32, mul_wide_u32_to(a: B32, b: B32) -> B64 = |d| MulWide { ty: U32, d, a, b };
    /// All 64 bits of the signed product a · b.
    mul_wide_s32, mul_wide_s32_to(a: B32, b: B32) -> B64 = |d| MulWide { ty: S32, d, a, b };
    /// a · b + c modulo 2³², signed or not.
    mad_lo_u32, mad_lo_u32_to(a: B32, b: B32, c: B32) -> B32
        = |d| MulAdd { wide: false, ty: U32, d, a, b, c };
    /// a · b + c modulo 2⁶⁴, signed or not.
    mad_lo_u64, mad_lo_u64_to(a: B64, b: B64, c: B64) -> B64
        = |d| MulAdd { wide: false, ty: U64, d, a, b, c };
    /// a · b + c, a and b unsigned, in 64 bits: an address from an index.
    mad_wide_u32, mad_wide_u32_to(a: B32, b: B32, c: B64) -> B64
        = |d| MulAdd { wide: true, ty: U32, d, a, b, c };
    /// a · b + c, a and b signed, in 64 bits: an address from an index.
    mad_wide_s32, mad_wide_s32_to(a: B32, b: B32, c: B64) -> B64
        = |d| MulAdd { wide: true, ty: S32, d, a, b, c };
}
