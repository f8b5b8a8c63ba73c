//! A block: its warps, its shared memory and its barriers.

use super::arena::{Allocation, Arena};
use super::clock::Clock;
use super::registers::WARP;
use super::warp::Warp;
use crate::address::Space;
use crate::kernel::Kernel;
use crate::shared::Placement;

/// Where static shared memory begins. Not 0, as on devices, where the system keeps some for itself.
const SHARED_FIRST: u64 = 1024;

/// One of a block's 16 barriers, in its current round.
#[derive(Default)]
pub(super) struct Barrier {
    /// How many threads it is for, once a warp has come.
    pub(super) threads: Option<u32>,
    pub(super) arrived: u32,
    /// What those that came had done and seen.
    pub(super) clock: Clock,
}

/// What the warps of a block share.
pub(super) struct Shared {
    pub(super) index: [u32; 3],
    pub(super) memory: Arena,
    /// The addresses of the kernel's static and dynamic shared memory.
    pub(super) first: [u64; 2],
    pub(super) barriers: [Barrier; 16],
    /// Of the barrier that the last instruction completed, the number and what was known to those
    /// who came.
    pub(super) completed: Option<(usize, Clock)>,
    pub(super) warp_count: u32,
}

impl Shared {
    /// Where a kernel's shared memory begins.
    pub(super) fn address(&self, placement: Placement) -> u64 {
        self.first[placement as usize]
    }
}

pub(super) struct Block {
    pub(super) warps: Vec<Warp>,
    pub(super) shared: Shared,
}

impl Block {
    pub(super) fn new(
        kernel: &Kernel,
        block: u32,
        index: [u32; 3],
        threads: u32,
        dynamic_bytes: u32,
    ) -> Self {
        let warp_count = threads.div_ceil(32);
        let warps = (0..warp_count).map(|warp| {
            let lanes = (threads - 32 * warp).min(32);
            Warp::new(kernel, block, warp as usize, WARP >> (32 - lanes))
        });
        let mut memory = Arena::new(Space::Shared);
        let after = SHARED_FIRST + u64::from(kernel.static_shared.bytes());
        let dynamic = after.next_multiple_of(kernel.dynamic_shared.align().into());
        for (first, bytes) in
            [(SHARED_FIRST, kernel.static_shared.bytes()), (dynamic, dynamic_bytes)]
        {
            memory.allocations.push(Allocation::new(first, bytes as usize));
        }
        Block {
            warps: warps.collect(),
            shared: Shared {
                index,
                memory,
                first: [SHARED_FIRST, dynamic],
                barriers: Default::default(),
                completed: None,
                warp_count,
            },
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.warps.iter().all(Warp::has_ended)
    }

    /// Lets those go on who wait at a barrier that all have come to.
    pub(super) fn wake(&mut self) {
        let Some((barrier, clock)) = self.shared.completed.take() else { return };
        for warp in &mut self.warps {
            if warp.waiting.is_some_and(|waiting| waiting.barrier == barrier) {
                warp.waiting = None;
                warp.acquire(warp.paths.alive, &clock);
            }
        }
    }
}
