//! Barriers of a block and of a warp, and fences (PTX ISA, "bar", "bar.warp.sync", "fence").
//!
//! Asynchronous copies and wgmma reach memory on a way of their own, the async proxy. What threads
//! wrote is seen there after a fence between the two ways.

use super::types::Scope;
use crate::KernelBuilder;
use crate::describe::{Describe, Reader};
use crate::names::named;
use crate::register::{B32, Operand, Source};
use crate::target::{Since, Target, Version};

const HOPPER: &Since = &[(Target::Sm90a, Version::new(8, 0))];

named! {
    /// What a warp does at a barrier.
    pub enum BarrierAction {
        /// Arrives and waits for the others.
        Sync = "bar.sync",
        /// Arrives and goes on.
        Arrive = "bar.arrive",
    }

    /// How strong a fence is.
    pub enum FenceOrder {
        /// Orders what was done before against what is done after.
        AcqRel = ".acq_rel",
        /// The same, and all such fences have one order that everybody sees.
        Sc = ".sc",
    }

    /// Which memory a fence between threads and asynchronous copies is about.
    pub enum AsyncMemory {
        /// All.
        All = "",
        /// Global memory.
        Global = ".global",
        /// The shared memory of this block.
        Shared = ".shared::cta",
    }
}

/// A warp's arrival at one of the block's 16 barriers. Without `threads` the whole block takes
/// part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Barrier {
    pub(crate) action: BarrierAction,
    pub(crate) id: Operand,
    pub(crate) threads: Option<u32>,
}

impl Describe for Barrier {
    fn describe(&self, to: &mut impl Reader) {
        let known = !matches!(self.id, Operand::Constant(_, id) if id > 15);
        to.rule(known, "a block has barriers 0 to 15");
        if let Some(threads) = self.threads {
            let whole_warps = threads > 0 && threads <= 1024 && threads % 32 == 0;
            to.rule(whole_warps, "the threads of a barrier are whole warps: 32, 64, ... 1024");
        }
        to.name(&[self.action.name()]);
        to.input(self.id);
        if let Some(threads) = self.threads {
            to.number(threads);
        }
    }
}

/// All lanes of the warp wait for each other, and see what the others wrote.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WarpBarrier;

impl Describe for WarpBarrier {
    fn describe(&self, to: &mut impl Reader) {
        to.name(&["bar.warp.sync"]);
        to.number(0xffff_ffff);
    }
}

/// Orders this thread's accesses before it against those after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fence {
    pub(crate) order: FenceOrder,
    pub(crate) scope: Scope,
}

impl Describe for Fence {
    fn describe(&self, to: &mut impl Reader) {
        to.name(&["fence", self.order.name(), self.scope.name()]);
    }
}

/// Fresh mbarriers are seen by asynchronous copies and by other blocks of the cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FenceMbarrierInit;

impl Describe for FenceMbarrierInit {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        to.name(&["fence.mbarrier_init.release.cluster"]);
    }
}

/// Orders this thread's accesses before it against asynchronous ones after it, and the reverse.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FenceProxyAsync {
    pub(crate) memory: AsyncMemory,
}

impl Describe for FenceProxyAsync {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        to.name(&["fence.proxy.async", self.memory.name()]);
    }
}

/// # Barriers and fences
impl KernelBuilder {
    /// All threads of the block wait for each other at barrier 0, and see what the others wrote.
    #[track_caller]
    pub fn bar_sync_all(&mut self) {
        let id = Source::<B32>::from(0).operand;
        self.push(Barrier { action: BarrierAction::Sync, id, threads: None });
    }

    /// Waits at barrier `id` (0 to 15) until `threads` threads (whole warps) have arrived.
    #[track_caller]
    pub fn bar_sync(&mut self, id: impl Into<Source<B32>>, threads: u32) {
        let (action, id) = (BarrierAction::Sync, id.into().operand);
        self.push(Barrier { action, id, threads: Some(threads) });
    }

    /// Arrives at barrier `id` (0 to 15) of `threads` threads (whole warps), without waiting.
    #[track_caller]
    pub fn bar_arrive(&mut self, id: impl Into<Source<B32>>, threads: u32) {
        let (action, id) = (BarrierAction::Arrive, id.into().operand);
        self.push(Barrier { action, id, threads: Some(threads) });
    }

    /// All lanes of the warp wait for each other, and see what the others wrote.
    #[track_caller]
    pub fn bar_warp_sync(&mut self) {
        self.push(WarpBarrier);
    }

    /// Orders this thread's accesses before it against those after it.
    #[track_caller]
    pub fn fence(&mut self, order: FenceOrder, scope: Scope) {
        self.push(Fence { order, scope });
    }

    /// Makes this thread's fresh mbarriers seen by asynchronous copies.
    #[track_caller]
    pub fn fence_mbarrier_init(&mut self) {
        self.push(FenceMbarrierInit);
    }

    /// Makes what this thread wrote to memory seen by asynchronous copies and wgmma, and what they
    /// wrote seen by this thread. A barrier between threads comes in addition.
    #[track_caller]
    pub fn fence_proxy_async(&mut self, memory: AsyncMemory) {
        self.push(FenceProxyAsync { memory });
    }
}
