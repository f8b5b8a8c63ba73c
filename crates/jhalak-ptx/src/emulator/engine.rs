//! When asynchronous work ends: early if the seed says so, or when nobody can go on without it.

use super::block::Block;
use super::clock::{COPY, Clock, Component, agent};
use super::fault::{Fault, Place, Report};
use super::machine::Machine;
use super::registers::lanes_of;

impl Machine<'_> {
    /// Lets something that a block or a warp has begun end early.
    pub(super) fn end_something(&mut self, block: usize, warp: usize) -> Result<(), Report> {
        let transfers = self.resident[block].shared.transfers.len();
        if transfers > 0 {
            let transfer = self.random.below(transfers);
            self.advance_transfer(block, transfer)?;
        }
        let Block { warps, shared } = &mut self.resident[block];
        let warp = &mut warps[warp];
        let copied = warp.copies.finish_some(self.memory, &mut shared.memory, &mut self.random);
        let summed = warp.products.finish_first(
            self.grid.kernel,
            &shared.memory,
            warp.number,
            &mut warp.registers,
        );
        copied.and(summed).map_err(|fault| self.grid.report(fault, None))
    }

    /// When nobody can go on: lets something end that somebody may wait for. Returns whether there
    /// was anything.
    pub(super) fn force(&mut self) -> Result<bool, Report> {
        let mut transfers = Vec::new();
        for (b, block) in self.resident.iter().enumerate() {
            let loads = block.shared.transfers.iter().enumerate().filter(|(_, t)| t.is_load());
            transfers.extend(loads.map(|(t, _)| (b, t)));
        }
        if !transfers.is_empty() {
            let (block, transfer) = transfers[self.random.below(transfers.len())];
            self.advance_transfer(block, transfer)?;
            return Ok(true);
        }
        let mut any = false;
        for block in 0..self.resident.len() {
            for warp in 0..self.resident[block].warps.len() {
                let Block { warps, shared } = &mut self.resident[block];
                let copies = &mut warps[warp].copies;
                any |= copies
                    .finish_awaited(self.memory, &mut shared.memory)
                    .map_err(|fault| self.grid.report(fault, None))?;
                self.arrive_for_copies(block, warp)?;
            }
        }
        Ok(any)
    }

    /// Takes a transfer one step further: a load ends; a store reads, then writes.
    fn advance_transfer(&mut self, block: usize, transfer: usize) -> Result<(), Report> {
        let shared = &mut self.resident[block].shared;
        let mut transfer = shared.transfers.swap_remove(transfer);
        let (at, warp, lane) = (transfer.at, transfer.warp, transfer.lane);
        let result = if transfer.is_load() || transfer.read.is_some() {
            transfer.finish(self.memory, shared)
        } else {
            let result = transfer.read(&shared.memory);
            shared.transfers.push(transfer);
            result
        };
        self.progress += 1;
        result.map_err(|fault| self.report_at(fault, block, at, warp, lane))
    }

    /// Lets the arrivals come whose copies have ended.
    pub(super) fn arrive_for_copies(&mut self, block: usize, warp: usize) -> Result<(), Report> {
        let state = &mut self.resident[block].warps[warp];
        for arrival in state.copies.due() {
            let Block { warps, shared } = &mut self.resident[block];
            let mut clock = Clock::default();
            let copied = Component::known(1 << arrival.lane, warps[warp].lanes, arrival.group);
            clock.learn(agent(warp, COPY), copied);
            let mbarrier = shared.mbarrier(arrival.barrier);
            let result = mbarrier.and_then(|mbarrier| mbarrier.arrive(1, &clock));
            self.progress += 1;
            result.map_err(|fault| self.report_at(fault, block, arrival.at, warp, arrival.lane))?;
        }
        Ok(())
    }

    /// Lanes that end must have waited until their copies have read shared memory.
    pub(super) fn check_exit(&self, block: usize, warp: usize, lanes: u32) -> Result<(), Report> {
        let bulk = &self.resident[block].warps[warp].bulk;
        for lane in lanes_of(lanes) {
            let (group, at) = bulk.last[lane as usize];
            if group > bulk.read[lane as usize] {
                return Err(self.report_at(Fault::UnfinishedCopy, block, at, warp, lane));
            }
        }
        Ok(())
    }

    /// Removes the blocks that have ended. What their copies still write arrives before the launch
    /// ends.
    pub(super) fn retire(&mut self) -> Result<(), Report> {
        for block in (0..self.resident.len()).filter(|block| self.resident[*block].has_ended()) {
            self.resident[block].check_products().map_err(|f| self.grid.report(f, None))?;
            let transfers = &self.resident[block].shared.transfers;
            if let Some(load) = transfers.iter().find(|transfer| transfer.is_load()) {
                let (at, warp, lane) = (load.at, load.warp, load.lane);
                return Err(self.report_at(Fault::UnfinishedCopy, block, at, warp, lane));
            }
        }
        for block in (0..self.resident.len()).rev() {
            if self.resident[block].has_ended() {
                let mut shared = self.resident.swap_remove(block).shared;
                for transfer in std::mem::take(&mut shared.transfers) {
                    transfer
                        .finish(self.memory, &mut shared)
                        .map_err(|fault| self.grid.report(fault, None))?;
                }
            }
        }
        Ok(())
    }

    fn report_at(&self, fault: Fault, block: usize, at: usize, warp: usize, lane: u32) -> Report {
        let index = self.resident[block].shared.index;
        let place = Place::new(self.grid.kernel, at, index, warp, Some(lane));
        self.grid.report(fault, Some(Box::new(place)))
    }
}
