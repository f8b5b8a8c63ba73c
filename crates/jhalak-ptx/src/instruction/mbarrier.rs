//! Barriers in shared memory, which threads and asynchronous copies arrive at (PTX ISA,
//! "mbarrier").
//!
//! A barrier goes through phases. A phase ends when all expected arrivals have come and all expected
//! bytes have been written; the next begins at once. Who waits names the parity of the phase: 0 for
//! the first, 1 for the second, 0 again. The phase before the first counts as complete, with
//! parity 1.

use crate::KernelBuilder;
use crate::address::{Address, SharedAddress};
use crate::describe::{Describe, Reader};
use crate::register::{B32, Operand, Pred, Register, Source};
use crate::target::{Since, Target, Version};

const SINCE: &Since = &[(Target::Sm80, Version::new(7, 0))];
/// `_` in place of a state, and waiting by parity.
const PARITY: &Since = &[(Target::Sm80, Version::new(7, 1))];
const HOPPER: &Since = &[(Target::Sm90a, Version::new(8, 0))];

/// A barrier that an instruction names.
pub(super) fn check_barrier(barrier: &Address, to: &mut impl Reader) {
    to.rule(barrier.may_hold(8), "an mbarrier is 8 bytes, aligned to 8");
}

/// Bytes that one phase can expect, at most (PTX ISA, "Tracking asynchronous operations").
const MAX_BYTES: u64 = (1 << 20) - 1;

fn check_bytes(bytes: Operand, to: &mut impl Reader) {
    let fits = !matches!(bytes, Operand::Constant(_, bytes) if bytes > MAX_BYTES);
    to.rule(fits, "a phase expects fewer than 2^20 bytes");
}

/// Makes a barrier of 8 bytes of memory: each phase expects `arrivals` arrivals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MbarrierInit {
    pub(crate) barrier: Address,
    pub(crate) arrivals: Operand,
}

impl Describe for MbarrierInit {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(SINCE);
        check_barrier(&self.barrier, to);
        let countable = match self.arrivals {
            Operand::Constant(_, arrivals) => (1..1 << 20).contains(&arrivals),
            Operand::Register(_) => true,
        };
        to.rule(countable, "an mbarrier expects 1 to 2^20 - 1 arrivals");
        to.name(&["mbarrier.init.shared.b64"]);
        to.memory(self.barrier);
        to.input(self.arrivals);
    }
}

/// Makes a barrier plain memory again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MbarrierInvalidate {
    pub(crate) barrier: Address,
}

impl Describe for MbarrierInvalidate {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(SINCE);
        check_barrier(&self.barrier, to);
        to.name(&["mbarrier.inval.shared.b64"]);
        to.memory(self.barrier);
    }
}

/// Arrives once, with the order of a release. With `expects` the phase waits for so many bytes more;
/// they count before the arrival does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MbarrierArrive {
    pub(crate) barrier: Address,
    pub(crate) expects: Option<Operand>,
}

impl Describe for MbarrierArrive {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(if self.expects.is_some() { HOPPER } else { PARITY });
        check_barrier(&self.barrier, to);
        let expects = if self.expects.is_some() { ".expect_tx" } else { "" };
        to.name(&["mbarrier.arrive", expects, ".shared.b64"]);
        to.word("_");
        to.memory(self.barrier);
        if let Some(bytes) = self.expects {
            check_bytes(bytes, to);
            to.input(bytes);
        }
    }
}

/// The phase waits for so many bytes more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MbarrierExpect {
    pub(crate) barrier: Address,
    pub(crate) bytes: Operand,
}

impl Describe for MbarrierExpect {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        check_barrier(&self.barrier, to);
        check_bytes(self.bytes, to);
        to.name(&["mbarrier.expect_tx.relaxed.cta.shared::cta.b64"]);
        to.memory(self.barrier);
        to.input(self.bytes);
    }
}

/// `d` = whether the phase of this parity is complete, with the order of an acquire. With `waits`
/// the hardware may let the thread sleep a while before it says no.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MbarrierTest {
    pub(crate) waits: bool,
    pub(crate) d: Register,
    pub(crate) barrier: Address,
    pub(crate) parity: Operand,
}

impl Describe for MbarrierTest {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(if self.waits { HOPPER } else { PARITY });
        check_barrier(&self.barrier, to);
        let known = !matches!(self.parity, Operand::Constant(_, parity) if parity > 1);
        to.rule(known, "a phase has parity 0 or 1");
        let verb = if self.waits { "try_wait" } else { "test_wait" };
        to.name(&["mbarrier.", verb, ".parity.shared.b64"]);
        to.output(self.d);
        to.memory(self.barrier);
        to.input(self.parity);
    }
}

