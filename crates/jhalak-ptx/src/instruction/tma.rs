//! Copies of boxes of a tensor by the copy engine (PTX ISA, "cp.async.bulk.tensor",
//! "cp.reduce.async.bulk.tensor", "cp.async.bulk.prefetch.tensor").
//!
//! A tensor map, made by the host, knows the tensor and the box. The kernel gives the coordinates of
//! the box's first element, innermost first; what lies outside the tensor is read as 0 and not
//! written. The innermost coordinate is a multiple of 16 bytes (an H200 ends others with an illegal
//! instruction). One thread asks; the engine does the rest.

use crate::KernelBuilder;
use crate::address::{Address, SharedAddress};
use crate::describe::{Describe, Reader};
use crate::register::{B32, B64, Operand, Register, Source};
use crate::target::{Since, Target, Version};

const HOPPER: &Since = &[(Target::Sm90a, Version::new(8, 0))];
const DIMS: [&str; 5] = [".1d", ".2d", ".3d", ".4d", ".5d"];

fn dims(coordinates: &[Operand], to: &mut impl Reader) -> &'static str {
    to.rule((1..=5).contains(&coordinates.len()), "a tensor has 1 to 5 dimensions");
    DIMS[coordinates.len().clamp(1, 5) - 1]
}

/// `.L2::cache_hint`, where there is a policy.
pub(super) fn hint(policy: Option<Register>) -> &'static str {
    if policy.is_some() { ".L2::cache_hint" } else { "" }
}

/// Begins to copy a box to shared memory; `barrier` gets its bytes.
#[derive(Clone, Debug)]
pub(crate) struct TensorLoad {
    pub(crate) to: Address,
    pub(crate) map: Register,
    pub(crate) coordinates: Vec<Operand>,
    pub(crate) barrier: Address,
    pub(crate) policy: Option<Register>,
}

impl Describe for TensorLoad {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        to.rule(self.to.may_hold(128), "a box in shared memory is aligned to 128 bytes");
        to.rule(self.barrier.may_hold(8), "an mbarrier is aligned to 8 bytes");
        let dims = dims(&self.coordinates, to);
        let parts = ["cp.async.bulk.tensor", dims, ".shared::cluster.global.tile"];
        to.name(&parts);
        to.name(&[".mbarrier::complete_tx::bytes", hint(self.policy)]);
        to.memory(self.to);
        to.tensor(self.map, &self.coordinates);
        to.memory(self.barrier);
        if let Some(policy) = self.policy {
            to.input(Operand::Register(policy));
        }
    }
}

/// Begins to copy or add a box from shared memory to the tensor; part of a bulk group.
#[derive(Clone, Debug)]
pub(crate) struct TensorStore {
    pub(crate) map: Register,
    pub(crate) coordinates: Vec<Operand>,
    pub(crate) from: Address,
    pub(crate) add: bool,
    pub(crate) policy: Option<Register>,
}

impl Describe for TensorStore {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        to.rule(self.from.may_hold(128), "a box in shared memory is aligned to 128 bytes");
        let dims = dims(&self.coordinates, to);
        let (name, add) = if self.add {
            ("cp.reduce.async.bulk.tensor", ".add")
        } else {
            ("cp.async.bulk.tensor", "")
        };
        to.name(&[name, dims, ".global.shared::cta", add, ".tile.bulk_group", hint(self.policy)]);
        to.tensor(self.map, &self.coordinates);
        to.memory(self.from);
        if let Some(policy) = self.policy {
            to.input(Operand::Register(policy));
        }
    }
}

/// Asks for a box in the second cache.
#[derive(Clone, Debug)]
pub(crate) struct TensorPrefetch {
    pub(crate) map: Register,
    pub(crate) coordinates: Vec<Operand>,
}

impl Describe for TensorPrefetch {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        let dims = dims(&self.coordinates, to);
        to.name(&["cp.async.bulk.prefetch.tensor", dims, ".L2.global.tile"]);
        to.tensor(self.map, &self.coordinates);
    }
}

/// Asks for a tensor map itself, which will be used soon.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrefetchTensorMap {
    pub(crate) map: Register,
}

impl Describe for PrefetchTensorMap {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        to.name(&["prefetch.tensormap"]);
        to.tensor(self.map, &[]);
    }
}

fn operands<const N: usize>(coordinates: [impl Into<Source<B32>>; N]) -> Vec<Operand> {
    coordinates.map(|c| c.into().operand).to_vec()
}

impl KernelBuilder {
    /// Begins to copy a box to shared memory (aligned to 128 bytes, to the swizzle's pattern where
    /// the map has one). The barrier's phase gets the bytes of the whole box, which it must expect.
    /// `map` comes from [`tensor_map_address`](Self::tensor_map_address).
    #[track_caller]
    pub fn tma_load<const N: usize>(
        &mut self,
        to: impl Into<SharedAddress>,
        map: B64,
        coordinates: [impl Into<Source<B32>>; N],
        barrier: impl Into<SharedAddress>,
        policy: Option<B64>,
    ) {
        self.push(TensorLoad {
            to: to.into().0,
            map: map.into(),
            coordinates: operands(coordinates),
            barrier: barrier.into().0,
            policy: policy.map(Into::into),
        });
    }

    /// Begins to copy a box from shared memory to the tensor. What ordinary stores wrote there needs
    /// [`fence_proxy_async`](Self::fence_proxy_async) before; then
    /// [`bulk_commit_group`](Self::bulk_commit_group).
    #[track_caller]
    pub fn tma_store<const N: usize>(
        &mut self,
        map: B64,
        coordinates: [impl Into<Source<B32>>; N],
        from: impl Into<SharedAddress>,
        policy: Option<B64>,
    ) {
        self.tensor_store(map, operands(coordinates), from.into(), policy, false);
    }

    /// Begins to add a box from shared memory to the tensor, element by element; otherwise as
    /// [`tma_store`](Self::tma_store).
    #[track_caller]
    pub fn tma_reduce_add<const N: usize>(
        &mut self,
        map: B64,
        coordinates: [impl Into<Source<B32>>; N],
        from: impl Into<SharedAddress>,
        policy: Option<B64>,
    ) {
        self.tensor_store(map, operands(coordinates), from.into(), policy, true);
    }

    #[track_caller]
    fn tensor_store(
        &mut self,
        map: B64,
        coordinates: Vec<Operand>,
        from: SharedAddress,
        policy: Option<B64>,
        add: bool,
    ) {
        let (map, policy) = (map.into(), policy.map(Into::into));
        self.push(TensorStore { map, coordinates, from: from.0, add, policy });
    }

    /// Asks for a box in the second cache.
    #[track_caller]
    pub fn tma_prefetch<const N: usize>(
        &mut self,
        map: B64,
        coordinates: [impl Into<Source<B32>>; N],
    ) {
        self.push(TensorPrefetch { map: map.into(), coordinates: operands(coordinates) });
    }

    /// Asks for a tensor map itself, which will be used soon.
    #[track_caller]
    pub fn prefetch_tensor_map(&mut self, map: B64) {
        self.push(PrefetchTensorMap { map: map.into() });
    }
}
