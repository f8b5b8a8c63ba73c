//! Typed registers, and operands: a register or a constant.

use std::ops::Not;

/// The register classes of PTX that kernels use. Each has its own numbering and its own file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// One truth value.
    Pred,
    /// 16 bits: an integer, f16 or bf16.
    B16,
    /// 32 bits: an integer, a shared memory address, or two packed 16-bit numbers.
    B32,
    /// 64 bits: an integer, a global memory address or a descriptor.
    B64,
    /// A 32-bit float.
    F32,
}

impl Class {
    /// Every class, in the order of declaration.
    pub const ALL: [Class; 5] = [Class::Pred, Class::B16, Class::B32, Class::B64, Class::F32];

    /// What the class's registers are called, as in `%rd7`.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Class::Pred => "%p",
            Class::B16 => "%h",
            Class::B32 => "%r",
            Class::B64 => "%rd",
            Class::F32 => "%f",
        }
    }

    /// The type under which registers are declared.
    pub(crate) fn declared(self) -> &'static str {
        match self {
            Class::Pred => ".pred",
            Class::B16 => ".b16",
            Class::B32 => ".b32",
            Class::B64 => ".b64",
            Class::F32 => ".f32",
        }
    }
}

/// A register without its Rust type: how instructions hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Register {
    /// The register's class.
    pub class: Class,
    /// Its number within the class, from 0.
    pub index: u32,
}

/// A register handle: [`F32`], [`B16`], [`B32`], [`B64`] or [`Pred`].
pub trait TypedRegister: Copy + Into<Register> + private::Sealed {
    /// The class that the type stands for.
    const CLASS: Class;
    /// The handle of a register of this class.
    #[doc(hidden)]
    fn from_index(index: u32) -> Self;
}

mod private {
    pub trait Sealed {}
}

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name(u32);

        impl private::Sealed for $name {}

        impl TypedRegister for $name {
            const CLASS: Class = Class::$name;
            fn from_index(index: u32) -> Self {
                $name(index)
            }
        }

        impl From<$name> for Register {
            fn from(handle: $name) -> Register {
                Register { class: Class::$name, index: handle.0 }
            }
        }
    )*};
}

handles! {
    /// A predicate register: one truth value.
    Pred;
    /// A 16-bit register: an integer, f16 or bf16.
    B16;
    /// A 32-bit register: signed or unsigned (the method says which), a shared memory address,
    /// or packed f16x2, bf16x2.
    B32;
    /// A 64-bit register: signed or unsigned, or a global memory address.
    B64;
    /// A 32-bit float register.
    F32;
}

/// A predicate or its opposite: what a guard, a branch or a comparison may ask of it. `!p` is the
/// opposite of `p`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Condition {
    pub(crate) predicate: Pred,
    pub(crate) negated: bool,
}

impl From<Pred> for Condition {
    fn from(predicate: Pred) -> Self {
        Condition { predicate, negated: false }
    }
}

impl Not for Pred {
    type Output = Condition;
    fn not(self) -> Condition {
        Condition { predicate: self, negated: true }
    }
}

impl Not for Condition {
    type Output = Condition;
    fn not(self) -> Condition {
        Condition { negated: !self.negated, ..self }
    }
}

/// An instruction's input: a register or a constant's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// The value of a register.
    Register(Register),
    /// A constant of a class, as bits; those above the class's width are 0.
    Constant(Class, u64),
}

impl<R: TypedRegister> From<R> for Operand {
    fn from(register: R) -> Self {
        Operand::Register(register.into())
    }
}

/// A typed input: a register of type `R`, or a constant that fits it.
#[derive(Clone, Copy, Debug)]
pub struct Source<R> {
    pub(crate) operand: Operand,
    of: std::marker::PhantomData<R>,
}

impl<R: TypedRegister> From<R> for Source<R> {
    fn from(register: R) -> Self {
        Source { operand: Operand::from(register), of: std::marker::PhantomData }
    }
}

impl<R: TypedRegister> Source<R> {
    fn constant(bits: u64) -> Self {
        Source { operand: Operand::Constant(R::CLASS, bits), of: std::marker::PhantomData }
    }
}

macro_rules! constants {
    ($($register:ident: $constant:ty = |$value:ident| $bits:expr;)*) => {$(
        impl From<$constant> for Source<$register> {
            fn from($value: $constant) -> Self {
                Source::constant($bits)
            }
        }
    )*};
}

constants! {
    B16: u16 = |value| value.into();
    B32: u32 = |value| value.into();
    B32: i32 = |value| value.cast_unsigned().into();
    B64: u64 = |value| value;
    B64: i64 = |value| value.cast_unsigned();
    B64: u32 = |value| value.into();
    B64: i32 = |value| i64::from(value).cast_unsigned();
    F32: f32 = |value| value.to_bits().into();
    Pred: bool = |value| value.into();
}
