//! Barriers that live in shared memory and also count the bytes of copies under way (PTX ISA,
//! "mbarrier").
//!
//! A barrier goes through phases. One ends when as many threads have arrived as it was initialised
//! with, and all the bytes that were expected have come. Waiting names a phase by its parity: 0 for
//! the first, then 1, 0, … A wait for the phase before the first (parity 1) is over at once, which
//! is how a producer finds the stages of a ring empty.

use crate::KernelBuilder;
use crate::address::{Address, SharedAddress};
use crate::describe::{Describe, Reader};
use crate::register::{B32, Operand, Pred, Register, Source};
use crate::target::{Since, Target, Version};

/// `.shared::cta` is spelled out from here on.
const SINCE: &Since = &[(Target::Sm80, Version::new(7, 8))];
const HOPPER: &Since = &[(Target::Sm90a, Version::new(8, 0))];

/// The most threads that a barrier can wait for.
const MAX_COUNT: u64 = (1 << 20) - 1;
/// The most bytes that a phase can expect.
const MAX_BYTES: u64 = (1 << 20) - 1;

fn check_barrier(barrier: Address, to: &mut impl Reader) {
    to.rule(barrier.may_hold(8), "an mbarrier is aligned to 8 bytes");
}

/// Makes a barrier of 8 bytes, whose phases wait for `count` arrivals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MbarrierInit {
    pub(crate) barrier: Address,
    pub(crate) count: Operand,
}

impl Describe for MbarrierInit {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(SINCE);
        check_barrier(self.barrier, to);
        let possible = match self.count {
            Operand::Constant(_, count) => (1..=MAX_COUNT).contains(&count),
            Operand::Register(_) => true,
        };
        to.rule(possible, "an mbarrier waits for 1 to 2^20 - 1 arrivals");
        to.name(&["mbarrier.init.shared::cta.b64"]);
        to.memory(self.barrier);
        to.input(self.count);
    }
}

/// Gives a barrier's memory back to other uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MbarrierInvalidate {
    pub(crate) barrier: Address,
}

impl Describe for MbarrierInvalidate {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(SINCE);
        check_barrier(self.barrier, to);
        to.name(&["mbarrier.inval.shared::cta.b64"]);
        to.memory(self.barrier);
    }
}

/// This thread has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MbarrierArrive {
    pub(crate) barrier: Address,
}

impl Describe for MbarrierArrive {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(SINCE);
        check_barrier(self.barrier, to);
        to.name(&["mbarrier.arrive.shared::cta.b64"]);
        to.word("_");
        to.memory(self.barrier);
    }
}

/// The phase also waits for so many bytes of copies; the thread may arrive with that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MbarrierExpect {
    pub(crate) barrier: Address,
    pub(crate) bytes: Operand,
    pub(crate) arrive: bool,
}

impl Describe for MbarrierExpect {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        check_barrier(self.barrier, to);
        let possible = !matches!(self.bytes, Operand::Constant(_, bytes) if bytes > MAX_BYTES);
        to.rule(possible, "a phase expects at most 2^20 - 1 bytes");
        if self.arrive {
            to.name(&["mbarrier.arrive.expect_tx.shared::cta.b64"]);
            to.word("_");
        } else {
            to.name(&["mbarrier.expect_tx.relaxed.cta.shared::cta.b64"]);
        }
        to.memory(self.barrier);
        to.input(self.bytes);
    }
}

/// `d` = whether the phase of this parity is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MbarrierTest {
    pub(crate) d: Register,
    pub(crate) barrier: Address,
    pub(crate) parity: Operand,
    /// May wait for a while before it answers.
    pub(crate) suspend: bool,
}

impl Describe for MbarrierTest {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(if self.suspend { HOPPER } else { SINCE });
        check_barrier(self.barrier, to);
        let possible = !matches!(self.parity, Operand::Constant(_, parity) if parity > 1);
        to.rule(possible, "a phase's parity is 0 or 1");
        let name = if self.suspend { "mbarrier.try_wait" } else { "mbarrier.test_wait" };
        to.name(&[name, ".parity.shared::cta.b64"]);
        to.output(self.d);
        to.memory(self.barrier);
        to.input(self.parity);
    }
}

