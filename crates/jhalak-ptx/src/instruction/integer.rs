//! Integers: sums, quotients, extrema, bits and shifts (PTX ISA, "Integer Arithmetic
//! Instructions", "Logic and Shift Instructions").

use super::forms::forms;
use super::types::Type::{self, B32 as Bits32, B64 as Bits64, S32, U32, U64};
use crate::describe::{Describe, Reader};
use crate::names::named;
use crate::register::{B32, B64, Operand, Register, Source};
use crate::{KernelBuilder, instruction::integer::IntegerOperator::*};

named! {
    /// What is done with one or two integers.
    pub enum IntegerOperator {
        /// Sum, modulo 2ⁿ.
        Add = "add",
        /// Difference, modulo 2ⁿ.
        Sub = "sub",
        /// Low half of the product.
        MulLo = "mul.lo",
        /// High half of the product.
        MulHi = "mul.hi",
        /// Quotient, rounded towards zero; of a division by zero: unspecified.
        Div = "div",
        /// Remainder, of the dividend's sign; of a division by zero: unspecified.
        Rem = "rem",
        /// The smaller.
        Min = "min",
        /// The larger.
        Max = "max",
        /// Bitwise and.
        And = "and",
        /// Bitwise or.
        Or = "or",
        /// Bitwise exclusive or.
        Xor = "xor",
        /// Shift to the left; a shift by the width or more gives 0.
        Shl = "shl",
        /// Shift to the right; a shift by the width or more leaves only copies of the sign, or 0.
        Shr = "shr",
        /// Bitwise complement.
        Not = "not",
        /// Two's complement negation.
        Neg = "neg",
        /// Absolute value.
        Abs = "abs",
        /// Number of ones, as a 32-bit number.
        Popc = "popc",
    }
}

/// `d = a op b`, or `d = op a` where there is no `b`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Integer {
    pub(crate) operator: IntegerOperator,
    pub(crate) ty: Type,
    pub(crate) d: Register,
    pub(crate) a: Operand,
    pub(crate) b: Option<Operand>,
}

impl Describe for Integer {
    fn describe(&self, to: &mut impl Reader) {
        to.name(&[self.operator.name(), self.ty.name()]);
        to.output(self.d);
        to.input(self.a);
        if let Some(b) = self.b {
            to.input(b);
        }
    }
}

fn binary(operator: IntegerOperator, ty: Type, d: Register, a: Operand, b: Operand) -> Integer {
    Integer { operator, ty, d, a, b: Some(b) }
}

fn unary(operator: IntegerOperator, ty: Type, d: Register, a: Operand) -> Integer {
    Integer { operator, ty, d, a, b: None }
}

