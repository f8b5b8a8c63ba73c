//! Architectures and versions of PTX: what is needed for an instruction, and what a module asks of
//! the driver.

use std::fmt;

/// The architecture that a module is written for. PTX of one target also runs on newer devices,
/// except that of `sm_90a`, which runs on Hopper alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// Turing.
    Sm75,
    /// Ampere and newer.
    Sm80,
    /// Ada and newer.
    Sm89,
    /// Hopper only, with wgmma and setmaxnreg.
    Sm90a,
}

impl Target {
    /// Every target, the oldest first.
    pub const ALL: [Target; 4] = [Target::Sm75, Target::Sm80, Target::Sm89, Target::Sm90a];

    /// The name in PTX and in ptxas's `-arch`.
    pub fn name(self) -> &'static str {
        match self {
            Target::Sm75 => "sm_75",
            Target::Sm80 => "sm_80",
            Target::Sm89 => "sm_89",
            Target::Sm90a => "sm_90a",
        }
    }

    /// The first version of PTX that knows this target (PTX ISA, "Target ISA Notes" of `.target`).
    pub(crate) fn first_version(self) -> Version {
        match self {
            Target::Sm75 => Version::new(6, 3),
            Target::Sm80 => Version::new(7, 0),
            Target::Sm89 => Version::new(7, 8),
            Target::Sm90a => Version::new(8, 0),
        }
    }

    /// The most shared memory that a block can have, in bytes, static and dynamic together (CUDA
    /// programming guide, table of compute capabilities).
    pub fn max_shared_bytes(self) -> u32 {
        1024 * match self {
            Target::Sm75 => 64,
            Target::Sm80 => 163,
            Target::Sm89 => 99,
            Target::Sm90a => 227,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A version of the PTX language. A driver reads those up to its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    major: u8,
    minor: u8,
}

impl Version {
    /// Version `major.minor`.
    pub const fn new(major: u8, minor: u8) -> Self {
        Version { major, minor }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// From which version of PTX a form exists, on a target and on newer ones. A form that came to a
/// newer target earlier has a row for each.
pub(crate) type Since = [(Target, Version)];

/// The lowest version in which the form exists on a target, or `None` where it does not.
pub(crate) fn lowest_version(since: &Since, target: Target) -> Option<Version> {
    since.iter().filter(|(first, _)| *first <= target).map(|(_, version)| *version).min()
}
