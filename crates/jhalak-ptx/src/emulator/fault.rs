//! What the emulator reports.

use std::fmt;
use std::panic::Location;

use super::shadow::{Access, Conflict, Wrong};
use crate::address::Space;
use crate::instruction::Instruction;
use crate::kernel::Kernel;
use crate::text;

/// Where in a kernel and in its grid something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The instruction as text.
    pub instruction: String,
    /// Its number in the kernel, from 0.
    pub index: usize,
    /// The Rust line that emitted it.
    pub location: &'static Location<'static>,
    /// The block's number in the grid, along x, y and z.
    pub block: [u32; 3],
    /// The warp's number in its block.
    pub warp: u32,
    /// The lane, where one lane is concerned.
    pub lane: Option<u32>,
}

impl Place {
    pub(super) fn new(
        kernel: &Kernel,
        index: usize,
        block: [u32; 3],
        warp: usize,
        lane: Option<u32>,
    ) -> Self {
        let instruction: &Instruction = &kernel.instructions[index];
        Place {
            instruction: text::instruction(kernel, instruction),
            index,
            location: instruction.location,
            block,
            warp: warp as u32,
            lane,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { instruction, index, location, block: [x, y, z], warp, lane } = self;
        write!(f, "`{instruction}` (instruction {index}, {location}) ")?;
        write!(f, "of block ({x}, {y}, {z}), warp {warp}")?;
        lane.map_or(Ok(()), |lane| write!(f, ", lane {lane}"))
    }
}

/// Whether an access read or wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It read.
    Read,
    /// It wrote, or did both.
    Write,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Action::Read => "read",
            Action::Write => "write",
        })
    }
}

/// A memory space's name, as people say it.
fn name(space: &Space) -> &'static str {
    match space {
        Space::Global => "global",
        Space::Shared => "shared",
        Space::Param => "parameter",
    }
}

/// What is wrong with a kernel or its launch.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The launch is not what the kernel asks for.
    #[error("the launch does not fit the kernel: {0}")]
    Launch(String),
    /// An access outside of what was allocated.
    #[error("out of bounds: {bytes} bytes at {address:#x} of {} memory", name(space))]
    OutOfBounds {
        /// Which memory.
        space: Space,
        /// The first byte's address.
        address: u64,
        /// Bytes of the access.
        bytes: u32,
    },
    /// An address that is not a multiple of what the access needs.
    #[error("misaligned: {address:#x} of {} memory is not a multiple of {align}", name(space))]
    Misaligned {
        /// Which memory.
        space: Space,
        /// The address.
        address: u64,
        /// What it must be a multiple of, in bytes.
        align: u32,
    },
    /// A read of memory that nobody wrote.
    #[error("uninitialised: nobody wrote the byte at {address:#x} of {} memory", name(space))]
    Uninitialised {
        /// Which memory.
        space: Space,
        /// The byte's address.
        address: u64,
    },
    /// A read of a register without a value: never written, a division by zero, or a shuffle from a
    /// lane that is gone.
    #[error("register {register} has no value")]
    UnsetRegister {
        /// Its name.
        register: String,
    },
    /// Two accesses of one place, at least one a write, that nothing orders.
    #[error(
        "race: this {action} at {address:#x} of {} memory is not ordered with the {other_action} by {other}",
        name(space)
    )]
    Race {
        /// Which memory.
        space: Space,
        /// The access's first byte.
        address: u64,
        /// What this access did.
        action: Action,
        /// What the other one did.
        other_action: Action,
        /// The other one.
        other: Box<Place>,
    },
    /// A write by a thread that the async proxy (copies, wgmma) may not see.
    #[error(
        "missing proxy fence: {address:#x} of {} memory was written by {other}, and no fence.proxy.async came between",
        name(space)
    )]
    MissingProxyFence {
        /// Which memory.
        space: Space,
        /// The access's first byte.
        address: u64,
        /// The write.
        other: Box<Place>,
    },
    /// A place that is read as if nobody wrote it while the kernel runs, and that it writes.
    #[error(
        "read-only: {address:#x} is read by ld.global.nc and written in the same launch, also by {other}"
    )]
    ReadOnlyWritten {
        /// The access's first byte.
        address: u64,
        /// The other access.
        other: Box<Place>,
    },
    /// An instruction of the whole warp that not all of its lanes execute.
    #[error("diverged: lanes {active:#010x} execute it, {expected:#010x} must")]
    Diverged {
        /// The lanes that execute it.
        active: u32,
        /// The lanes that must.
        expected: u32,
    },
    /// An operand that must be the same in every lane and is not.
    #[error("not uniform: lanes disagree on {operand}")]
    NotUniform {
        /// Which operand.
        operand: &'static str,
    },
    /// An operand's value that the instruction does not take.
    #[error("{operand} is {value}: {rule}")]
    BadOperand {
        /// Which operand.
        operand: &'static str,
        /// Its value.
        value: u64,
        /// The rule.
        rule: &'static str,
    },
    /// Warps that come to a barrier with different counts.
    #[error("barrier {id} is for {expected} threads, as others said; here for {threads}")]
    BarrierCount {
        /// The barrier.
        id: u32,
        /// What this warp says.
        threads: u32,
        /// What the warps before said.
        expected: u32,
    },
    /// No mbarrier is at the address.
    #[error("no mbarrier is at {address:#x}")]
    NoMbarrier {
        /// The address.
        address: u64,
    },
    /// More arrivals come to an mbarrier than its phase has left.
    #[error("mbarrier {address:#x}: {arriving} arrivals in a phase that expects {left} more")]
    MbarrierArrivals {
        /// The mbarrier.
        address: u64,
        /// How many come.
        arriving: u32,
        /// How many the phase has left.
        left: u32,
    },
    /// The bytes of a phase do not add up: copies under way write more than is expected.
    #[error(
        "mbarrier {address:#x}: all have arrived, the phase expects {expected} bytes more, and {coming} are on their way"
    )]
    MbarrierBytes {
        /// The mbarrier.
        address: u64,
        /// Bytes expected, less those that have come.
        expected: i64,
        /// Bytes of the copies under way.
        coming: i64,
    },
    /// A fresh mbarrier that the async proxy may not see.
    #[error(
        "mbarrier {address:#x} is used by a copy, and no fence.mbarrier_init came after its init"
    )]
    MbarrierUnfenced {
        /// The mbarrier.
        address: u64,
    },
    /// The block ended while a copy still used its shared memory.
    #[error("the block ended before this copy: nobody waited for it")]
    UnfinishedCopy,
    /// A register that belongs to a product under way.
    #[error("register {register} belongs to a wgmma under way")]
    RegisterInFlight {
        /// Its name.
        register: String,
    },
    /// A register that was written after the last `wgmma.fence`, or no fence at all.
    #[error("missing wgmma.fence: register {register} was written after the last one")]
    MissingWgmmaFence {
        /// Its name.
        register: String,
    },
    /// The four warps of a warpgroup did not begin the same products on the same tiles.
    #[error("the warps of warpgroup {warpgroup} did not all begin the same wgmma")]
    WarpgroupDisagrees {
        /// The warpgroup's number in its block.
        warpgroup: u32,
    },
    /// No warp can go on.
    #[error("deadlock: no warp can go on;{}", Waits(waiting))]
    Deadlock {
        /// Where each warp that has not ended waits, and for what.
        waiting: Vec<(Place, String)>,
    },
    /// The launch took more instructions than it was allowed.
    #[error("no end after {steps} instructions of warps")]
    StepLimit {
        /// The limit.
        steps: u64,
    },
}

