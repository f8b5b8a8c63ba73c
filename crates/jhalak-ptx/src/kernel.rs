//! A finished kernel: its instructions, and what the host needs to launch it.

use crate::instruction::{Instruction, Label};
use crate::parameter::Parameter;
use crate::register::Class;
use crate::shared::{Placement, SharedLayout};

/// How many threads a block has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockThreads {
    /// Nothing was said.
    Any,
    /// At most so many.
    AtMost(u32),
    /// Exactly so many.
    Exactly(u32),
}

/// What a kernel promises about its launch, and asks of the compiler in return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchBounds {
    /// Threads of a block.
    pub threads: BlockThreads,
    /// Blocks that a multiprocessor should hold at once, at least.
    pub min_blocks: Option<u32>,
    /// Registers of a thread, at most.
    pub max_registers: Option<u32>,
}

/// A kernel as data. Its text is part of the [`Module`](crate::Module)'s.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub(crate) name: String,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) bounds: LaunchBounds,
    pub(crate) static_shared: SharedLayout,
    pub(crate) dynamic_shared: SharedLayout,
    /// How many registers of each class there are, in the order of [`Class::ALL`].
    pub(crate) registers: [u32; Class::ALL.len()],
    pub(crate) instructions: Vec<Instruction>,
    /// Where each label is: the index of the instruction that follows it.
    pub(crate) labels: Vec<usize>,
}

impl Kernel {
    pub(crate) fn new(name: &str) -> Self {
        Kernel {
            name: name.to_owned(),
            parameters: Vec::new(),
            bounds: LaunchBounds {
                threads: BlockThreads::Any,
                min_blocks: None,
                max_registers: None,
            },
            static_shared: SharedLayout::new(Placement::Static),
            dynamic_shared: SharedLayout::new(Placement::Dynamic),
            registers: [0; Class::ALL.len()],
            instructions: Vec::new(),
            labels: Vec::new(),
        }
    }

    /// The name under which the driver finds it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The parameters, in the order in which the host passes them.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// What was promised about the launch.
    pub fn bounds(&self) -> LaunchBounds {
        self.bounds
    }

    /// Shared memory that every launch has.
    pub fn static_shared(&self) -> &SharedLayout {
        &self.static_shared
    }

    /// Shared memory that the launch must ask for.
    pub fn dynamic_shared(&self) -> &SharedLayout {
        &self.dynamic_shared
    }

    /// How many instructions there are.
    pub fn instruction_count(&self) -> usize {
        self.instructions.len()
    }

    /// The index of the instruction that follows a label.
    pub(crate) fn position(&self, label: Label) -> usize {
        self.labels[label.0]
    }

    /// How many registers of a class there are.
    pub(crate) fn register_count(&self, class: Class) -> u32 {
        self.registers[class as usize]
    }
}
