//! Bytes that instructions address: which exist, which were written, and who accessed them.

use std::collections::HashMap;

use super::clock::Clock;
use super::fault::{Action, Cause, Fault, Outcome, Trouble};
use super::shadow::{Access, Observer, Shadow};
use crate::address::Space;

/// The largest access of one lane, in bytes.
pub(super) const WIDEST: usize = 16;

/// One piece of memory.
pub(super) struct Allocation {
    pub(super) base: u64,
    pub(super) bytes: Vec<u8>,
    /// Of each byte, whether somebody wrote it.
    pub(super) written: Vec<bool>,
    shadow: Shadow,
}

impl Allocation {
    /// Bytes that nobody has written. They hold a pattern that is NaN in every float type.
    pub(super) fn new(base: u64, bytes: usize) -> Self {
        Allocation {
            base,
            bytes: vec![0xff; bytes],
            written: vec![false; bytes],
            shadow: Shadow::default(),
        }
    }
}

/// What was released at an address, for those who acquire it.
pub(super) struct Release {
    pub(super) block: u32,
    /// Only the own block may acquire it.
    pub(super) within_block: bool,
    pub(super) clock: Clock,
}

/// All memory of one space: the device's, or one block's shared memory.
pub(super) struct Arena {
    pub(super) space: Space,
    /// In the order of their addresses.
    pub(super) allocations: Vec<Allocation>,
    pub(super) releases: HashMap<u64, Release>,
}

/// How an access is checked and remembered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Watch {
    Read,
    Write,
    /// A read that nobody needs to remember.
    Peek,
}

/// An access of one lane: where, by whom, and how it is remembered.
pub(super) struct Request<'a> {
    pub(super) address: u64,
    pub(super) access: Access,
    pub(super) observer: Observer<'a>,
}

impl Arena {
    pub(super) fn new(space: Space) -> Self {
        Arena { space, allocations: Vec::new(), releases: HashMap::new() }
    }

    /// Forgets who accessed what: a new launch comes after all that was before.
    pub(super) fn forget_accesses(&mut self) {
        self.allocations.iter_mut().for_each(|a| a.shadow = Shadow::default());
        self.releases.clear();
    }

    /// The allocation that holds these bytes, and where in it they are.
    pub(super) fn find(&self, address: u64, bytes: usize) -> Result<(usize, usize), Fault> {
        let after = self.allocations.partition_point(|a| a.base <= address);
        let outside = Fault::OutOfBounds { space: self.space, address, bytes: bytes as u32 };
        let index = after.checked_sub(1).ok_or_else(|| outside.clone())?;
        let allocation = &self.allocations[index];
        let start = (address - allocation.base) as usize;
        if start.saturating_add(bytes) > allocation.bytes.len() {
            return Err(outside);
        }
        Ok((index, start))
    }

    /// Fails unless an address is a multiple of `align`.
    pub(super) fn aligned(&self, address: u64, align: usize) -> Result<(), Fault> {
        if address.is_multiple_of(align as u64) {
            return Ok(());
        }
        Err(Fault::Misaligned { space: self.space, address, align: align as u32 })
    }

    fn judge(
        &mut self,
        request: &Request<'_>,
        bytes: usize,
        watch: Watch,
    ) -> Outcome<(usize, usize)> {
        let Request { address, access, observer } = request;
        let lane = observer.lane;
        let (index, start) =
            self.find(*address, bytes).map_err(|fault| Trouble::from(fault).at_lane(lane))?;
        let shadow = &mut self.allocations[index].shadow;
        let verdict = match watch {
            Watch::Read => shadow.read(start, bytes, *access, observer),
            Watch::Write => shadow.write(start, bytes, *access, observer),
            Watch::Peek => shadow.peek(start, bytes, *access, observer),
        };
        let action = if watch == Watch::Write { Action::Write } else { Action::Read };
        let (space, address) = (self.space, *address);
        verdict.map_err(|conflict| Trouble {
            lane,
            cause: Cause::Conflict { space, address, action, conflict },
        })?;
        Ok((index, start))
    }

    /// Fails unless all bytes were written.
    fn check_written(&self, index: usize, start: usize, bytes: usize) -> Result<(), Fault> {
        let allocation = &self.allocations[index];
        let written = &allocation.written[start..start + bytes];
        written.iter().position(|written| !written).map_or(Ok(()), |first| {
            let address = allocation.base + (start + first) as u64;
            Err(Fault::Uninitialised { space: self.space, address })
        })
    }

