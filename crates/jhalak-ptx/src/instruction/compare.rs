//! Comparisons, selection and the logic of predicates (PTX ISA, "Comparison and Selection
//! Instructions").

use super::forms::forms;
use super::types::Type::{self, B32 as Bits32, B64 as Bits64, F32 as Float32, S32, S64, U32, U64};
use crate::KernelBuilder;
use crate::describe::{Describe, Reader};
use crate::names::named;
use crate::register::{B32, B64, Condition, F32, Operand, Pred, Register, Source};

named! {
    /// A relation of two numbers. Those of floats in `...u` also hold when one is NaN, the plain
    /// ones do not (`Ne` neither).
    pub enum Comparison {
        /// a = b.
        Eq = ".eq",
        /// a ≠ b.
        Ne = ".ne",
        /// a < b.
        Lt = ".lt",
        /// a ≤ b.
        Le = ".le",
        /// a > b.
        Gt = ".gt",
        /// a ≥ b.
        Ge = ".ge",
        /// Floats: a = b, or one is NaN.
        Equ = ".equ",
        /// Floats: a ≠ b, or one is NaN.
        Neu = ".neu",
        /// Floats: a < b, or one is NaN.
        Ltu = ".ltu",
        /// Floats: a ≤ b, or one is NaN.
        Leu = ".leu",
        /// Floats: a > b, or one is NaN.
        Gtu = ".gtu",
        /// Floats: a ≥ b, or one is NaN.
        Geu = ".geu",
        /// Floats: neither is NaN.
        Num = ".num",
        /// Floats: one is NaN.
        Nan = ".nan",
    }

    /// A function of two truth values.
    pub enum Connective {
        /// Both.
        And = ".and",
        /// At least one.
        Or = ".or",
        /// Exactly one.
        Xor = ".xor",
    }
}

impl Comparison {
    fn is_for_integers(self) -> bool {
        use Comparison::*;
        matches!(self, Eq | Ne | Lt | Le | Gt | Ge)
    }
}

/// `d = a ? b`, or `d = (a ? b) connective condition`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compare {
    pub(crate) comparison: Comparison,
    pub(crate) ty: Type,
    pub(crate) d: Register,
    pub(crate) a: Operand,
    pub(crate) b: Operand,
    pub(crate) combine: Option<(Connective, Condition)>,
}

impl Describe for Compare {
    fn describe(&self, to: &mut impl Reader) {
        to.rule(
            self.ty == Float32 || self.comparison.is_for_integers(),
            "integers compare with Eq, Ne, Lt, Le, Gt or Ge: they are never NaN",
        );
        let connective = self.combine.map_or("", |(connective, _)| connective.name());
        to.name(&["setp", self.comparison.name(), connective, self.ty.name()]);
        to.output(self.d);
        to.input(self.a);
        to.input(self.b);
        if let Some((_, condition)) = self.combine {
            to.condition(condition);
        }
    }
}

/// `d = condition ? a : b`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Select {
    pub(crate) ty: Type,
    pub(crate) d: Register,
    pub(crate) a: Operand,
    pub(crate) b: Operand,
    pub(crate) predicate: Operand,
}

impl Describe for Select {
    fn describe(&self, to: &mut impl Reader) {
        to.name(&["selp", self.ty.name()]);
        to.output(self.d);
        to.input(self.a);
        to.input(self.b);
        to.input(self.predicate);
    }
}

named! {
    /// A function of one or two predicates.
    pub enum LogicOperator {
        /// Both.
        And = "and.pred",
        /// At least one.
        Or = "or.pred",
        /// Exactly one.
        Xor = "xor.pred",
        /// The opposite.
        Not = "not.pred",
    }
}

/// `d = a op b`, or `d = not a`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Logic {
    pub(crate) operator: LogicOperator,
    pub(crate) d: Register,
    pub(crate) a: Operand,
    pub(crate) b: Option<Operand>,
}

impl Describe for Logic {
    fn describe(&self, to: &mut impl Reader) {
        to.name(&[self.operator.name()]);
        to.output(self.d);
        to.input(self.a);
        if let Some(b) = self.b {
            to.input(b);
        }
    }
}

forms! {
    "Comparisons and choices";
    /// a where the predicate holds, else b.
    selp_f32, selp_f32_to(a: F32, b: F32, predicate: Pred) -> F32
        = |d| Select { ty: Float32, d, a, b, predicate };
    /// a where the predicate holds, else b.
    selp_b32, selp_b32_to(a: B32, b: B32, predicate: Pred) -> B32
        = |d| Select { ty: Bits32, d, a, b, predicate };
    /// a where the predicate holds, else b.
    selp_b64, selp_b64_to(a: B64, b: B64, predicate: Pred) -> B64
        = |d| Select { ty: Bits64, d, a, b, predicate };
    /// Both hold.
    and_pred, and_pred_to(a: Pred, b: Pred) -> Pred
        = |d| Logic { operator: LogicOperator::And, d, a, b: Some(b) };
    /// At least one holds.
    or_pred, or_pred_to(a: Pred, b: Pred) -> Pred
        = |d| Logic { operator: LogicOperator::Or, d, a, b: Some(b) };
    /// Exactly one holds.
    xor_pred, xor_pred_to(a: Pred, b: Pred) -> Pred
        = |d| Logic { operator: LogicOperator::Xor, d, a, b: Some(b) };
    /// The opposite, in a register. A guard or branch can also take `!p` as it is.
    not_pred, not_pred_to(a: Pred) -> Pred
        = |d| Logic { operator: LogicOperator::Not, d, a, b: None };
}

macro_rules! comparisons {
    ($($name:ident, $name_to:ident, $name_with:ident ($class:ty) = $ty:expr, $kind:literal;)*) => {
        impl KernelBuilder {$(
            #[doc = concat!("Whether the comparison of two ", $kind, " holds.")]
            #[track_caller]
            pub fn $name(
                &mut self,
                comparison: Comparison,
                a: impl Into<Source<$class>>,
                b: impl Into<Source<$class>>,
            ) -> Pred {
                let d: Pred = self.register();
                self.$name_to(d, comparison, a, b);
                d
            }

            #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), "), written to `d`.")]
            #[track_caller]
            pub fn $name_to(
                &mut self,
                d: Pred,
                comparison: Comparison,
                a: impl Into<Source<$class>>,
                b: impl Into<Source<$class>>,
            ) {
                let (d, a, b) = (d.into(), a.into().operand, b.into().operand);
                self.push(Compare { comparison, ty: $ty, d, a, b, combine: None });
            }

            #[doc = concat!("The comparison of two ", $kind, ", combined with a predicate.")]
            #[track_caller]
            pub fn $name_with(
                &mut self,
                comparison: Comparison,
                a: impl Into<Source<$class>>,
                b: impl Into<Source<$class>>,
                connective: Connective,
                condition: impl Into<Condition>,
            ) -> Pred {
                let d: Pred = self.register();
                let (a, b) = (a.into().operand, b.into().operand);
                let combine = Some((connective, condition.into()));
                self.push(Compare { comparison, ty: $ty, d: d.into(), a, b, combine });
                d
            }
        )*}
    };
}

comparisons! {
    setp_u32, setp_u32_to, setp_u32_with(B32) = U32, "unsigned numbers";
    setp_s32, setp_s32_to, setp_s32_with(B32) = S32, "signed numbers";
    setp_u64, setp_u64_to, setp_u64_with(B64) = U64, "unsigned numbers";
    setp_s64, setp_s64_to, setp_s64_with(B64) = S64, "signed numbers";
    setp_f32, setp_f32_to, setp_f32_with(F32) = Float32, "floats";
}
