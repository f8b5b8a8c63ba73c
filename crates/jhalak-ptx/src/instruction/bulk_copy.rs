//! Copies of contiguous bytes between global and shared memory, by the copy engine (PTX ISA,
//! "cp.async.bulk", "cp.reduce.async.bulk"). One thread asks for all of them. Sizes and addresses are
//! multiples of 16.

use super::mbarrier::check_barrier;
use super::types::Type;
use crate::KernelBuilder;
use crate::address::{Address, GlobalAddress, SharedAddress};
use crate::describe::{Describe, Reader};
use crate::register::{B32, B64, Operand, Source};
use crate::target::{Since, Target, Version};

const HOPPER: &Since = &[(Target::Sm90a, Version::new(8, 0))];

pub(super) fn hint_name(policy: Option<B64>) -> &'static str {
    if policy.is_some() { ".L2::cache_hint" } else { "" }
}

/// The policy is the last operand of a copy that has one.
pub(super) fn hint_operand(policy: Option<B64>, to: &mut impl Reader) {
    if let Some(policy) = policy {
        to.input(policy.into());
    }
}

fn check_bytes(shared: &Address, bytes: Operand, to: &mut impl Reader) {
    to.rule(shared.may_hold(16), "a bulk copy is aligned to 16 bytes");
    let whole = !matches!(bytes, Operand::Constant(_, bytes) if bytes % 16 != 0);
    to.rule(whole, "a bulk copy is of a multiple of 16 bytes");
    let counted = !matches!(bytes, Operand::Constant(_, bytes) if bytes >= 1 << 20);
    to.rule(counted, "a bulk copy is of less than 2^20 bytes");
}

/// Begins to copy bytes to shared memory. The barrier counts them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BulkLoad {
    pub(crate) to: Address,
    pub(crate) from: Address,
    pub(crate) bytes: Operand,
    pub(crate) barrier: Address,
    pub(crate) policy: Option<B64>,
}

impl Describe for BulkLoad {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        check_bytes(&self.to, self.bytes, to);
        check_barrier(&self.barrier, to);
        to.name(&[
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes",
            hint_name(self.policy),
        ]);
        to.memory(self.to);
        to.memory(self.from);
        to.input(self.bytes);
        to.memory(self.barrier);
        hint_operand(self.policy, to);
    }
}

/// Begins to copy bytes from shared memory. Belongs to the thread's next bulk group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BulkStore {
    pub(crate) to: Address,
    pub(crate) from: Address,
    pub(crate) bytes: Operand,
    pub(crate) policy: Option<B64>,
}

impl Describe for BulkStore {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        check_bytes(&self.from, self.bytes, to);
        to.name(&["cp.async.bulk.global.shared::cta.bulk_group", hint_name(self.policy)]);
        to.memory(self.to);
        to.memory(self.from);
        to.input(self.bytes);
        hint_operand(self.policy, to);
    }
}

/// Begins to add numbers in shared memory to those in global memory, each at once. Belongs to the
/// thread's next bulk group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BulkReduce {
    pub(crate) ty: Type,
    pub(crate) to: Address,
    pub(crate) from: Address,
    pub(crate) bytes: Operand,
    pub(crate) policy: Option<B64>,
}

impl Describe for BulkReduce {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        check_bytes(&self.from, self.bytes, to);
        // Sums of 16 bits say that subnormals are kept.
        let add = if self.ty == Type::F32 { ".add" } else { ".add.noftz" };
        to.name(&[
            "cp.reduce.async.bulk.global.shared::cta.bulk_group",
            hint_name(self.policy),
            add,
            self.ty.name(),
        ]);
        to.memory(self.to);
        to.memory(self.from);
        to.input(self.bytes);
        hint_operand(self.policy, to);
    }
}

/// Ends a group of this thread's copies from shared memory: those begun since the last group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BulkCommit;

impl Describe for BulkCommit {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        to.name(&["cp.async.bulk.commit_group"]);
    }
}

/// Waits until at most `pending` groups of this thread are under way; with `read_only`, until the
/// others have read shared memory, though they may not have written yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BulkWait {
    pub(crate) pending: u32,
    pub(crate) read_only: bool,
}

impl Describe for BulkWait {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        let read = if self.read_only { ".read" } else { "" };
        to.name(&["cp.async.bulk.wait_group", read]);
        to.number(self.pending);
    }
}

macro_rules! reductions {
    ($($name:ident = $ty:expr, $kind:literal;)*) => {
        impl KernelBuilder {$(
            #[doc = concat!("Begins to add ", $kind, " in shared memory to those in global memory,")]
            /// each at once, in no order. `bytes` is a multiple of 16. It belongs to the thread's
            /// next [bulk group](Self::bulk_commit_group).
            #[track_caller]
            pub fn $name(
                &mut self,
                to: impl Into<GlobalAddress>,
                from: impl Into<SharedAddress>,
                bytes: impl Into<Source<B32>>,
                policy: Option<B64>,
            ) {
                let (to, from, bytes) = (to.into().0, from.into().0, bytes.into().operand);
                self.push(BulkReduce { ty: $ty, to, from, bytes, policy });
            }
        )*}
    };
}

reductions! {
    bulk_reduce_add_f32 = Type::F32, "floats";
    bulk_reduce_add_f16 = Type::F16, "f16";
    bulk_reduce_add_bf16 = Type::Bf16, "bf16";
}

/// # Copies of contiguous bytes
impl KernelBuilder {
    /// Begins to copy `bytes` bytes (a multiple of 16) to shared memory; the barrier counts them.
    /// `policy` is a policy of the second cache.
    #[track_caller]
    pub fn bulk_load(
        &mut self,
        to: impl Into<SharedAddress>,
        from: impl Into<GlobalAddress>,
        bytes: impl Into<Source<B32>>,
        barrier: impl Into<SharedAddress>,
        policy: Option<B64>,
    ) {
        let (to, from, bytes) = (to.into().0, from.into().0, bytes.into().operand);
        self.push(BulkLoad { to, from, bytes, barrier: barrier.into().0, policy });
    }

    /// Begins to copy `bytes` bytes (a multiple of 16) from shared memory. It belongs to the thread's
    /// next [bulk group](Self::bulk_commit_group).
    #[track_caller]
    pub fn bulk_store(
        &mut self,
        to: impl Into<GlobalAddress>,
        from: impl Into<SharedAddress>,
        bytes: impl Into<Source<B32>>,
        policy: Option<B64>,
    ) {
        let (to, from, bytes) = (to.into().0, from.into().0, bytes.into().operand);
        self.push(BulkStore { to, from, bytes, policy });
    }

    /// Makes a group of this thread's copies from shared memory: those begun since the last group.
    #[track_caller]
    pub fn bulk_commit_group(&mut self) {
        self.push(BulkCommit);
    }

    /// Waits until at most `pending` bulk groups of this thread are under way. What the others wrote
    /// is seen by this thread.
    #[track_caller]
    pub fn bulk_wait_group(&mut self, pending: u32) {
        self.push(BulkWait { pending, read_only: false });
    }

    /// Waits until all but `pending` bulk groups of this thread have read shared memory, which may
    /// then be written again. What they write may not be seen yet.
    #[track_caller]
    pub fn bulk_wait_group_read(&mut self, pending: u32) {
        self.push(BulkWait { pending, read_only: true });
    }
}
