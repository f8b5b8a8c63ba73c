//! Barriers in shared memory: arrivals and bytes of a phase, and what those who came knew.

use super::clock::{Clock, Component};
use super::fault::Fault;

/// An mbarrier. Its phases are epochs of an agent: what copies wrote in a phase is known to those
/// who have waited for it.
pub(super) struct Mbarrier {
    pub(super) address: u64,
    pub(super) agent: u16,
    /// The warp that made it, and whether it told the async proxy.
    pub(super) maker: usize,
    pub(super) announced: bool,
    arrivals: u32,
    /// Arrivals that the current phase still expects.
    left: u32,
    /// Bytes that it expects, less those that have come.
    bytes: i64,
    /// Bytes of the copies that count on it and are under way.
    coming: i64,
    /// Phases that are complete.
    complete: u32,
    /// What those who arrived in this phase had done and seen.
    arriving: Clock,
    /// The same of all complete phases.
    arrived: Clock,
}

impl Mbarrier {
    pub(super) fn new(address: u64, agent: u16, maker: usize, arrivals: u32) -> Self {
        Mbarrier {
            address,
            agent,
            maker,
            announced: false,
            arrivals,
            left: arrivals,
            bytes: 0,
            coming: 0,
            complete: 0,
            arriving: Clock::default(),
            arrived: Clock::default(),
        }
    }

    /// The epoch of what copies write from now on.
    pub(super) fn epoch(&self) -> u32 {
        self.complete + 1
    }

    /// What is known after the phase of this parity, if it is complete.
    pub(super) fn test(&self, parity: u32) -> Option<&Clock> {
        (self.complete & 1 != parity).then_some(&self.arrived)
    }

    pub(super) fn expect(&mut self, bytes: u32) {
        self.bytes += i64::from(bytes);
    }

    /// So many threads arrive.
    pub(super) fn arrive(&mut self, arriving: u32, clock: &Clock) -> Result<(), Fault> {
        let (address, left) = (self.address, self.left);
        if arriving > left {
            return Err(Fault::MbarrierArrivals { address, arriving, left });
        }
        self.left -= arriving;
        self.arriving.join(clock);
        self.settle()
    }

    /// A copy of so many bytes begins.
    pub(super) fn begin(&mut self, bytes: usize) -> Result<(), Fault> {
        self.coming += bytes as i64;
        self.settle()
    }

    /// A copy of so many bytes has ended.
    pub(super) fn end(&mut self, bytes: usize) -> Result<(), Fault> {
        self.coming -= bytes as i64;
        self.bytes -= bytes as i64;
        self.settle()
    }

    /// Ends the phase if all that it expects has come.
    fn settle(&mut self) -> Result<(), Fault> {
        if self.left > 0 {
            return Ok(());
        }
        if self.bytes < self.coming {
            let (address, expected, coming) = (self.address, self.bytes, self.coming);
            return Err(Fault::MbarrierBytes { address, expected, coming });
        }
        if self.bytes == 0 {
            self.complete += 1;
            self.left = self.arrivals;
            let clock = std::mem::take(&mut self.arriving);
            self.arrived.join(&clock);
            self.arrived.learn(self.agent, Component::known(1, 1, self.complete));
        }
        Ok(())
    }

    /// What the current phase waits for.
    pub(super) fn missing(&self) -> String {
        let Mbarrier { address, complete, left, bytes, .. } = self;
        format!(
            "mbarrier {address:#x} in phase {complete} (parity {}) lacks {left} arrivals and {bytes} bytes",
            complete & 1
        )
    }
}
