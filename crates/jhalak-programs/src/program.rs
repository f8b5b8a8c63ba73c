//! A kernel with its launch, as data.

use jhalak_ptx::{Module, TensorMapSpec};

use crate::Meaning;

/// A module of one kernel, how it is launched, and what it computes.
#[derive(Clone, Debug)]
pub struct Program {
    /// The module.
    pub module: Module,
    /// How its kernel is launched.
    pub launch: Launch,
    /// What is in the output afterwards.
    pub meaning: Meaning,
}

/// A launch of a module's kernel.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The kernel's name.
    pub kernel: &'static str,
    /// Blocks along x.
    pub grid: u32,
    /// Threads of a block, along x.
    pub block: u32,
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
    /// The memory that it takes.
    pub buffers: Vec<Buffer>,
    /// The arguments, in the order of the kernel's parameters.
    pub arguments: Vec<Argument>,
}

/// A piece of global memory, aligned to 256 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// What it is called.
    pub name: &'static str,
    /// What it holds.
    pub element: Element,
    /// How many of them.
    pub len: usize,
    /// What the kernel does with it.
    pub usage: Use,
}

/// What a kernel does with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Reads it. The caller fills it with any numbers.
    Input,
    /// Writes all of it.
    Output,
    /// Adds to it. The caller fills it with zeros.
    Accumulator,
}

/// A number in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// 4 bits of exponent, 3 of mantissa.
    E4m3,
    /// The upper half of a float.
    Bf16,
    /// Single precision.
    F32,
}

impl Element {
    /// Bytes of a number.
    pub const fn bytes(self) -> u32 {
        match self {
            Element::E4m3 => 1,
            Element::Bf16 => 2,
            Element::F32 => 4,
        }
    }
}

/// An argument of a launch. Buffers are named by their place in [`Launch::buffers`].
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// A 32-bit number.
    U32(u32),
    /// The address of a buffer.
    Address(usize),
    /// A tensor map of a buffer.
    TensorMap(usize, TensorMapSpec),
}