/// Arrives when all of this thread's earlier `cp.async` copies are complete. The arrival is one of
/// those that the barrier was made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpAsyncArrive {
    pub(crate) barrier: Address,
}

impl Describe for CpAsyncArrive {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(SINCE);
        check_barrier(&self.barrier, to);
        to.name(&["cp.async.mbarrier.arrive.noinc.shared.b64"]);
        to.memory(self.barrier);
    }
}

/// # Barriers that count copies
impl KernelBuilder {
    /// Makes a barrier of 8 bytes of memory: each phase expects `arrivals` arrivals. Others may use
    /// it after a [`fence_mbarrier_init`](Self::fence_mbarrier_init) and a barrier of the block.
    #[track_caller]
    pub fn mbarrier_init(
        &mut self,
        barrier: impl Into<SharedAddress>,
        arrivals: impl Into<Source<B32>>,
    ) {
        let (barrier, arrivals) = (barrier.into().0, arrivals.into().operand);
        self.push(MbarrierInit { barrier, arrivals });
    }

    /// Makes a barrier plain memory again.
    #[track_caller]
    pub fn mbarrier_inval(&mut self, barrier: impl Into<SharedAddress>) {
        self.push(MbarrierInvalidate { barrier: barrier.into().0 });
    }

    /// Arrives once.
    #[track_caller]
    pub fn mbarrier_arrive(&mut self, barrier: impl Into<SharedAddress>) {
        self.push(MbarrierArrive { barrier: barrier.into().0, expects: None });
    }

    /// Arrives once, and makes the phase wait for `bytes` bytes of asynchronous copies.
    #[track_caller]
    pub fn mbarrier_arrive_expect_tx(
        &mut self,
        barrier: impl Into<SharedAddress>,
        bytes: impl Into<Source<B32>>,
    ) {
        let expects = Some(bytes.into().operand);
        self.push(MbarrierArrive { barrier: barrier.into().0, expects });
    }

    /// Makes the phase wait for `bytes` bytes of asynchronous copies, without arriving.
    #[track_caller]
    pub fn mbarrier_expect_tx(
        &mut self,
        barrier: impl Into<SharedAddress>,
        bytes: impl Into<Source<B32>>,
    ) {
        let (barrier, bytes) = (barrier.into().0, bytes.into().operand);
        self.push(MbarrierExpect { barrier, bytes });
    }

    /// Whether the phase of this parity is complete, asked once.
    #[track_caller]
    pub fn mbarrier_test_wait(
        &mut self,
        barrier: impl Into<SharedAddress>,
        parity: impl Into<Source<B32>>,
    ) -> Pred {
        self.test(false, barrier.into(), parity.into())
    }

    /// Whether the phase of this parity is complete; waits a while before it says no.
    #[track_caller]
    pub fn mbarrier_try_wait(
        &mut self,
        barrier: impl Into<SharedAddress>,
        parity: impl Into<Source<B32>>,
    ) -> Pred {
        self.test(true, barrier.into(), parity.into())
    }

    /// Waits until the phase of this parity is complete: a loop that asks again and again. What was
    /// written before the arrivals is seen afterwards.
    #[track_caller]
    pub fn mbarrier_wait(
        &mut self,
        barrier: impl Into<SharedAddress>,
        parity: impl Into<Source<B32>>,
    ) {
        let (head, done) = (self.new_label(), self.new_label());
        self.bind(head);
        let waits = self.target() >= Target::Sm90a;
        let complete = self.test(waits, barrier.into(), parity.into());
        self.branch(!complete, head, Some(done));
        self.bind(done);
    }

    /// Arrives when all of this thread's earlier `cp.async` copies are complete. Count it among the
    /// arrivals that the barrier is made for.
    #[track_caller]
    pub fn cp_async_mbarrier_arrive(&mut self, barrier: impl Into<SharedAddress>) {
        self.push(CpAsyncArrive { barrier: barrier.into().0 });
    }

    #[track_caller]
    fn test(&mut self, waits: bool, barrier: SharedAddress, parity: Source<B32>) -> Pred {
        let d: Pred = self.register();
        let (barrier, parity) = (barrier.0, parity.operand);
        self.push(MbarrierTest { waits, d: d.into(), barrier, parity });
        d
    }
}