/// The barrier gets an arrival of this thread when its `cp.async` copies so far have come. The
/// arrival is one of those that the barrier was initialised for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpAsyncArrive {
    pub(crate) barrier: Address,
}

impl Describe for CpAsyncArrive {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(SINCE);
        check_barrier(self.barrier, to);
        to.name(&["cp.async.mbarrier.arrive.noinc.shared::cta.b64"]);
        to.memory(self.barrier);
    }
}

impl KernelBuilder {
    /// Makes a barrier of 8 bytes, whose phases wait for `count` arrivals. One thread does it; then
    /// [`fence_mbarrier_init`](Self::fence_mbarrier_init) and a block barrier, before others use it.
    #[track_caller]
    pub fn mbarrier_init(
        &mut self,
        barrier: impl Into<SharedAddress>,
        count: impl Into<Source<B32>>,
    ) {
        self.push(MbarrierInit { barrier: barrier.into().0, count: count.into().operand });
    }

    /// Gives a barrier's memory back to other uses.
    #[track_caller]
    pub fn mbarrier_inval(&mut self, barrier: impl Into<SharedAddress>) {
        self.push(MbarrierInvalidate { barrier: barrier.into().0 });
    }

    /// This thread has arrived: what it did before is seen by those who wait.
    #[track_caller]
    pub fn mbarrier_arrive(&mut self, barrier: impl Into<SharedAddress>) {
        self.push(MbarrierArrive { barrier: barrier.into().0 });
    }

    /// This thread has arrived, and the phase also waits for so many bytes of copies.
    #[track_caller]
    pub fn mbarrier_arrive_expect_tx(
        &mut self,
        barrier: impl Into<SharedAddress>,
        bytes: impl Into<Source<B32>>,
    ) {
        let (barrier, bytes) = (barrier.into().0, bytes.into().operand);
        self.push(MbarrierExpect { barrier, bytes, arrive: true });
    }

    /// The phase also waits for so many bytes of copies.
    #[track_caller]
    pub fn mbarrier_expect_tx(
        &mut self,
        barrier: impl Into<SharedAddress>,
        bytes: impl Into<Source<B32>>,
    ) {
        let (barrier, bytes) = (barrier.into().0, bytes.into().operand);
        self.push(MbarrierExpect { barrier, bytes, arrive: false });
    }

    /// Whether the phase of this parity is over; the hardware may wait for a while before it
    /// answers.
    #[track_caller]
    pub fn mbarrier_try_wait(
        &mut self,
        barrier: impl Into<SharedAddress>,
        parity: impl Into<Source<B32>>,
    ) -> Pred {
        self.mbarrier_test(barrier.into(), parity.into(), true)
    }

    /// Whether the phase of this parity is over.
    #[track_caller]
    pub fn mbarrier_test_wait(
        &mut self,
        barrier: impl Into<SharedAddress>,
        parity: impl Into<Source<B32>>,
    ) -> Pred {
        self.mbarrier_test(barrier.into(), parity.into(), false)
    }

    #[track_caller]
    fn mbarrier_test(
        &mut self,
        barrier: SharedAddress,
        parity: Source<B32>,
        suspend: bool,
    ) -> Pred {
        let d: Pred = self.register();
        let (barrier, parity) = (barrier.0, parity.operand);
        self.push(MbarrierTest { d: d.into(), barrier, parity, suspend });
        d
    }

    /// Waits until the phase of this parity is over. What was done before the arrivals, and the
    /// copies that the phase expected, are seen afterwards.
    #[track_caller]
    pub fn mbarrier_wait(
        &mut self,
        barrier: impl Into<SharedAddress>,
        parity: impl Into<Source<B32>>,
    ) {
        let (barrier, parity) = (barrier.into(), parity.into());
        self.do_while(|k| !k.mbarrier_test(barrier, parity, true));
    }

    /// The barrier gets an arrival of this thread when its `cp.async` copies so far have come. The
    /// arrival is one of those that the barrier was initialised for.
    #[track_caller]
    pub fn cp_async_mbarrier_arrive(&mut self, barrier: impl Into<SharedAddress>) {
        self.push(CpAsyncArrive { barrier: barrier.into().0 });
    }
}
