//! Lets the next kernel of a stream begin before this one has ended (PTX ISA, "griddepcontrol").
//! It does so when it was launched with the attribute of programmatic stream serialisation.

use crate::KernelBuilder;
use crate::describe::{Describe, Reader};
use crate::names::named;
use crate::target::{Target, Version};

named! {
    /// Which side of the dependency.
    pub enum GridDependency {
        /// The kernels that wait for this one may be launched.
        LaunchDependents = "griddepcontrol.launch_dependents",
        /// Waits until the kernels before this one have ended, and sees what they wrote.
        Wait = "griddepcontrol.wait",
    }
}

/// A step of a kernel that depends on another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GridDependencyControl {
    pub(crate) side: GridDependency,
}

impl Describe for GridDependencyControl {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(&[(Target::Sm90a, Version::new(7, 8))]);
        to.name(&[self.side.name()]);
    }
}

/// # Dependent launches
impl KernelBuilder {
    /// Says that the kernels that wait for this one may be launched, as far as this block goes.
    #[track_caller]
    pub fn griddepcontrol_launch_dependents(&mut self) {
        self.push(GridDependencyControl { side: GridDependency::LaunchDependents });
    }

    /// Waits until the kernels before this one have ended, and sees what they wrote.
    #[track_caller]
    pub fn griddepcontrol_wait(&mut self) {
        self.push(GridDependencyControl { side: GridDependency::Wait });
    }
}
