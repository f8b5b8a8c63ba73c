//! A warp: its registers, its paths, and what its lanes know of the others.

use super::clock::{
    AGENTS, BULK_READ, BULK_WRITE, COPY, Clock, Component, GENERIC, PRODUCT, agent,
};
use super::execute::cp_async::Copies;
use super::execute::wgmma::Products;
use super::paths::Paths;
use super::registers::{Lanes, Registers, WARP};
use super::shadow::{Access, Observer};
use crate::address::Space;
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

    /// The last place: the instruction and the address.
    pub(super) fn last(&self) -> Option<(usize, u64)> {
        self.places.last().copied()
    }

    /// How often it has looked in vain.
    pub(super) fn in_vain(&self, progress: u64) -> u32 {
        if self.progress == progress { self.again } else { 0 }
    }
}

/// The bulk groups of each lane: how many were made, and up to which they are known to have read
/// shared memory and written global memory.
#[derive(Default)]
pub(super) struct BulkGroups {
    pub(super) made: Lanes<u32>,
    pub(super) read: Lanes<u32>,
    pub(super) written: Lanes<u32>,
    /// The group of each lane's last copy, and the copy's instruction.
    pub(super) last: Lanes<(u32, usize)>,
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
    pub(super) bulk: BulkGroups,
    pub(super) products: Products,
    /// How many registers each lane has, where the kernel says how many it begins with.
    pub(super) register_limit: u32,
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
            bulk: BulkGroups::default(),
            products: Products::default(),
            register_limit: 0,
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
    pub(super) fn observer(&self, lane: u32, space: Space) -> Observer<'_> {
        let mut done = [0; AGENTS];
        let index = lane as usize;
        done[COPY] = self.copies.done[index];
        done[BULK_READ] = self.bulk.read[index];
        done[BULK_WRITE] = self.bulk.written[index];
        Observer {
            space,
            block: self.block,
            warp: self.number,
            lane: Some(lane),
            clock: self.clock(lane),
            done,
        }
    }

    /// The warp as a whole as the one that accesses shared memory now.
    pub(super) fn whole_observer(&self) -> Observer<'_> {
        let (block, warp) = (self.block, self.number);
        let space = Space::Shared;
        Observer { space, block, warp, lane: None, clock: &self.common, done: [0; AGENTS] }
    }

    /// An access of a lane, now and at once.
    pub(super) fn access(&self, lane: u32, instruction: u32, flags: u8) -> Access {
        Access {
            block: self.block,
            lanes: 1 << lane,
            epoch: self.epoch,
            instruction,
            agent: agent(self.number, GENERIC),
            warp: self.number as u8,
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
        for (agent, component) in self.own(lanes) {
            clock.learn(agent, component);
        }
        self.epoch += 1;
        clock
    }

    /// What these lanes themselves have done.
    fn own(&self, lanes: u32) -> [(u16, Component); 4] {
        let each = |epochs: &Lanes<u32>| Component::each(lanes, self.lanes, epochs);
        let Warp { copies, bulk, .. } = self;
        [
            (GENERIC, Component::known(lanes, self.lanes, self.epoch)),
            (COPY, each(&copies.done)),
            (BULK_READ, each(&bulk.read)),
            (BULK_WRITE, each(&bulk.written)),
        ]
        .map(|(kind, component)| (agent(self.number, kind), component))
    }

    /// The async proxy sees what these lanes did and know, in these memories.
    pub(super) fn fence_proxy(&mut self, lanes: u32, spaces: &[Space]) {
        let own = self.own(lanes);
        for space in spaces {
            self.common.fence(*space, &own);
            if let Some((_, private)) = &mut self.private {
                private.fence(*space, &own);
            }
        }
        self.epoch += 1;
    }

    /// The warp's products up to a group have ended.
    pub(super) fn products_ended(&mut self, group: u32) {
        let agent = agent(self.number, PRODUCT);
        let ended = Component::known(WARP, WARP, group);
        self.learn(self.paths.alive, |clock| clock.learn(agent, ended));
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