forms! {
    "Integers and bits";
    /// a + b modulo 2³², signed or not.
    add_u32, add_u32_to(a: B32, b: B32) -> B32 = |d| binary(Add, U32, d, a, b);
    /// a + b modulo 2⁶⁴, signed or not.
    add_u64, add_u64_to(a: B64, b: B64) -> B64 = |d| binary(Add, U64, d, a, b);
    /// a - b modulo 2³², signed or not.
    sub_u32, sub_u32_to(a: B32, b: B32) -> B32 = |d| binary(Sub, U32, d, a, b);
    /// a - b modulo 2⁶⁴, signed or not.
    sub_u64, sub_u64_to(a: B64, b: B64) -> B64 = |d| binary(Sub, U64, d, a, b);
    /// The low 32 bits of a · b, signed or not.
    mul_lo_u32, mul_lo_u32_to(a: B32, b: B32) -> B32 = |d| binary(MulLo, U32, d, a, b);
    /// The low 64 bits of a · b, signed or not.
    mul_lo_u64, mul_lo_u64_to(a: B64, b: B64) -> B64 = |d| binary(MulLo, U64, d, a, b);
    /// The high 32 bits of the unsigned product a · b.
    mul_hi_u32, mul_hi_u32_to(a: B32, b: B32) -> B32 = |d| binary(MulHi, U32, d, a, b);
    /// The high 32 bits of the signed product a · b.
    mul_hi_s32, mul_hi_s32_to(a: B32, b: B32) -> B32 = |d| binary(MulHi, S32, d, a, b);
    /// a / b, unsigned.
    div_u32, div_u32_to(a: B32, b: B32) -> B32 = |d| binary(Div, U32, d, a, b);
    /// a / b, signed, rounded towards zero.
    div_s32, div_s32_to(a: B32, b: B32) -> B32 = |d| binary(Div, S32, d, a, b);
    /// a / b, unsigned.
    div_u64, div_u64_to(a: B64, b: B64) -> B64 = |d| binary(Div, U64, d, a, b);
    /// a - b · (a / b), unsigned.
    rem_u32, rem_u32_to(a: B32, b: B32) -> B32 = |d| binary(Rem, U32, d, a, b);
    /// a - b · (a / b), signed, of a's sign.
    rem_s32, rem_s32_to(a: B32, b: B32) -> B32 = |d| binary(Rem, S32, d, a, b);
    /// a - b · (a / b), unsigned.
    rem_u64, rem_u64_to(a: B64, b: B64) -> B64 = |d| binary(Rem, U64, d, a, b);
    /// The smaller of two unsigned numbers.
    min_u32, min_u32_to(a: B32, b: B32) -> B32 = |d| binary(Min, U32, d, a, b);
    /// The smaller of two signed numbers.
    min_s32, min_s32_to(a: B32, b: B32) -> B32 = |d| binary(Min, S32, d, a, b);
    /// The larger of two unsigned numbers.
    max_u32, max_u32_to(a: B32, b: B32) -> B32 = |d| binary(Max, U32, d, a, b);
    /// The larger of two signed numbers.
    max_s32, max_s32_to(a: B32, b: B32) -> B32 = |d| binary(Max, S32, d, a, b);
    /// Bits that are 1 in both.
    and_b32, and_b32_to(a: B32, b: B32) -> B32 = |d| binary(And, Bits32, d, a, b);
    /// Bits that are 1 in both.
    and_b64, and_b64_to(a: B64, b: B64) -> B64 = |d| binary(And, Bits64, d, a, b);
    /// Bits that are 1 in either.
    or_b32, or_b32_to(a: B32, b: B32) -> B32 = |d| binary(Or, Bits32, d, a, b);
    /// Bits that are 1 in either.
    or_b64, or_b64_to(a: B64, b: B64) -> B64 = |d| binary(Or, Bits64, d, a, b);
    /// Bits that differ.
    xor_b32, xor_b32_to(a: B32, b: B32) -> B32 = |d| binary(Xor, Bits32, d, a, b);
    /// Bits that differ.
    xor_b64, xor_b64_to(a: B64, b: B64) -> B64 = |d| binary(Xor, Bits64, d, a, b);
    /// a · 2^b; 0 when b is 32 or more.
    shl_b32, shl_b32_to(a: B32, b: B32) -> B32 = |d| binary(Shl, Bits32, d, a, b);
    /// a · 2^b; 0 when b is 64 or more.
    shl_b64, shl_b64_to(a: B64, b: B32) -> B64 = |d| binary(Shl, Bits64, d, a, b);
    /// a / 2^b, unsigned; 0 when b is 32 or more.
    shr_u32, shr_u32_to(a: B32, b: B32) -> B32 = |d| binary(Shr, U32, d, a, b);
    /// a / 2^b, signed, rounded down.
    shr_s32, shr_s32_to(a: B32, b: B32) -> B32 = |d| binary(Shr, S32, d, a, b);
    /// a / 2^b, unsigned; 0 when b is 64 or more.
    shr_u64, shr_u64_to(a: B64, b: B32) -> B64 = |d| binary(Shr, U64, d, a, b);
    /// Every bit flipped.
    not_b32, not_b32_to(a: B32) -> B32 = |d| unary(Not, Bits32, d, a);
    /// Every bit flipped.
    not_b64, not_b64_to(a: B64) -> B64 = |d| unary(Not, Bits64, d, a);
    /// -a, signed.
    neg_s32, neg_s32_to(a: B32) -> B32 = |d| unary(Neg, S32, d, a);
    /// |a|, signed.
    abs_s32, abs_s32_to(a: B32) -> B32 = |d| unary(Abs, S32, d, a);
    /// How many bits are 1.
    popc_b32, popc_b32_to(a: B32) -> B32 = |d| unary(Popc, Bits32, d, a);
    /// Bits `start..start + length` of a, moved down to bit 0. `start` and `length` count from
    /// their low 8 bits.
    bfe_u32, bfe_u32_to(a: B32, start: B32, length: B32) -> B32
        = |d| BitField { d, a, start, length };
    /// b, with bits `start..start + length` replaced by the lowest of a. `start` and `length` count
    /// from their low 8 bits.
    bfi_b32, bfi_b32_to(a: B32, b: B32, start: B32, length: B32) -> B32
        = |d| BitInsert { d, a, b, start, length };
    /// Four bytes chosen from a (bytes 0 to 3) and b (4 to 7): nibble i of `selector` names byte i
    /// of the result; its bit 3 copies the byte's sign instead.
    prmt_b32, prmt_b32_to(a: B32, b: B32, selector: B32) -> B32
        = |d| Permute { d, a, b, selector };
}

