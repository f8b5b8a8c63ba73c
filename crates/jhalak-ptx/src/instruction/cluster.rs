//! Blocks of a cluster, which run side by side and reach each other's shared memory (PTX ISA,
//! "barrier.cluster", "mapa").

use super::mbarrier::check_barrier;
use crate::KernelBuilder;
use crate::address::{Address, SharedAddress};
use crate::describe::{Describe, Reader};
use crate::names::named;
use crate::register::{B32, Operand, Register, Source};
use crate::target::{Since, Target, Version};

const HOPPER: &Since = &[(Target::Sm90a, Version::new(8, 0))];

named! {
    /// What a thread does at the cluster's barrier.
    pub enum ClusterAction {
        /// Arrives; what it did before is released.
        Arrive = "barrier.cluster.arrive.release",
        /// Waits for all threads of the cluster, and acquires what they released.
        Wait = "barrier.cluster.wait.acquire",
    }
}

/// A step at the barrier of all threads of the cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClusterBarrier {
    pub(crate) action: ClusterAction,
}

impl Describe for ClusterBarrier {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        to.name(&[self.action.name()]);
    }
}

/// `d` = the address, for the whole cluster, of what is at `a` in the block of number `rank`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapShared {
    pub(crate) d: Register,
    pub(crate) a: Operand,
    pub(crate) rank: Operand,
}

impl Describe for MapShared {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        to.name(&["mapa.shared::cluster.u32"]);
        to.output(self.d);
        to.input(self.a);
        to.input(self.rank);
    }
}

/// Arrives once at a barrier of any block of the cluster, with the order of a release.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MbarrierArriveRemote {
    pub(crate) barrier: Address,
}

impl Describe for MbarrierArriveRemote {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        check_barrier(&self.barrier, to);
        to.name(&["mbarrier.arrive.release.cluster.shared::cluster.b64"]);
        to.word("_");
        to.memory(self.barrier);
    }
}

/// A place in the shared memory of a block of the cluster.
#[derive(Clone, Copy, Debug)]
pub struct RemoteShared {
    base: B32,
    offset: u32,
}

impl RemoteShared {
    /// The place so many bytes further.
    pub fn offset(self, bytes: u32) -> Self {
        RemoteShared { offset: self.offset + bytes, ..self }
    }
}

impl KernelBuilder {
    /// Arrives at the barrier of all threads of the cluster, without waiting.
    #[track_caller]
    pub fn barrier_cluster_arrive(&mut self) {
        self.push(ClusterBarrier { action: ClusterAction::Arrive });
    }

    /// Waits until all threads of the cluster have arrived, and sees what they wrote.
    #[track_caller]
    pub fn barrier_cluster_wait(&mut self) {
        self.push(ClusterBarrier { action: ClusterAction::Wait });
    }

    /// The same place in the shared memory of the cluster's block of number `rank`.
    #[track_caller]
    pub fn mapa(
        &mut self,
        place: impl Into<SharedAddress>,
        rank: impl Into<Source<B32>>,
    ) -> RemoteShared {
        let a = self.shared_address(place).into();
        let base: B32 = self.register();
        self.push(MapShared { d: base.into(), a, rank: rank.into().operand });
        RemoteShared { base, offset: 0 }
    }

    /// Arrives once at a barrier of any block of the cluster.
    #[track_caller]
    pub fn mbarrier_arrive_remote(&mut self, barrier: RemoteShared) {
        let barrier = SharedAddress::from((barrier.base, barrier.offset)).0;
        self.push(MbarrierArriveRemote { barrier });
    }
}