struct Waits<'a>(&'a [(Place, String)]);

impl fmt::Display for Waits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(place, why)| write!(f, "\n  waiting at {place}: {why}"))
    }
}

/// A fault, with where and when it was found. Shown by `{:?}` as by `{}`, so that `unwrap` reads well.
#[derive(Clone, PartialEq, thiserror::Error)]
#[error("{fault}{}\n  in kernel `{kernel}`, seed {seed}", At(place))]
pub struct Report {
    /// What is wrong.
    pub fault: Fault,
    /// The instruction that found it; `None` for faults of the launch.
    pub place: Option<Box<Place>>,
    /// The kernel's name.
    pub kernel: String,
    /// The seed of the run.
    pub seed: u64,
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

struct At<'a>(&'a Option<Box<Place>>);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |place| write!(f, "\n  at {place}"))
    }
}

/// A fault on its way to a [`Report`]: what executes an instruction does not know its place.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) lane: Option<u32>,
    pub(super) cause: Cause,
}

#[derive(Debug)]
pub(super) enum Cause {
    Fault(Fault),
    Conflict { space: Space, address: u64, action: Action, conflict: Conflict },
}

pub(super) type Outcome<T> = Result<T, Trouble>;

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        Trouble { lane: None, cause: Cause::Fault(fault) }
    }
}

impl Trouble {
    pub(super) fn at_lane(self, lane: impl Into<Option<u32>>) -> Self {
        Trouble { lane: lane.into(), ..self }
    }
}

impl Cause {
    /// The fault, once the kernel and the shape of the grid are known.
    pub(super) fn into_fault(
        self,
        kernel: &Kernel,
        block_index: impl Fn(u32) -> [u32; 3],
    ) -> Fault {
        let (space, address, action, conflict) = match self {
            Cause::Fault(fault) => return fault,
            Cause::Conflict { space, address, action, conflict } => {
                (space, address, action, conflict)
            }
        };
        let Conflict { other, other_wrote, wrong } = conflict;
        let Access { block, warp, lanes, instruction, .. } = other;
        let lane = lanes.trailing_zeros();
        let block = block_index(block);
        let place = Place::new(kernel, instruction as usize, block, warp.into(), Some(lane));
        let other = Box::new(place);
        let other_action = if other_wrote { Action::Write } else { Action::Read };
        match wrong {
            Wrong::Unordered => Fault::Race { space, address, action, other_action, other },
            Wrong::Unfenced => Fault::MissingProxyFence { space, address, other },
            Wrong::ReadOnly => Fault::ReadOnlyWritten { address, other },
        }
    }
}