    /// Up to 16 bytes, aligned to as many.
    pub(super) fn load(&mut self, request: &Request<'_>, bytes: usize) -> Outcome<[u8; WIDEST]> {
        let lane = request.observer.lane;
        let at_lane = |fault: Fault| Trouble::from(fault).at_lane(lane);
        self.aligned(request.address, bytes).map_err(at_lane)?;
        let (index, start) = self.judge(request, bytes, Watch::Read)?;
        self.check_written(index, start, bytes).map_err(at_lane)?;
        let mut value = [0; WIDEST];
        value[..bytes].copy_from_slice(&self.allocations[index].bytes[start..start + bytes]);
        Ok(value)
    }

    /// Writes up to 16 bytes, aligned to as many.
    pub(super) fn store(&mut self, request: &Request<'_>, value: &[u8]) -> Outcome<()> {
        let lane = request.observer.lane;
        self.aligned(request.address, value.len())
            .map_err(|fault| Trouble::from(fault).at_lane(lane))?;
        let (index, start) = self.judge(request, value.len(), Watch::Write)?;
        self.put(index, start, value);
        Ok(())
    }

    /// Reads and writes at once what 4 or 8 bytes hold.
    pub(super) fn update(
        &mut self,
        request: &Request<'_>,
        bytes: usize,
        change: impl FnOnce(u64) -> u64,
    ) -> Outcome<u64> {
        let lane = request.observer.lane;
        let at_lane = |fault: Fault| Trouble::from(fault).at_lane(lane);
        self.aligned(request.address, bytes).map_err(at_lane)?;
        let (index, start) = self.judge(request, bytes, Watch::Write)?;
        self.check_written(index, start, bytes).map_err(at_lane)?;
        let mut before = [0; 8];
        before[..bytes].copy_from_slice(&self.allocations[index].bytes[start..start + bytes]);
        let before = u64::from_le_bytes(before);
        self.put(index, start, &change(before).to_le_bytes()[..bytes]);
        Ok(before)
    }

    /// Begins an asynchronous write: from now on the bytes hold nothing that could be used.
    pub(super) fn begin_write(&mut self, request: &Request<'_>, bytes: usize) -> Outcome<()> {
        let (index, start) = self.judge(request, bytes, Watch::Write)?;
        let allocation = &mut self.allocations[index];
        allocation.bytes[start..start + bytes].fill(0xff);
        allocation.written[start..start + bytes].fill(false);
        Ok(())
    }

    /// Begins an asynchronous read, for which the bytes must stay as they are.
    pub(super) fn begin_read(&mut self, request: &Request<'_>, bytes: usize) -> Outcome<()> {
        self.begin_checked(request, bytes, Watch::Read)
    }

    /// Begins to add to what is there.
    pub(super) fn begin_update(&mut self, request: &Request<'_>, bytes: usize) -> Outcome<()> {
        self.begin_checked(request, bytes, Watch::Write)
    }

    /// A read that nobody needs to remember.
    pub(super) fn peek(&mut self, request: &Request<'_>, bytes: usize) -> Outcome<()> {
        self.begin_checked(request, bytes, Watch::Peek)
    }

    fn begin_checked(&mut self, request: &Request<'_>, bytes: usize, watch: Watch) -> Outcome<()> {
        let (index, start) = self.judge(request, bytes, watch)?;
        let lane = request.observer.lane;
        self.check_written(index, start, bytes).map_err(|fault| Trouble::from(fault).at_lane(lane))
    }

    /// Bytes that were checked before.
    pub(super) fn bytes(&self, address: u64, bytes: usize) -> Result<&[u8], Fault> {
        let (index, start) = self.find(address, bytes)?;
        Ok(&self.allocations[index].bytes[start..start + bytes])
    }

    /// Ends an asynchronous write.
    pub(super) fn finish_write(&mut self, address: u64, value: &[u8]) -> Result<(), Fault> {
        let (index, start) = self.find(address, value.len())?;
        self.put(index, start, value);
        Ok(())
    }

    fn put(&mut self, index: usize, start: usize, value: &[u8]) {
        let allocation = &mut self.allocations[index];
        allocation.bytes[start..start + value.len()].copy_from_slice(value);
        allocation.written[start..start + value.len()].fill(true);
    }
}
