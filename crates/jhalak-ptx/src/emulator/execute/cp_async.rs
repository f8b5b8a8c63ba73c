//! Copies that run on while their thread does something else.
//!
//! The destination holds nothing from the moment a copy begins until it ends, and a copy ends as
//! late as its wait allows, or at an earlier moment that the seed picks.

use super::Context;
use crate::address::Space;
use crate::emulator::arena::Arena;
use crate::emulator::fault::{Fault, Outcome, Trouble};
use crate::emulator::random::Random;
use crate::emulator::registers::lanes_of;
use crate::instruction::cp_async::{CpAsync, CpAsyncWait};

/// A copy that has begun and not ended.
struct Copy {
    lane: u32,
    group: u32,
    to: u64,
    from: u64,
    bytes: usize,
    /// Of these, how many are read; the others become 0.
    read: usize,
}

/// An arrival at an mbarrier that waits for copies.
pub(in crate::emulator) struct Arrival {
    pub(in crate::emulator) lane: u32,
    pub(in crate::emulator) group: u32,
    pub(in crate::emulator) barrier: u64,
    /// The instruction.
    pub(in crate::emulator) at: usize,
}

/// The copies of a warp.
#[derive(Default)]
pub(in crate::emulator) struct Copies {
    under_way: Vec<Copy>,
    /// Arrivals that come when a lane's copies up to a group have ended.
    arrivals: Vec<Arrival>,
    /// How many groups each lane has made.
    committed: [u32; 32],
    /// Up to which group each lane has waited.
    pub(in crate::emulator) done: [u32; 32],
}

impl Copies {
    /// The group that a lane's next copy will belong to, from 1.
    pub(in crate::emulator) fn group(&self, lane: u32) -> u32 {
        self.committed[lane as usize] + 1
    }

    /// These lanes arrive at an mbarrier when their copies until now have ended, which so become a
    /// group.
    pub(super) fn arrive_later(&mut self, lanes: u32, barrier: u64, at: usize) {
        for lane in lanes_of(lanes) {
            let group = self.group(lane);
            self.committed[lane as usize] = group;
            self.arrivals.push(Arrival { lane, group, barrier, at });
        }
    }

    /// Those arrivals whose copies have ended.
    pub(in crate::emulator) fn due(&mut self) -> Vec<Arrival> {
        let Copies { under_way, arrivals, .. } = self;
        let is_due = |arrival: &mut Arrival| {
            let waits_for = |copy: &Copy| copy.lane == arrival.lane && copy.group <= arrival.group;
            !under_way.iter().any(waits_for)
        };
        arrivals.extract_if(.., is_due).collect()
    }

    /// Lets all copies end that an arrival waits for. Returns whether there were any.
    pub(in crate::emulator) fn finish_awaited(
        &mut self,
        memory: &Arena,
        shared: &mut Arena,
    ) -> Result<bool, Fault> {
        if self.arrivals.is_empty() {
            return Ok(false);
        }
        self.finish(memory, shared, |_| true)?;
        Ok(true)
    }

    fn finish(
        &mut self,
        memory: &Arena,
        shared: &mut Arena,
        which: impl Fn(&Copy) -> bool,
    ) -> Result<(), Fault> {
        for copy in self.under_way.extract_if(.., |copy| which(copy)) {
            let mut value = [0; 16];
            if copy.read > 0 {
                value[..copy.read].copy_from_slice(memory.bytes(copy.from, copy.read)?);
            }
            shared.finish_write(copy.to, &value[..copy.bytes])?;
        }
        Ok(())
    }

    /// Lets some copies end that nobody waits for yet.
    pub(in crate::emulator) fn finish_some(
        &mut self,
        memory: &Arena,
        shared: &mut Arena,
        random: &mut Random,
    ) -> Result<(), Fault> {
        if self.under_way.is_empty() {
            return Ok(());
        }
        let lanes = random.next() as u32 & random.next() as u32;
        self.finish(memory, shared, |copy| lanes >> copy.lane & 1 == 1)
    }
}

pub(super) fn begin(context: &mut Context<'_>, form: &CpAsync) -> Outcome<()> {
    let (to, from) = (context.addresses(form.to)?, context.addresses(form.from)?);
    let bytes = form.bytes as usize;
    let read = match form.source_bytes {
        None => [form.bytes; 32],
        Some(count) => context.warp.registers.words(count, context.lanes)?,
    };
    for lane in lanes_of(context.lanes) {
        let index = lane as usize;
        let (to, from, read) = (to[index], from[index], read[index] as usize);
        if read > bytes {
            let rule = "cp.async reads no more bytes than it writes";
            let fault =
                Fault::BadOperand { operand: "the source's size", value: read as u64, rule };
            return Err(Trouble::from(fault).at_lane(lane));
        }
        if !from.is_multiple_of(bytes as u64) {
            let fault =
                Fault::Misaligned { space: Space::Global, address: from, align: form.bytes };
            return Err(Trouble::from(fault).at_lane(lane));
        }
        let access = context.warp.copy_access(lane, context.at as u32);
        if read > 0 {
            let (memory, request) = context.request_as(Space::Global, lane, from, access);
            memory.begin_read(&request, read)?;
        }
        let (shared, request) = context.request_as(Space::Shared, lane, to, access);
        shared.aligned(to, bytes).map_err(|fault| Trouble::from(fault).at_lane(lane))?;
        shared.begin_write(&request, bytes)?;
        let group = context.warp.copies.group(lane);
        context.warp.copies.under_way.push(Copy { lane, group, to, from, bytes, read });
    }
    Ok(())
}

pub(super) fn commit(context: &mut Context<'_>) {
    for lane in lanes_of(context.lanes) {
        context.warp.copies.committed[lane as usize] += 1;
    }
}

pub(super) fn wait(context: &mut Context<'_>, form: &CpAsyncWait) -> Outcome<()> {
    let copies = &mut context.warp.copies;
    for lane in lanes_of(context.lanes) {
        let done = copies.committed[lane as usize].saturating_sub(form.pending);
        copies.done[lane as usize] = copies.done[lane as usize].max(done);
    }
    let done = copies.done;
    copies.finish(context.memory, &mut context.shared.memory, |copy| {
        copy.group <= done[copy.lane as usize]
    })?;
    Ok(())
}
