//! Arrivals at mbarriers, and waits for their phases.

use super::Context;
use crate::address::{Address, Space};
use crate::emulator::fault::{Fault, Outcome, Trouble};
use crate::emulator::machine::Flow;
use crate::emulator::registers::lanes_of;
use crate::emulator::shadow::STRONG;
use crate::instruction::mbarrier::{
    CpAsyncArrive, MbarrierArrive, MbarrierExpect, MbarrierInit, MbarrierInvalidate, MbarrierTest,
};
use crate::register::Operand;

/// Bytes of an mbarrier.
const SIZE: usize = 8;

impl Context<'_> {
    /// The lanes that name the same mbarrier and the same number, together.
    fn groups(&self, barrier: Address, number: Option<Operand>) -> Outcome<Vec<(u32, u64, u32)>> {
        let addresses = self.addresses(barrier)?;
        let registers = &self.warp.registers;
        let numbers = number.map_or(Ok([0; 32]), |number| registers.words(number, self.lanes))?;
        let mut groups: Vec<(u32, u64, u32)> = Vec::new();
        for lane in lanes_of(self.lanes) {
            let key = (addresses[lane as usize], numbers[lane as usize]);
            match groups.iter_mut().find(|group| (group.1, group.2) == key) {
                Some(group) => group.0 |= 1 << lane,
                None => groups.push((1 << lane, key.0, key.1)),
            }
        }
        Ok(groups)
    }

    /// Fails unless an mbarrier is there whose making these lanes know of.
    fn check_mbarrier(&mut self, lanes: u32, address: u64) -> Outcome<()> {
        self.shared.mbarrier(address)?;
        for lane in lanes_of(lanes) {
            let (shared, request) = self.request(Space::Shared, lane, address, STRONG);
            shared.peek(&request, SIZE)?;
        }
        Ok(())
    }

    /// The mbarrier that copies of one lane count on: where it is, its agent and its epoch.
    pub(super) fn copy_barrier(&mut self, lane: u32, address: u64) -> Outcome<(u16, u32)> {
        self.check_mbarrier(1 << lane, address)?;
        let mbarrier = self.shared.mbarrier(address)?;
        if !mbarrier.announced {
            return Err(Trouble::from(Fault::MbarrierUnfenced { address }).at_lane(lane));
        }
        Ok((mbarrier.agent, mbarrier.epoch()))
    }
}

pub(super) fn init(context: &mut Context<'_>, form: &MbarrierInit) -> Outcome<()> {
    for (lanes, address, arrivals) in context.groups(form.barrier, Some(form.arrivals))? {
        for lane in lanes_of(lanes) {
            let (shared, request) = context.request(Space::Shared, lane, address, 0);
            shared.store(&request, &[0xff; SIZE])?;
        }
        if !(1..1 << 20).contains(&arrivals) {
            let (operand, value) = ("the number of arrivals", arrivals.into());
            let rule = "an mbarrier expects 1 to 2^20 - 1 arrivals";
            return Err(Fault::BadOperand { operand, value, rule }.into());
        }
        context.shared.make_mbarrier(address, context.warp.number, arrivals);
    }
    Ok(())
}

pub(super) fn invalidate(context: &mut Context<'_>, form: &MbarrierInvalidate) -> Outcome<()> {
    for (lanes, address, _) in context.groups(form.barrier, None)? {
        context.shared.mbarrier(address)?;
        for lane in lanes_of(lanes) {
            let (shared, request) = context.request(Space::Shared, lane, address, 0);
            shared.begin_write(&request, SIZE)?;
        }
        context.shared.mbarriers.retain(|mbarrier| mbarrier.address != address);
    }
    Ok(())
}

/// Fresh mbarriers of this warp are seen by copies.
pub(super) fn announce(context: &mut Context<'_>) {
    let maker = context.warp.number;
    let own = context.shared.mbarriers.iter_mut().filter(|mbarrier| mbarrier.maker == maker);
    own.for_each(|mbarrier| mbarrier.announced = true);
}

pub(super) fn arrive(context: &mut Context<'_>, form: &MbarrierArrive) -> Outcome<()> {
    for (lanes, address, bytes) in context.groups(form.barrier, form.expects)? {
        context.check_mbarrier(lanes, address)?;
        let clock = context.warp.publish(lanes);
        let mbarrier = context.shared.mbarrier(address)?;
        mbarrier.expect(bytes * lanes.count_ones());
        mbarrier.arrive(lanes.count_ones(), &clock)?;
        *context.progress += 1;
    }
    Ok(())
}

pub(super) fn expect(context: &mut Context<'_>, form: &MbarrierExpect) -> Outcome<()> {
    for (lanes, address, bytes) in context.groups(form.barrier, Some(form.bytes))? {
        context.check_mbarrier(lanes, address)?;
        context.shared.mbarrier(address)?.expect(bytes * lanes.count_ones());
    }
    Ok(())
}

pub(super) fn test(context: &mut Context<'_>, form: &MbarrierTest) -> Outcome<Flow> {
    let mut complete = 0;
    for (lanes, address, parity) in context.groups(form.barrier, Some(form.parity))? {
        context.check_mbarrier(lanes, address)?;
        if parity > 1 {
            let (operand, value) = ("the parity", parity.into());
            let rule = "a phase has parity 0 or 1";
            return Err(Fault::BadOperand { operand, value, rule }.into());
        }
        match context.shared.mbarrier(address)?.test(parity) {
            Some(clock) => {
                context.warp.acquire(lanes, clock);
                complete |= lanes;
            }
            None => context.look(address),
        }
    }
    context.warp.registers.set_truth(form.d, context.lanes, complete);
    Ok(if complete == context.lanes { Flow::Next } else { Flow::Yield })
}

pub(super) fn copies_arrive(context: &mut Context<'_>, form: &CpAsyncArrive) -> Outcome<()> {
    for (lanes, address, _) in context.groups(form.barrier, None)? {
        context.check_mbarrier(lanes, address)?;
        context.warp.copies.arrive_later(lanes, address, context.at);
    }
    Ok(())
}
