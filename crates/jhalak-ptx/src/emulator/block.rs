//! A block: its warps, its shared memory and its barriers.

use super::arena::{Allocation, Arena};
use super::clock::{AGENTS, Clock};
use super::fault::Fault;
use super::mbarrier::Mbarrier;
use super::registers::WARP;
use super::transfer::Transfer;
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
    pub(super) mbarriers: Vec<Mbarrier>,
    made_mbarriers: usize,
    /// Copies under way.
    pub(super) transfers: Vec<Transfer>,
    /// Registers that no warp has, counted once per lane.
    pub(super) free_registers: u32,
}

impl Shared {
    /// Where a kernel's shared memory begins.
    pub(super) fn address(&self, placement: Placement) -> u64 {
        self.first[placement as usize]
    }

    /// The mbarrier at an address.
    pub(super) fn mbarrier(&mut self, address: u64) -> Result<&mut Mbarrier, Fault> {
        let at_address = |mbarrier: &&mut Mbarrier| mbarrier.address == address;
        self.mbarriers.iter_mut().find(at_address).ok_or(Fault::NoMbarrier { address })
    }

    /// Makes an mbarrier, in place of one that may have been there.
    pub(super) fn make_mbarrier(&mut self, address: u64, maker: usize, arrivals: u32) {
        self.mbarriers.retain(|mbarrier| mbarrier.address != address);
        let agent = AGENTS * self.warp_count as usize + self.made_mbarriers;
        self.made_mbarriers += 1;
        self.mbarriers.push(Mbarrier::new(address, agent as u16, maker, arrivals));
    }
}

/// How many registers each thread begins with, where the kernel says so.
fn first_registers(kernel: &Kernel, threads: u32) -> u32 {
    const OF_MULTIPROCESSOR: u32 = 65536;
    let bounds = kernel.bounds;
    let fair = bounds.min_blocks.map(|blocks| OF_MULTIPROCESSOR / (blocks * threads));
    let registers = bounds.max_registers.or(fair).unwrap_or(0);
    (registers & !7).min(256)
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
            let mut warp = Warp::new(kernel, block, warp as usize, WARP >> (32 - lanes));
            warp.register_limit = first_registers(kernel, threads);
            warp
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
                mbarriers: Vec::new(),
                made_mbarriers: 0,
                transfers: Vec::new(),
                free_registers: 0,
            },
        }
    }

    /// Fails unless the four warps of each warpgroup began the same products.
    pub(super) fn check_products(&self) -> Result<(), Fault> {
        for (warpgroup, warps) in self.warps.chunks(4).enumerate() {
            let first = warps[0].products.trace;
            let agree = warps.iter().all(|warp| warp.products.trace == first);
            if !agree || (first != 0 && warps.len() < 4) {
                return Err(Fault::WarpgroupDisagrees { warpgroup: warpgroup as u32 });
            }
        }
        Ok(())
    }

    pub(super) fn has_ended(&self) -> bool {
        self.warps.iter().all(Warp::has_ended)
    }

    /// What a warp waits for.
    pub(super) fn missing(&self, warp: &Warp) -> String {
        if let Some(waiting) = warp.waiting {
            let Barrier { threads, arrived, .. } = &self.shared.barriers[waiting.barrier];
            let threads = threads.unwrap_or(0);
            return format!(
                "{arrived} of {threads} threads have come to barrier {}",
                waiting.barrier
            );
        }
        let address = warp.looks.last().map(|(_, address)| address);
        let mut mbarriers = self.shared.mbarriers.iter();
        match mbarriers.find(|mbarrier| Some(mbarrier.address) == address) {
            Some(mbarrier) => mbarrier.missing(),
            None => "nobody changes what it looks at".to_owned(),
        }
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
