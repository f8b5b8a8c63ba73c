//! Copies of plain pieces of memory by the copy engine, and the groups in which its writes to global
//! memory are waited for (PTX ISA, "cp.async.bulk", "cp.reduce.async.bulk").

use super::tma::hint;
use crate::KernelBuilder;
use crate::address::{Address, GlobalAddress, SharedAddress};
use crate::describe::{Describe, Reader};
use crate::register::{B32, B64, Operand, Register, Source};
use crate::target::{Since, Target, Version};

const HOPPER: &Since = &[(Target::Sm90a, Version::new(8, 0))];

fn check_piece(shared: Address, global: Address, bytes: Operand, to: &mut impl Reader) {
    let aligned = shared.may_hold(16) && global.may_hold(16);
    to.rule(aligned, "a bulk copy is aligned to 16 bytes on both sides");
    let whole = !matches!(bytes, Operand::Constant(_, bytes) if bytes % 16 != 0);
    to.rule(whole, "a bulk copy moves a multiple of 16 bytes");
}

fn describe_policy(policy: Option<Register>, to: &mut impl Reader) {
    if let Some(policy) = policy {
        to.input(Operand::Register(policy));
    }
}

/// Begins to copy to shared memory; `barrier` gets the bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BulkLoad {
    pub(crate) to: Address,
    pub(crate) from: Address,
    pub(crate) bytes: Operand,
    pub(crate) barrier: Address,
    pub(crate) policy: Option<Register>,
}

impl Describe for BulkLoad {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        check_piece(self.to, self.from, self.bytes, to);
        to.rule(self.barrier.may_hold(8), "an mbarrier is aligned to 8 bytes");
        to.name(&["cp.async.bulk.shared::cluster.global", ".mbarrier::complete_tx::bytes"]);
        to.name(&[hint(self.policy)]);
        to.memory(self.to);
        to.memory(self.from);
        to.input(self.bytes);
        to.memory(self.barrier);
        describe_policy(self.policy, to);
    }
}

/// Begins to copy to global memory, or to add floats to what is there; part of a bulk group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BulkStore {
    pub(crate) to: Address,
    pub(crate) from: Address,
    pub(crate) bytes: Operand,
    pub(crate) add_f32: bool,
    pub(crate) policy: Option<Register>,
}

impl Describe for BulkStore {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        check_piece(self.from, self.to, self.bytes, to);
        let (name, add) =
            if self.add_f32 { ("cp.reduce.async.bulk", ".add.f32") } else { ("cp.async.bulk", "") };
        to.name(&[name, ".global.shared::cta.bulk_group", hint(self.policy), add]);
        to.memory(self.to);
        to.memory(self.from);
        to.input(self.bytes);
        describe_policy(self.policy, to);
    }
}

/// Ends a bulk group: this thread's writes to global memory since the last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BulkCommit;

impl Describe for BulkCommit {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        to.name(&["cp.async.bulk.commit_group"]);
    }
}

/// Waits until at most `pending` bulk groups of this thread are under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BulkWait {
    pub(crate) pending: u32,
    /// Only until they have read their source.
    pub(crate) read: bool,
}

impl Describe for BulkWait {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        to.name(&["cp.async.bulk.wait_group", if self.read { ".read" } else { "" }]);
        to.number(self.pending);
    }
}

impl KernelBuilder {
    /// Begins to copy `bytes` bytes to shared memory: a multiple of 16, aligned to 16 on both sides.
    /// The barrier's phase gets the bytes, which it must expect.
    #[track_caller]
    pub fn bulk_load(
        &mut self,
        to: impl Into<SharedAddress>,
        from: impl Into<GlobalAddress>,
        bytes: impl Into<Source<B32>>,
        barrier: impl Into<SharedAddress>,
        policy: Option<B64>,
    ) {
        self.push(BulkLoad {
            to: to.into().0,
            from: from.into().0,
            bytes: bytes.into().operand,
            barrier: barrier.into().0,
            policy: policy.map(Into::into),
        });
    }

    /// Begins to copy `bytes` bytes to global memory: a multiple of 16, aligned to 16 on both sides.
    #[track_caller]
    pub fn bulk_store(
        &mut self,
        to: impl Into<GlobalAddress>,
        from: impl Into<SharedAddress>,
        bytes: impl Into<Source<B32>>,
        policy: Option<B64>,
    ) {
        self.bulk_write(to.into(), from.into(), bytes.into(), policy, false);
    }

    /// Begins to add floats in shared memory to those in global memory; otherwise as
    /// [`bulk_store`](Self::bulk_store).
    #[track_caller]
    pub fn bulk_reduce_add_f32(
        &mut self,
        to: impl Into<GlobalAddress>,
        from: impl Into<SharedAddress>,
        bytes: impl Into<Source<B32>>,
        policy: Option<B64>,
    ) {
        self.bulk_write(to.into(), from.into(), bytes.into(), policy, true);
    }

    #[track_caller]
    fn bulk_write(
        &mut self,
        to: GlobalAddress,
        from: SharedAddress,
        bytes: Source<B32>,
        policy: Option<B64>,
        add_f32: bool,
    ) {
        let (bytes, policy) = (bytes.operand, policy.map(Into::into));
        self.push(BulkStore { to: to.0, from: from.0, bytes, add_f32, policy });
    }

    /// Makes a bulk group of this thread's writes to global memory since the last.
    #[track_caller]
    pub fn bulk_commit_group(&mut self) {
        self.push(BulkCommit);
    }

    /// Waits until at most `pending` bulk groups of this thread are under way.
    #[track_caller]
    pub fn bulk_wait_group(&mut self, pending: u32) {
        self.push(BulkWait { pending, read: false });
    }

    /// Waits until at most `pending` bulk groups of this thread still have to read their source,
    /// which may then be written again. They may not have written yet.
    #[track_caller]
    pub fn bulk_wait_group_read(&mut self, pending: u32) {
        self.push(BulkWait { pending, read: true });
    }
}
