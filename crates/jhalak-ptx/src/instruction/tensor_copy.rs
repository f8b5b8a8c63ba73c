//! Copies of boxes of a tensor between global and shared memory, by the copy engine (PTX ISA,
//! "cp.async.bulk.tensor"). One thread asks for a whole box. What the tensor looks like stands in a
//! tensor map, which the host writes ([`TensorMapSpec`](crate::TensorMapSpec)).

use super::bulk_copy::{hint_name, hint_operand};
use super::mbarrier::check_barrier;
use crate::KernelBuilder;
use crate::address::{Address, SharedAddress};
use crate::describe::{Describe, Reader};
use crate::names::named;
use crate::register::{B32, B64, Operand, Register, Source};
use crate::target::{Since, Target, Version};

const HOPPER: &Since = &[(Target::Sm90a, Version::new(8, 0))];

/// A box of a tensor: its map, and the coordinates of its first element, innermost first.
#[derive(Clone, Debug)]
pub(crate) struct TensorBox {
    /// The generic address of the map.
    pub(crate) map: Register,
    pub(crate) coordinates: Vec<Operand>,
}

impl TensorBox {
    fn new(map: B64, coordinates: &[Source<B32>]) -> Self {
        let coordinates = coordinates.iter().map(|coordinate| coordinate.operand).collect();
        TensorBox { map: map.into(), coordinates }
    }

    /// The rank as part of a name.
    fn rank_name(&self, to: &mut impl Reader) -> &'static str {
        to.rule(matches!(self.coordinates.len(), 1..=5), "a tensor has 1 to 5 dimensions");
        match self.coordinates.len() {
            1 => ".1d",
            2 => ".2d",
            3 => ".3d",
            4 => ".4d",
            _ => ".5d",
        }
    }
}

/// A box is stored from a multiple of 128 bytes on.
fn check_tile(tile: &Address, to: &mut impl Reader) {
    to.rule(tile.may_hold(128), "a tile is aligned to 128 bytes");
}

/// Begins to copy a box to shared memory. The barrier counts the bytes.
#[derive(Clone, Debug)]
pub(crate) struct TensorLoad {
    pub(crate) tile: Address,
    pub(crate) source: TensorBox,
    pub(crate) barrier: Address,
    pub(crate) policy: Option<B64>,
}

impl Describe for TensorLoad {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        check_tile(&self.tile, to);
        check_barrier(&self.barrier, to);
        let rank = self.source.rank_name(to);
        to.name(&[
            "cp.async.bulk.tensor",
            rank,
            ".shared::cluster.global.tile.mbarrier::complete_tx::bytes",
            hint_name(self.policy),
        ]);
        to.memory(self.tile);
        to.tensor(self.source.map, &self.source.coordinates);
        to.memory(self.barrier);
        hint_operand(self.policy, to);
    }
}

named! {
    /// What a box from shared memory does to the tensor.
    pub enum TensorWrite {
        /// Replaces what was there.
        Store = "cp.async.bulk.tensor",
        /// Is added, element by element.
        Add = "cp.reduce.async.bulk.tensor",
    }
}

/// Begins to copy a box from shared memory, or to add it. Belongs to the thread's next bulk group.
#[derive(Clone, Debug)]
pub(crate) struct TensorStore {
    pub(crate) write: TensorWrite,
    pub(crate) destination: TensorBox,
    pub(crate) tile: Address,
    pub(crate) policy: Option<B64>,
}

impl Describe for TensorStore {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        check_tile(&self.tile, to);
        let rank = self.destination.rank_name(to);
        let add = if self.write == TensorWrite::Add { ".add" } else { "" };
        to.name(&[
            self.write.name(),
            rank,
            ".global.shared::cta",
            add,
            ".tile.bulk_group",
            hint_name(self.policy),
        ]);
        to.tensor(self.destination.map, &self.destination.coordinates);
        to.memory(self.tile);
        hint_operand(self.policy, to);
    }
}

/// Asks for a box to be brought to the second cache.
#[derive(Clone, Debug)]
pub(crate) struct TensorPrefetch {
    pub(crate) source: TensorBox,
}

impl Describe for TensorPrefetch {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        let rank = self.source.rank_name(to);
        to.name(&["cp.async.bulk.prefetch.tensor", rank, ".L2.global.tile"]);
        to.tensor(self.source.map, &self.source.coordinates);
    }
}

/// Asks for a tensor map to be brought near the copy engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrefetchTensorMap {
    pub(crate) map: Register,
}

impl Describe for PrefetchTensorMap {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        to.name(&["prefetch.tensormap"]);
        to.tensor_map(self.map);
    }
}

/// # Copies of tensor tiles
impl KernelBuilder {
    /// Begins to copy a box of a tensor to shared memory; the barrier counts its bytes, also those
    /// that lie outside the tensor. `map` is a
    /// [`tensor_map_address`](Self::tensor_map_address); `coordinates` are those of the box's first
    /// element, innermost first, signed; the innermost is a multiple of 16 bytes (an H200 ends
    /// others with an illegal instruction). `policy` is a policy of the second cache.
    #[track_caller]
    pub fn tensor_load(
        &mut self,
        tile: impl Into<SharedAddress>,
        map: B64,
        coordinates: &[Source<B32>],
        barrier: impl Into<SharedAddress>,
        policy: Option<B64>,
    ) {
        let (tile, barrier) = (tile.into().0, barrier.into().0);
        let source = TensorBox::new(map, coordinates);
        self.push(TensorLoad { tile, source, barrier, policy });
    }

    /// Begins to copy a box from shared memory to a tensor; what lies outside is not written. It
    /// belongs to the thread's next [bulk group](Self::bulk_commit_group).
    #[track_caller]
    pub fn tensor_store(
        &mut self,
        map: B64,
        coordinates: &[Source<B32>],
        tile: impl Into<SharedAddress>,
        policy: Option<B64>,
    ) {
        self.write_tensor(TensorWrite::Store, map, coordinates, tile.into(), policy);
    }

    /// Begins to add a box in shared memory to a tensor, element by element, each at once. It belongs
    /// to the thread's next [bulk group](Self::bulk_commit_group).
    #[track_caller]
    pub fn tensor_reduce_add(
        &mut self,
        map: B64,
        coordinates: &[Source<B32>],
        tile: impl Into<SharedAddress>,
        policy: Option<B64>,
    ) {
        self.write_tensor(TensorWrite::Add, map, coordinates, tile.into(), policy);
    }

    #[track_caller]
    fn write_tensor(
        &mut self,
        write: TensorWrite,
        map: B64,
        coordinates: &[Source<B32>],
        tile: SharedAddress,
        policy: Option<B64>,
    ) {
        let destination = TensorBox::new(map, coordinates);
        self.push(TensorStore { write, destination, tile: tile.0, policy });
    }

    /// Asks for a box of a tensor to be brought to the second cache.
    #[track_caller]
    pub fn tensor_prefetch(&mut self, map: B64, coordinates: &[Source<B32>]) {
        self.push(TensorPrefetch { source: TensorBox::new(map, coordinates) });
    }

    /// Asks for a tensor map to be brought near the copy engine.
    #[track_caller]
    pub fn prefetch_tensor_map(&mut self, map: B64) {
        self.push(PrefetchTensorMap { map: map.into() });
    }
}
