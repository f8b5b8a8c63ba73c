//! Floats: sums, products, extrema and the special functions (PTX ISA, "Floating Point
//! Instructions").
//!
//! Sums and products always say `.rn`: without it ptxas may fuse a product with a sum, and results
//! would depend on its mood. A kernel that wants a fused product asks for [`KernelBuilder::fma_f32`].
//!
//! [`KernelBuilder::fma_f32`]: crate::KernelBuilder::fma_f32

use super::forms::forms;
use crate::describe::{Describe, Reader};
use crate::instruction::float::{FloatFunction::*, FloatOperator::*};
use crate::names::named;
use crate::register::{F32, Operand, Register};
use crate::target::{Target, Version};

named! {
    /// What is done with two floats.
    pub enum FloatOperator {
        /// Sum, rounded to nearest even.
        Add = "add.rn",
        /// Difference, rounded to nearest even.
        Sub = "sub.rn",
        /// Product, rounded to nearest even.
        Mul = "mul.rn",
        /// The smaller; the other one when one is NaN.
        Min = "min",
        /// The larger; the other one when one is NaN.
        Max = "max",
    }

    /// A function of one float.
    pub enum FloatFunction {
        /// The sign flipped.
        Neg = "neg",
        /// The sign cleared.
        Abs = "abs",
        /// 2^a, within 2 ulp; subnormals count as 0.
        Ex2 = "ex2.approx.ftz",
        /// log₂ a, within 2⁻²² of the larger of 1 and the result; subnormals count as 0.
        Lg2 = "lg2.approx.ftz",
        /// 1 / a, within 1 ulp; subnormals count as 0.
        Rcp = "rcp.approx.ftz",
        /// √a, relative error 2⁻²³; subnormals count as 0.
        Sqrt = "sqrt.approx.ftz",
        /// 1 / √a, relative error 2⁻²²·⁹; subnormals count as 0.
        Rsqrt = "rsqrt.approx.ftz",
        /// tanh a, relative error 2⁻¹¹.
        Tanh = "tanh.approx",
    }
}

/// `d = a op b`; with `flush`, subnormal inputs and results become 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Float {
    pub(crate) operator: FloatOperator,
    pub(crate) flush: bool,
    pub(crate) d: Register,
    pub(crate) a: Operand,
    pub(crate) b: Operand,
}

fn flushing(flush: bool) -> &'static str {
    if flush { ".ftz.f32" } else { ".f32" }
}

impl Describe for Float {
    fn describe(&self, to: &mut impl Reader) {
        to.name(&[self.operator.name(), flushing(self.flush)]);
        to.output(self.d);
        to.input(self.a);
        to.input(self.b);
    }
}

/// `d = a · b + c`, rounded once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FusedMulAdd {
    pub(crate) flush: bool,
    pub(crate) d: Register,
    pub(crate) a: Operand,
    pub(crate) b: Operand,
    pub(crate) c: Operand,
}

impl Describe for FusedMulAdd {
    fn describe(&self, to: &mut impl Reader) {
        to.name(&["fma.rn", flushing(self.flush)]);
        to.output(self.d);
        to.input(self.a);
        to.input(self.b);
        to.input(self.c);
    }
}

/// `d = function(a)`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FloatUnary {
    pub(crate) function: FloatFunction,
    pub(crate) d: Register,
    pub(crate) a: Operand,
}

impl Describe for FloatUnary {
    fn describe(&self, to: &mut impl Reader) {
        if self.function == Tanh {
            to.needs(&[(Target::Sm75, Version::new(7, 0))]);
        }
        to.name(&[self.function.name(), ".f32"]);
        to.output(self.d);
        to.input(self.a);
    }
}

fn binary(operator: FloatOperator, d: Register, a: Operand, b: Operand) -> Float {
    Float { operator, flush: false, d, a, b }
}

fn flushed(operator: FloatOperator, d: Register, a: Operand, b: Operand) -> Float {
    Float { operator, flush: true, d, a, b }
}

forms! {
    "Floats";
    /// a + b.
    add_f32, add_f32_to(a: F32, b: F32) -> F32 = |d| binary(Add, d, a, b);
    /// a + b; subnormals count as 0.
    add_ftz_f32, add_ftz_f32_to(a: F32, b: F32) -> F32 = |d| flushed(Add, d, a, b);
    /// a - b.
    sub_f32, sub_f32_to(a: F32, b: F32) -> F32 = |d| binary(Sub, d, a, b);
    /// a - b; subnormals count as 0.
    sub_ftz_f32, sub_ftz_f32_to(a: F32, b: F32) -> F32 = |d| flushed(Sub, d, a, b);
    /// a · b.
    mul_f32, mul_f32_to(a: F32, b: F32) -> F32 = |d| binary(Mul, d, a, b);
    /// a · b; subnormals count as 0.
    mul_ftz_f32, mul_ftz_f32_to(a: F32, b: F32) -> F32 = |d| flushed(Mul, d, a, b);
    /// The smaller; the other one when one is NaN.
    min_f32, min_f32_to(a: F32, b: F32) -> F32 = |d| binary(Min, d, a, b);
    /// The larger; the other one when one is NaN.
    max_f32, max_f32_to(a: F32, b: F32) -> F32 = |d| binary(Max, d, a, b);
    /// a · b + c, rounded once.
    fma_f32, fma_f32_to(a: F32, b: F32, c: F32) -> F32
        = |d| FusedMulAdd { flush: false, d, a, b, c };
    /// a · b + c, rounded once; subnormals count as 0.
    fma_ftz_f32, fma_ftz_f32_to(a: F32, b: F32, c: F32) -> F32
        = |d| FusedMulAdd { flush: true, d, a, b, c };
    /// -a.
    neg_f32, neg_f32_to(a: F32) -> F32 = |d| FloatUnary { function: Neg, d, a };
    /// |a|.
    abs_f32, abs_f32_to(a: F32) -> F32 = |d| FloatUnary { function: Abs, d, a };
    /// 2^a, within 2 ulp; of -∞: 0. Subnormals count as 0.
    ex2_f32, ex2_f32_to(a: F32) -> F32 = |d| FloatUnary { function: Ex2, d, a };
    /// log₂ a; of 0: -∞. Subnormals count as 0.
    lg2_f32, lg2_f32_to(a: F32) -> F32 = |d| FloatUnary { function: Lg2, d, a };
    /// 1 / a, within 1 ulp. Subnormals count as 0.
    rcp_f32, rcp_f32_to(a: F32) -> F32 = |d| FloatUnary { function: Rcp, d, a };
    /// √a, relative error 2⁻²³. Subnormals count as 0.
    sqrt_f32, sqrt_f32_to(a: F32) -> F32 = |d| FloatUnary { function: Sqrt, d, a };
    /// 1 / √a, relative error 2⁻²²·⁹; of 0: ∞. Subnormals count as 0.
    rsqrt_f32, rsqrt_f32_to(a: F32) -> F32 = |d| FloatUnary { function: Rsqrt, d, a };
    /// tanh a, relative error 2⁻¹¹.
    tanh_f32, tanh_f32_to(a: F32) -> F32 = |d| FloatUnary { function: Tanh, d, a };
}
