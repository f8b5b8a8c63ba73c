//! A ring of stages in shared memory between one producer and some consumers.
//!
//! ```text
//! producer   waits for `empty` of a stage, fills it, arrives at `full`
//! consumers  wait for `full`, use the stage, each arrives at `empty`
//! ```
//!
//! Each side walks the ring with a [`Position`] of its own. The parity of a position flips when it
//! comes round. A producer begins with parity 1: the phase before the first counts as complete, so
//! all stages are empty.

use jhalak_ptx::Comparison::Eq;
use jhalak_ptx::{B32, KernelBuilder};

/// Bytes of an mbarrier.
const BARRIER_BYTES: u32 = 8;

/// The barriers of a ring.
#[derive(Clone, Copy)]
pub(crate) struct Ring {
    stages: u32,
    full: B32,
    empty: B32,
}

/// Where in a ring somebody is.
#[derive(Clone, Copy)]
pub(crate) struct Position {
    pub(crate) stage: B32,
    pub(crate) parity: B32,
}

impl Ring {
    /// Declares the barriers of a ring.
    pub(crate) fn new(k: &mut KernelBuilder, stages: u32) -> Self {
        let bytes = stages * BARRIER_BYTES;
        let full = k.static_shared("full", bytes, BARRIER_BYTES);
        let empty = k.static_shared("empty", bytes, BARRIER_BYTES);
        Ring { stages, full: k.shared_address(full), empty: k.shared_address(empty) }
    }

    /// Sets up all barriers: one producer, `consumers` arrivals of consumers. For one thread; the others wait at
    /// a barrier of the block.
    pub(crate) fn init(&self, k: &mut KernelBuilder, consumers: u32) {
        for stage in 0..self.stages {
            k.mbarrier_init((self.full, stage * BARRIER_BYTES), 1);
            k.mbarrier_init((self.empty, stage * BARRIER_BYTES), consumers);
        }
        k.fence_mbarrier_init();
    }

    /// The begin of the ring, for the producer.
    pub(crate) fn producer(&self, k: &mut KernelBuilder) -> Position {
        Position { stage: k.mov_b32(0), parity: k.mov_b32(1) }
    }

    /// The begin of the ring, for a consumer.
    pub(crate) fn consumer(&self, k: &mut KernelBuilder) -> Position {
        Position { stage: k.mov_b32(0), parity: k.mov_b32(0) }
    }

    /// The barrier at which the producer of a stage arrives.
    pub(crate) fn full(&self, k: &mut KernelBuilder, position: Position) -> B32 {
        k.mad_lo_u32(position.stage, BARRIER_BYTES, self.full)
    }

    /// The barrier at which the consumers of a stage arrive.
    pub(crate) fn empty(&self, k: &mut KernelBuilder, position: Position) -> B32 {
        k.mad_lo_u32(position.stage, BARRIER_BYTES, self.empty)
    }

    /// Goes on to the next stage.
    pub(crate) fn advance(&self, k: &mut KernelBuilder, position: Position) {
        let Position { stage, parity } = position;
        k.add_u32_to(stage, stage, 1);
        let round = k.setp_u32(Eq, stage, self.stages);
        k.when(round, |k| {
            k.mov_b32_to(stage, 0);
            k.xor_b32_to(parity, parity, 1);
        });
    }
}
