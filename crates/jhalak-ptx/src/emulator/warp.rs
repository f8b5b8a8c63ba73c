//! A warp: its registers, its paths, and what its lanes know of the others.

use super::clock::{AGENTS, COPY, Clock, Component, GENERIC, agent};
use super::execute::cp_async::Copies;
use super::paths::Paths;
use super::registers::{Registers, lanes_of};
use super::shadow::{Access, Observer};
use crate::kernel::Kernel;

/// What a warp waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) barrier: usize,
    /// The instruction.
    pub(super) at: usize,
}

/// What a warp has looked at since anything changed: one that looks again and again at the same
/// places waits for somebody.
#[derive(Default)]
pub(super) struct Looks {
    progress: u64,
    places: Vec<(usize, u64)>,
    again: u32,
}

impl Looks {
    /// The instruction `at` looks at an address.
    pub(super) fn look(&mut self, at: usize, address: u64, progress: u64) {
        if self.progress != progress {
            *self = Looks { progress, places: Vec::new(), again: 0 };
        }
        if self.places.contains(&(at, address)) {
            self.again += 1;
        } else {
            self.places.push((at, address));
        }
    }

    /// How often it has looked in vain.
    pub(super) fn in_vain(&self, progress: u64) -> u32 {
        if self.progress == progress { self.again } else { 0 }
    }
}

pub(super) struct Warp {
    /// Its number in the block.
    pub(super) number: usize,
    pub(super) block: u32,
    /// The lanes that the launch gave it.
    pub(super) lanes: u32,
    pub(super) registers: Registers,
    pub(super) paths: Paths,
    pub(super) waiting: Option<Waiting>,
    pub(super) copies: Copies,
    pub(super) looks: Looks,
    /// The current epoch of its own accesses.
    epoch: u32,
    /// What all its lanes know.
    common: Clock,
    /// What some lanes know beyond that.
    private: Option<(u32, Clock)>,
    /// What a fence allows strong writes to release.
    pub(super) fenced: Option<Clock>,
    /// What strong reads have seen released, for a fence to acquire.
    pub(super) seen: Option<Clock>,
}

impl Warp {
    pub(super) fn new(kernel: &Kernel, block: u32, number: usize, lanes: u32) -> Self {
        Warp {
            number,
            block,
            lanes,
            registers: Registers::new(kernel),
            paths: Paths::new(lanes),
            waiting: None,
            copies: Copies::default(),
            looks: Looks::default(),
            epoch: 1,
            common: Clock::default(),
            private: None,
            fenced: None,
            seen: None,
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.paths.alive == 0
    }

    fn clock(&self, lane: u32) -> &Clock {
        match &self.private {
            Some((lanes, clock)) if lanes >> lane & 1 == 1 => clock,
            _ => &self.common,
        }
    }

    /// A lane as the one that accesses memory now.
    pub(super) fn observer(&self, lane: u32) -> Observer<'_> {
        let mut done = [0; AGENTS];
        done[COPY] = self.copies.done[lane as usize];
        Observer { block: self.block, warp: self.number, lane, clock: self.clock(lane), done }
    }

    /// An access of a lane, now and at once.
    pub(super) fn access(&self, lane: u32, instruction: u32, flags: u8) -> Access {
        Access {
            block: self.block,
            lanes: 1 << lane,
            epoch: self.epoch,
            instruction,
            agent: agent(self.number, GENERIC),
            flags,
        }
    }

    /// An access by the copies of a lane's current group.
    pub(super) fn copy_access(&self, lane: u32, instruction: u32) -> Access {
        let (epoch, agent) = (self.copies.group(lane), agent(self.number, COPY));
        Access { epoch, agent, ..self.access(lane, instruction, 0) }
    }

    /// All that these lanes have done and seen, for others to learn. What they do from now on is
    /// not part of it.
    pub(super) fn publish(&mut self, lanes: u32) -> Clock {
        let mut clock = self.common.clone();
        if let Some((ahead, private)) = &self.private
            && ahead & lanes != 0
        {
            clock.join(private);
        }
        let known = |epoch| Component::known(lanes, self.lanes, epoch);
        clock.learn(agent(self.number, GENERIC), known(self.epoch));
        let copied = lanes_of(lanes).map(|lane| self.copies.done[lane as usize]).min();
        clock.learn(agent(self.number, COPY), known(copied.unwrap_or(0)));
        self.epoch += 1;
        clock
    }

    /// These lanes learn what others have published.
    pub(super) fn acquire(&mut self, lanes: u32, clock: &Clock) {
        self.learn(lanes, |own| own.join(clock));
    }

    /// The same from another block.
    pub(super) fn acquire_foreign(&mut self, lanes: u32, from: u32, clock: &Clock) {
        let block = self.block;
        self.learn(lanes, |own| own.join_foreign(block, from, clock));
    }

    fn learn(&mut self, lanes: u32, learn: impl Fn(&mut Clock)) {
        if lanes == self.paths.alive {
            learn(&mut self.common);
            if let Some((_, private)) = &mut self.private {
                learn(private);
            }
        } else {
            let common = &self.common;
            let (ahead, private) = self.private.get_or_insert_with(|| (0, common.clone()));
            *ahead |= lanes;
            learn(private);
        }
    }

    /// The lanes wait for each other: each learns what the others did and know.
    pub(super) fn synchronise(&mut self) {
        self.common = self.publish(self.paths.alive);
        self.private = None;
    }
}
