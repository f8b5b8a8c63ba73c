//! What a running kernel asks of the machine: registers for a warpgroup, and overlap with the kernels
//! before and after it in the stream (PTX ISA, "setmaxnreg", "griddepcontrol").

use crate::KernelBuilder;
use crate::describe::{Describe, Reader};
use crate::kernel::BlockThreads;
use crate::names::named;
use crate::target::{Since, Target, Version};

const HOPPER: &Since = &[(Target::Sm90a, Version::new(8, 0))];

named! {
    /// Which way a warpgroup's registers change.
    pub enum RegisterChange {
        /// Takes more from the block's pool; waits until they are there.
        Increase = ".inc",
        /// Gives some to the block's pool.
        Decrease = ".dec",
    }

    /// How a kernel meets its neighbours in the stream.
    pub enum GridDependency {
        /// Waits until the kernels before have ended and their writes are seen.
        Wait = "griddepcontrol.wait",
        /// The next kernel may begin when all blocks have said so.
        LaunchDependents = "griddepcontrol.launch_dependents",
    }
}

/// Changes the registers of each thread of a warpgroup to `count`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetMaxRegisters {
    pub(crate) change: RegisterChange,
    pub(crate) count: u32,
}

impl Describe for SetMaxRegisters {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        let possible = (24..=256).contains(&self.count) && self.count.is_multiple_of(8);
        to.rule(possible, "setmaxnreg takes 24 to 256 registers, a multiple of 8");
        to.name(&["setmaxnreg", self.change.name(), ".sync.aligned.u32"]);
        to.number(self.count);
    }
}

impl Describe for GridDependency {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        to.name(&[self.name()]);
    }
}

impl KernelBuilder {
    /// Gives each thread of the warpgroup `count` registers (24 to 256, a multiple of 8), which are
    /// more than it had. All warps of the warpgroup must come by. The block's threads or the
    /// kernel's registers must be known, or ptxas ignores it.
    #[track_caller]
    pub fn setmaxnreg_inc(&mut self, count: u32) {
        self.setmaxnreg(RegisterChange::Increase, count);
    }

    /// Leaves each thread of the warpgroup `count` registers (24 to 256, a multiple of 8); see
    /// [`setmaxnreg_inc`](Self::setmaxnreg_inc).
    #[track_caller]
    pub fn setmaxnreg_dec(&mut self, count: u32) {
        self.setmaxnreg(RegisterChange::Decrease, count);
    }

    #[track_caller]
    fn setmaxnreg(&mut self, change: RegisterChange, count: u32) {
        let bounds = self.kernel.bounds;
        let known = bounds.threads != BlockThreads::Any || bounds.max_registers.is_some();
        let rule = "setmaxnreg needs a bound at launch: say maxntid, reqntid or maxnreg before";
        self.declare(known, format!("setmaxnreg {count}"), rule);
        self.push(SetMaxRegisters { change, count });
    }

    /// Waits until the kernels before this one in the stream have ended and their writes are seen.
    #[track_caller]
    pub fn griddepcontrol_wait(&mut self) {
        self.push(GridDependency::Wait);
    }

    /// The next kernel of the stream may begin when all blocks have said so or ended.
    #[track_caller]
    pub fn griddepcontrol_launch_dependents(&mut self) {
        self.push(GridDependency::LaunchDependents);
    }
}
