//! Two f16 or two bf16 at once, in one 32-bit register (PTX ISA, "Half Precision Floating Point
//! Instructions"). Subnormals are kept, except by the exponential of bf16.

use super::forms::forms;
use super::types::Type::{self, Bf16x2, F16x2};
use crate::describe::{Describe, Reader};
use crate::instruction::packed::PackedOperator::*;
use crate::names::named;
use crate::register::{B32, Operand, Register};
use crate::target::{Since, Target, Version};

named! {
    /// What is done with two pairs.
    pub enum PackedOperator {
        /// Sums, rounded to nearest even.
        Add = "add.rn",
        /// Differences, rounded to nearest even.
        Sub = "sub.rn",
        /// Products, rounded to nearest even.
        Mul = "mul.rn",
        /// The smaller of each; the other one when one is NaN.
        Min = "min",
        /// The larger of each; the other one when one is NaN.
        Max = "max",
    }
}

const AMPERE: &Since = &[(Target::Sm80, Version::new(7, 0))];
const HOPPER: &Since = &[(Target::Sm90a, Version::new(7, 8))];

/// `d = a op b` in both halves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packed {
    pub(crate) operator: PackedOperator,
    pub(crate) ty: Type,
    pub(crate) d: Register,
    pub(crate) a: Operand,
    pub(crate) b: Operand,
}

impl Describe for Packed {
    fn describe(&self, to: &mut impl Reader) {
        match (self.operator, self.ty) {
            (Min | Max, _) => to.needs(AMPERE),
            (_, Bf16x2) => to.needs(HOPPER),
            _ => {}
        }
        to.name(&[self.operator.name(), self.ty.name()]);
        to.output(self.d);
        to.input(self.a);
        to.input(self.b);
    }
}

/// `d = a · b + c` in both halves, each rounded once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedFusedMulAdd {
    pub(crate) ty: Type,
    pub(crate) d: Register,
    pub(crate) a: Operand,
    pub(crate) b: Operand,
    pub(crate) c: Operand,
}

impl Describe for PackedFusedMulAdd {
    fn describe(&self, to: &mut impl Reader) {
        if self.ty == Bf16x2 {
            to.needs(AMPERE);
        }
        to.name(&["fma.rn", self.ty.name()]);
        to.output(self.d);
        to.input(self.a);
        to.input(self.b);
        to.input(self.c);
    }
}

/// `d = 2^a` in both halves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedEx2 {
    pub(crate) ty: Type,
    pub(crate) d: Register,
    pub(crate) a: Operand,
}

impl Describe for PackedEx2 {
    fn describe(&self, to: &mut impl Reader) {
        if self.ty == Bf16x2 {
            to.needs(HOPPER);
            to.name(&["ex2.approx.ftz.bf16x2"]);
        } else {
            to.needs(&[(Target::Sm75, Version::new(7, 0))]);
            to.name(&["ex2.approx.f16x2"]);
        }
        to.output(self.d);
        to.input(self.a);
    }
}

fn binary(operator: PackedOperator, ty: Type, d: Register, a: Operand, b: Operand) -> Packed {
    Packed { operator, ty, d, a, b }
}

forms! {
    "Packed halves";
    /// a + b.
    add_f16x2, add_f16x2_to(a: B32, b: B32) -> B32 = |d| binary(Add, F16x2, d, a, b);
    /// a + b.
    add_bf16x2, add_bf16x2_to(a: B32, b: B32) -> B32 = |d| binary(Add, Bf16x2, d, a, b);
    /// a - b.
    sub_f16x2, sub_f16x2_to(a: B32, b: B32) -> B32 = |d| binary(Sub, F16x2, d, a, b);
    /// a - b.
    sub_bf16x2, sub_bf16x2_to(a: B32, b: B32) -> B32 = |d| binary(Sub, Bf16x2, d, a, b);
    /// a · b.
    mul_f16x2, mul_f16x2_to(a: B32, b: B32) -> B32 = |d| binary(Mul, F16x2, d, a, b);
    /// a · b.
    mul_bf16x2, mul_bf16x2_to(a: B32, b: B32) -> B32 = |d| binary(Mul, Bf16x2, d, a, b);
    /// The smaller of each half; the other one when one is NaN.
    min_f16x2, min_f16x2_to(a: B32, b: B32) -> B32 = |d| binary(Min, F16x2, d, a, b);
    /// The smaller of each half; the other one when one is NaN.
    min_bf16x2, min_bf16x2_to(a: B32, b: B32) -> B32 = |d| binary(Min, Bf16x2, d, a, b);
    /// The larger of each half; the other one when one is NaN.
    max_f16x2, max_f16x2_to(a: B32, b: B32) -> B32 = |d| binary(Max, F16x2, d, a, b);
    /// The larger of each half; the other one when one is NaN.
    max_bf16x2, max_bf16x2_to(a: B32, b: B32) -> B32 = |d| binary(Max, Bf16x2, d, a, b);
    /// a · b + c, rounded once.
    fma_f16x2, fma_f16x2_to(a: B32, b: B32, c: B32) -> B32
        = |d| PackedFusedMulAdd { ty: F16x2, d, a, b, c };
    /// a · b + c, rounded once.
    fma_bf16x2, fma_bf16x2_to(a: B32, b: B32, c: B32) -> B32
        = |d| PackedFusedMulAdd { ty: Bf16x2, d, a, b, c };
    /// 2^a, relative error 2⁻⁹·⁹.
    ex2_f16x2, ex2_f16x2_to(a: B32) -> B32 = |d| PackedEx2 { ty: F16x2, d, a };
    /// 2^a, relative error 2⁻⁷; subnormals count as 0.
    ex2_bf16x2, ex2_bf16x2_to(a: B32) -> B32 = |d| PackedEx2 { ty: Bf16x2, d, a };
}
