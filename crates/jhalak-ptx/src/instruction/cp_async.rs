//! Copies from global to shared memory that run on while the thread does something else (PTX ISA,
//! "cp.async").

use crate::KernelBuilder;
use crate::address::{Address, GlobalAddress, SharedAddress};
use crate::describe::{Describe, Reader};
use crate::register::{B32, Operand, Source};
use crate::target::{Since, Target, Version};

const SINCE: &Since = &[(Target::Sm80, Version::new(7, 0))];

/// Begins to copy `bytes` bytes. With `source_bytes` only so many are read; the rest becomes 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpAsync {
    pub(crate) to: Address,
    pub(crate) from: Address,
    pub(crate) bytes: u32,
    pub(crate) source_bytes: Option<Operand>,
}

impl Describe for CpAsync {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(SINCE);
        let known = matches!(self.bytes, 4 | 8 | 16);
        to.rule(known, "cp.async copies 4, 8 or 16 bytes");
        let fits = match self.source_bytes {
            Some(Operand::Constant(_, read)) => read <= self.bytes.into(),
            _ => true,
        };
        to.rule(fits, "cp.async reads no more bytes than it writes");
        to.rule(!known || self.to.may_hold(self.bytes), "an access is aligned to its own size");
        // Copies of 16 bytes can bypass the first cache; smaller ones cannot.
        let cache = if self.bytes == 16 { ".cg" } else { ".ca" };
        to.name(&["cp.async", cache, ".shared.global"]);
        to.memory(self.to);
        to.memory(self.from);
        to.number(self.bytes);
        if let Some(source_bytes) = self.source_bytes {
            to.input(source_bytes);
        }
    }
}

/// Ends a group of copies: those begun since the last group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpAsyncCommit;

impl Describe for CpAsyncCommit {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(SINCE);
        to.name(&["cp.async.commit_group"]);
    }
}

/// Waits until at most `pending` groups of this thread are under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpAsyncWait {
    pub(crate) pending: u32,
}

impl Describe for CpAsyncWait {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(SINCE);
        to.name(&["cp.async.wait_group"]);
        to.number(self.pending);
    }
}

/// # Asynchronous copies by threads
impl KernelBuilder {
    /// Begins to copy 4, 8 or 16 bytes, aligned to as many.
    #[track_caller]
    pub fn cp_async(
        &mut self,
        to: impl Into<SharedAddress>,
        from: impl Into<GlobalAddress>,
        bytes: u32,
    ) {
        let (to, from) = (to.into().0, from.into().0);
        self.push(CpAsync { to, from, bytes, source_bytes: None });
    }

    /// Begins to write `bytes` bytes: `source_bytes` of them from global memory, the others 0.
    /// With 0 source bytes nothing is read.
    #[track_caller]
    pub fn cp_async_zero_fill(
        &mut self,
        to: impl Into<SharedAddress>,
        from: impl Into<GlobalAddress>,
        bytes: u32,
        source_bytes: impl Into<Source<B32>>,
    ) {
        let (to, from) = (to.into().0, from.into().0);
        let source_bytes = Some(source_bytes.into().operand);
        self.push(CpAsync { to, from, bytes, source_bytes });
    }

    /// Makes a group of the copies begun since the last group.
    #[track_caller]
    pub fn cp_async_commit_group(&mut self) {
        self.push(CpAsyncCommit);
    }

    /// Waits until at most `pending` groups of this thread are under way. Other threads see the
    /// data after a barrier.
    #[track_caller]
    pub fn cp_async_wait_group(&mut self, pending: u32) {
        self.push(CpAsyncWait { pending });
    }
}
