//! What the lanes of a warp tell each other (PTX ISA, "shfl.sync", "vote.sync", "activemask",
//! "elect.sync").
//!
//! Every form names all 32 lanes: a kernel never splits a warp around one of these. So every lane
//! of the warp must come to the same instruction.

use super::forms::forms;
use crate::describe::{Describe, Reader};
use crate::names::named;
use crate::register::{B32, F32, Operand, Pred, Register};
use crate::target::{Target, Version};

/// All lanes of a warp.
const ALL_LANES: u32 = 0xffff_ffff;

named! {
    /// Whose value a lane gets from a shuffle.
    pub enum ShuffleMode {
        /// That of the lane with the given number.
        Index = ".idx",
        /// That of the lane whose number differs in the given bits.
        Butterfly = ".bfly",
        /// That of the lane so many below; its own if there is none.
        Up = ".up",
        /// That of the lane so many above; its own if there is none.
        Down = ".down",
    }

    /// What a vote asks.
    pub enum VoteMode {
        /// The predicate holds in all lanes.
        All = ".all",
        /// The predicate holds in some lane.
        Any = ".any",
    }
}

/// `d` = `a` of another lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shuffle {
    pub(crate) mode: ShuffleMode,
    pub(crate) d: Register,
    pub(crate) a: Operand,
    pub(crate) lane: Operand,
}

impl Describe for Shuffle {
    fn describe(&self, to: &mut impl Reader) {
        to.name(&["shfl.sync", self.mode.name(), ".b32"]);
        to.output(self.d);
        to.input(self.a);
        to.input(self.lane);
        to.number(if self.mode == ShuffleMode::Up { 0 } else { 31 });
        to.number(ALL_LANES);
    }
}

/// `d` = whether `a` holds in all lanes or in any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vote {
    pub(crate) mode: VoteMode,
    pub(crate) d: Register,
    pub(crate) a: Operand,
}

impl Describe for Vote {
    fn describe(&self, to: &mut impl Reader) {
        to.name(&["vote.sync", self.mode.name(), ".pred"]);
        to.output(self.d);
        to.input(self.a);
        to.number(ALL_LANES);
    }
}

/// `d` = a bit for every lane: whether `a` holds there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ballot {
    pub(crate) d: Register,
    pub(crate) a: Operand,
}

impl Describe for Ballot {
    fn describe(&self, to: &mut impl Reader) {
        to.name(&["vote.sync.ballot.b32"]);
        to.output(self.d);
        to.input(self.a);
        to.number(ALL_LANES);
    }
}

/// `d` = a bit for every lane that executes this together with the asking one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ActiveMask {
    pub(crate) d: Register,
}

impl Describe for ActiveMask {
    fn describe(&self, to: &mut impl Reader) {
        to.name(&["activemask.b32"]);
        to.output(self.d);
    }
}

/// `d` = true in one lane of the warp, the same each time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elect {
    pub(crate) d: Register,
}

impl Describe for Elect {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(&[(Target::Sm90a, Version::new(8, 0))]);
        to.name(&["elect.sync"]);
        to.elected(self.d);
        to.number(ALL_LANES);
    }
}

fn shuffle(mode: ShuffleMode, d: Register, a: Operand, lane: Operand) -> Shuffle {
    Shuffle { mode, d, a, lane }
}

forms! {
    "The warp";
    /// a of the given lane.
    shfl_idx_b32, shfl_idx_b32_to(a: B32, lane: B32) -> B32
        = |d| shuffle(ShuffleMode::Index, d, a, lane);
    /// a of the given lane.
    shfl_idx_f32, shfl_idx_f32_to(a: F32, lane: B32) -> F32
        = |d| shuffle(ShuffleMode::Index, d, a, lane);
    /// a of the lane whose number differs in the bits of `mask`.
    shfl_bfly_b32, shfl_bfly_b32_to(a: B32, mask: B32) -> B32
        = |d| shuffle(ShuffleMode::Butterfly, d, a, mask);
    /// a of the lane whose number differs in the bits of `mask`.
    shfl_bfly_f32, shfl_bfly_f32_to(a: F32, mask: B32) -> F32
        = |d| shuffle(ShuffleMode::Butterfly, d, a, mask);
    /// a of the lane `by` below, its own in the first lanes.
    shfl_up_b32, shfl_up_b32_to(a: B32, by: B32) -> B32 = |d| shuffle(ShuffleMode::Up, d, a, by);
    /// a of the lane `by` below, its own in the first lanes.
    shfl_up_f32, shfl_up_f32_to(a: F32, by: B32) -> F32 = |d| shuffle(ShuffleMode::Up, d, a, by);
    /// a of the lane `by` above, its own in the last lanes.
    shfl_down_b32, shfl_down_b32_to(a: B32, by: B32) -> B32
        = |d| shuffle(ShuffleMode::Down, d, a, by);
    /// a of the lane `by` above, its own in the last lanes.
    shfl_down_f32, shfl_down_f32_to(a: F32, by: B32) -> F32
        = |d| shuffle(ShuffleMode::Down, d, a, by);
    /// Whether a holds in all lanes.
    vote_all, vote_all_to(a: Pred) -> Pred = |d| Vote { mode: VoteMode::All, d, a };
    /// Whether a holds in any lane.
    vote_any, vote_any_to(a: Pred) -> Pred = |d| Vote { mode: VoteMode::Any, d, a };
    /// A bit for every lane: whether a holds there.
    vote_ballot, vote_ballot_to(a: Pred) -> B32 = |d| Ballot { d, a };
    /// A bit for every lane that executes this together with the asking one.
    activemask, activemask_to() -> B32 = |d| ActiveMask { d };
    /// True in one lane of the warp, the same each time.
    elect, elect_to() -> Pred = |d| Elect { d };
}