/// # Logic of three inputs
impl KernelBuilder {
    /// Any function of three bits, bit by bit: `table` is the function's value with a = 0xF0,
    /// b = 0xCC, c = 0xAA.
    #[track_caller]
    pub fn lop3_b32(
        &mut self,
        a: impl Into<Source<B32>>,
        b: impl Into<Source<B32>>,
        c: impl Into<Source<B32>>,
        table: u8,
    ) -> B32 {
        let d: B32 = self.register();
        let inputs = [a.into().operand, b.into().operand, c.into().operand];
        self.push(Lop3 { d: d.into(), inputs, table });
        d
    }
}

/// `d` = the field of `a`, unsigned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BitField {
    pub(crate) d: Register,
    pub(crate) a: Operand,
    pub(crate) start: Operand,
    pub(crate) length: Operand,
}

impl Describe for BitField {
    fn describe(&self, to: &mut impl Reader) {
        to.name(&["bfe.u32"]);
        to.output(self.d);
        to.input(self.a);
        to.input(self.start);
        to.input(self.length);
    }
}

/// `d` = `b`, with a field replaced by `a`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BitInsert {
    pub(crate) d: Register,
    pub(crate) a: Operand,
    pub(crate) b: Operand,
    pub(crate) start: Operand,
    pub(crate) length: Operand,
}

impl Describe for BitInsert {
    fn describe(&self, to: &mut impl Reader) {
        to.name(&["bfi.b32"]);
        to.output(self.d);
        to.input(self.a);
        to.input(self.b);
        to.input(self.start);
        to.input(self.length);
    }
}

/// `d` = the function of three inputs that `table` lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lop3 {
    pub(crate) d: Register,
    pub(crate) inputs: [Operand; 3],
    pub(crate) table: u8,
}

impl Describe for Lop3 {
    fn describe(&self, to: &mut impl Reader) {
        to.name(&["lop3.b32"]);
        to.output(self.d);
        for input in self.inputs {
            to.input(input);
        }
        to.number(self.table.into());
    }
}

/// `d` = bytes of `a` and `b`, picked by `selector`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permute {
    pub(crate) d: Register,
    pub(crate) a: Operand,
    pub(crate) b: Operand,
    pub(crate) selector: Operand,
}

impl Describe for Permute {
    fn describe(&self, to: &mut impl Reader) {
        to.name(&["prmt.b32"]);
        to.output(self.d);
        to.input(self.a);
        to.input(self.b);
        to.input(self.selector);
    }
}
