//! A kernel's parameters: how the host lays them out and how the kernel names them.

use std::fmt;
use std::marker::PhantomData;

use crate::tensor_map::TENSOR_ALIGN;

/// What a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// A 32-bit integer.
    U32,
    /// A 64-bit integer.
    U64,
    /// A 32-bit float.
    F32,
    /// An address in global memory, a multiple of `align` bytes.
    Pointer {
        /// Alignment of what it points to, in bytes.
        align: u32,
    },
    /// A tensor map (`CUtensorMap`), by value.
    TensorMap,
}

impl fmt::Display for ParameterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParameterKind::U32 => f.write_str("a u32"),
            ParameterKind::U64 => f.write_str("a u64"),
            ParameterKind::F32 => f.write_str("an f32"),
            ParameterKind::Pointer { align } => {
                write!(f, "a pointer (u64), a multiple of {align}")
            }
            ParameterKind::TensorMap => {
                write!(f, "a valid tensor map of an address that is a multiple of {TENSOR_ALIGN}")
            }
        }
    }
}

impl ParameterKind {
    /// Bytes that the host passes.
    pub fn bytes(self) -> usize {
        match self {
            ParameterKind::U32 | ParameterKind::F32 => 4,
            ParameterKind::U64 | ParameterKind::Pointer { .. } => 8,
            ParameterKind::TensorMap => 128,
        }
    }

    /// Alignment of the value itself, in bytes.
    pub fn align(self) -> usize {
        match self {
            ParameterKind::TensorMap => 64,
            _ => self.bytes(),
        }
    }
}

/// One parameter of a kernel; the host passes them in the order of declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The name given by the kernel.
    pub name: String,
    /// What it is.
    pub kind: ParameterKind,
}

/// A parameter that loads into a register of type `R`.
#[derive(Clone, Copy, Debug)]
pub struct Param<R> {
    pub(crate) index: usize,
    pub(crate) of: PhantomData<R>,
}

/// A parameter that holds a tensor map.
#[derive(Clone, Copy, Debug)]
pub struct TensorMap {
    pub(crate) index: usize,
}
