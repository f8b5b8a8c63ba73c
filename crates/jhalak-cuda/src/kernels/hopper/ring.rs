//! A ring of tiles in shared memory between one producer and its consumers.
//!
//! ```text
//! producer   waits until a tile is empty, has it filled, which completes `full`
//! consumers  wait until it is full, use it, each warp arrives at `empty`
//! ```
//!
//! Each side walks the ring by a position of its own, whose parity flips when it comes round. A
//! producer begins with parity 1: the phase before the first counts as complete, so that all tiles
//! are empty.

use jhalak_ptx::Comparison::Eq;
use jhalak_ptx::{B32, KernelBuilder, Pred};

const BARRIER_BYTES: u32 = 8;

/// The barriers of a ring.
#[derive(Clone, Copy)]
pub(super) struct Ring {
    tiles: u32,
    full: B32,
    empty: B32,
}

/// Where in a ring somebody is.
#[derive(Clone, Copy)]
pub(super) struct Position {
    pub(super) tile: B32,
    parity: B32,
}

impl Ring {
    pub(super) fn declare(k: &mut KernelBuilder, name: &str, tiles: u32) -> Self {
        let [full, empty] = ["full", "empty"].map(|kind| {
            let name = format!("{name}_{kind}");
            let region = k.static_shared(&name, tiles * BARRIER_BYTES, BARRIER_BYTES);
            k.shared_address(region)
        });
        Ring { tiles, full, empty }
    }

    /// Makes the barriers: a tile is empty after so many arrivals.
    pub(super) fn init(&self, k: &mut KernelBuilder, arrivals: u32) {
        for tile in 0..self.tiles {
            k.mbarrier_init((self.full, tile * BARRIER_BYTES), 1);
            k.mbarrier_init((self.empty, tile * BARRIER_BYTES), arrivals);
        }
    }

    /// Where a producer begins.
    pub(super) fn producer(k: &mut KernelBuilder) -> Position {
        Position { tile: k.mov_b32(0), parity: k.mov_b32(1) }
    }

    /// Where a consumer begins.
    pub(super) fn consumer(k: &mut KernelBuilder) -> Position {
        Position { tile: k.mov_b32(0), parity: k.mov_b32(0) }
    }

    /// The barrier that a filled tile completes.
    pub(super) fn full(&self, k: &mut KernelBuilder, at: Position) -> B32 {
        k.mad_lo_u32(at.tile, BARRIER_BYTES, self.full)
    }

    pub(super) fn wait_full(&self, k: &mut KernelBuilder, at: Position) {
        let full = self.full(k, at);
        k.mbarrier_wait(full, at.parity);
    }

    pub(super) fn wait_empty(&self, k: &mut KernelBuilder, at: Position) {
        let empty = k.mad_lo_u32(at.tile, BARRIER_BYTES, self.empty);
        k.mbarrier_wait(empty, at.parity);
    }

    /// Says that one warp or thread, which `arrives` picks, is done with a tile.
    pub(super) fn release(&self, k: &mut KernelBuilder, at: Position, arrives: Pred) {
        let empty = k.mad_lo_u32(at.tile, BARRIER_BYTES, self.empty);
        k.when(arrives, |k| k.mbarrier_arrive(empty));
    }

    /// Goes on to the next tile.
    pub(super) fn advance(&self, k: &mut KernelBuilder, at: Position) {
        if self.tiles == 1 {
            k.xor_b32_to(at.parity, at.parity, 1);
            return;
        }
        k.add_u32_to(at.tile, at.tile, 1);
        let round = k.setp_u32(Eq, at.tile, self.tiles);
        k.when(round, |k| {
            k.mov_b32_to(at.tile, 0);
            k.xor_b32_to(at.parity, at.parity, 1);
        });
    }
}
