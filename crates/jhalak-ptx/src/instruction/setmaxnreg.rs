//! Moves registers from one warpgroup to another (PTX ISA, "setmaxnreg").
//!
//! ptxas ignores it (advisory C7508) unless the kernel says how many registers a thread begins with:
//! by `maxnreg`, or by `minnctapersm` and the threads of a block.

use crate::KernelBuilder;
use crate::describe::{Describe, Reader};
use crate::names::named;
use crate::target::{Target, Version};

named! {
    /// Whether a warpgroup gets registers or gives them back.
    pub enum RegisterChange {
        /// Waits until there are so many, and takes them.
        Increase = ".inc",
        /// Keeps so many and gives back the others.
        Decrease = ".dec",
    }
}

/// From here on every thread of the warpgroup has `registers` registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetMaxRegisters {
    pub(crate) change: RegisterChange,
    pub(crate) registers: u32,
}

impl Describe for SetMaxRegisters {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(&[(Target::Sm90a, Version::new(8, 0))]);
        let known = (24..=256).contains(&self.registers) && self.registers.is_multiple_of(8);
        to.rule(known, "setmaxnreg takes 24 to 256 registers, a multiple of 8");
        to.name(&["setmaxnreg", self.change.name(), ".sync.aligned.u32"]);
        to.number(self.registers);
    }
}

/// # Registers of a warpgroup
impl KernelBuilder {
    /// Gives every thread of the warpgroup `registers` registers, once others have given back
    /// enough. All warps of the warpgroup come here. 24 to 256, a multiple of 8.
    #[track_caller]
    pub fn setmaxnreg_inc(&mut self, registers: u32) {
        self.change_registers(RegisterChange::Increase, registers);
    }

    /// Keeps `registers` registers for every thread of the warpgroup and gives back the others. All
    /// warps of the warpgroup come here. 24 to 256, a multiple of 8.
    #[track_caller]
    pub fn setmaxnreg_dec(&mut self, registers: u32) {
        self.change_registers(RegisterChange::Decrease, registers);
    }

    #[track_caller]
    fn change_registers(&mut self, change: RegisterChange, registers: u32) {
        let bounds = self.kernel.bounds;
        let known = bounds.min_blocks.is_some() || bounds.max_registers.is_some();
        let rule = "setmaxnreg counts from a known number of registers: say minnctapersm or \
                    maxnreg before";
        self.declare(known, format!("setmaxnreg {registers}"), rule);
        self.push(SetMaxRegisters { change, registers });
    }
}
