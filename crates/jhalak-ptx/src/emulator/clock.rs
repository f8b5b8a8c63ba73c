//! Who has seen what: vector clocks.
//!
//! Agents are what acts on its own: the lanes of a warp, the copies that a warp has begun, an
//! mbarrier on whose phases copies complete. Each agent counts epochs; an access belongs to the
//! epoch in which it was made. A [`Clock`] says, for each agent of the block, up to which epoch
//! everything it did happened before.
//!
//! The lanes of a warp mostly go together, so they share a component: `all` lanes up to one epoch,
//! and one set of lanes that went ahead (an elected lane that arrived at an mbarrier). When two such
//! sets meet, the union is taken: a race may be missed then, none is invented.

use std::collections::BTreeMap;

use super::registers::{Lanes, lanes_of};
use crate::address::Space;

/// What a warp does in its own name: loads, stores, atomics.
pub(super) const GENERIC: usize = 0;
/// `cp.async`, by groups.
pub(super) const COPY: usize = 1;
/// What bulk copies read of shared memory, by groups.
pub(super) const BULK_READ: usize = 2;
/// What bulk copies write to global memory, by groups.
pub(super) const BULK_WRITE: usize = 3;
/// What wgmma reads of shared memory, by groups.
pub(super) const PRODUCT: usize = 4;
/// Agents of one warp. The mbarriers of a block follow those of its warps.
pub(super) const AGENTS: usize = 5;

/// The number of a warp's agent within its block.
pub(super) fn agent(warp: usize, kind: usize) -> u16 {
    (warp * AGENTS + kind) as u16
}

/// How much of one agent's past is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Component {
    all: u32,
    lanes: u32,
    ahead: u32,
}

impl Component {
    /// These lanes up to this epoch. `every` names all lanes that there are.
    pub(super) fn known(lanes: u32, every: u32, epoch: u32) -> Self {
        if lanes == every {
            Component { all: epoch, lanes: 0, ahead: 0 }
        } else {
            Component { all: 0, lanes, ahead: epoch }
        }
    }

    /// These lanes, each up to an epoch of its own. What only some of those ahead did is left out.
    pub(super) fn each(lanes: u32, every: u32, epochs: &Lanes<u32>) -> Self {
        let least = lanes_of(lanes).map(|lane| epochs[lane as usize]).min().unwrap_or(0);
        let further = lanes_of(lanes).filter(|lane| epochs[*lane as usize] > least);
        let part = Component {
            all: least,
            lanes: further.clone().fold(0, |mask, lane| mask | 1 << lane),
            ahead: further.map(|lane| epochs[lane as usize]).min().unwrap_or(0),
        };
        if lanes == every {
            part
        } else if least > 0 {
            Component { all: 0, lanes, ahead: least }
        } else {
            Component { all: 0, ..part }
        }
    }

    fn covers(self, lanes: u32, epoch: u32) -> bool {
        epoch <= self.all || (epoch <= self.ahead && lanes & !self.lanes == 0)
    }

    fn join(&mut self, other: Component) {
        let all = self.all.max(other.all);
        let (mut lanes, mut ahead) = (0, 0);
        for part in [*self, other] {
            if part.ahead > all {
                lanes |= part.lanes;
                ahead = ahead.max(part.ahead);
            }
        }
        *self = Component { all, lanes, ahead };
    }
}

/// Components by the number of the agent; those beyond the end know nothing.
type Components = Vec<Component>;

fn join(into: &mut Components, from: &[Component]) {
    if into.len() < from.len() {
        into.resize(from.len(), Component::default());
    }
    into.iter_mut().zip(from).for_each(|(a, b)| a.join(*b));
}

fn learn(into: &mut Components, agent: u16, component: Component) {
    let index = usize::from(agent);
    if into.len() <= index {
        into.resize(index + 1, Component::default());
    }
    into[index].join(component);
}

fn covers(components: &[Component], agent: u16, lanes: u32, epoch: u32) -> bool {
    components.get(usize::from(agent)).is_some_and(|c| c.covers(lanes, epoch))
}

/// Which of a clock's fences is about this memory.
fn fence_of(space: Space) -> usize {
    usize::from(space == Space::Shared)
}

/// What happened before a moment, in one block's view.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    /// The agents of the own block.
    ordered: Components,
    /// Of these, what proxy fences made known to the async proxy: in global and in shared memory.
    fenced: [Components; 2],
    /// The agents of other blocks, by block.
    foreign: BTreeMap<u32, Components>,
}

impl Clock {
    /// Whether all that these lanes did up to this epoch happened before.
    pub(super) fn covers(&self, agent: u16, lanes: u32, epoch: u32) -> bool {
        covers(&self.ordered, agent, lanes, epoch)
    }

    /// The same for another block's agent.
    pub(super) fn covers_foreign(&self, block: u32, agent: u16, lanes: u32, epoch: u32) -> bool {
        self.foreign.get(&block).is_some_and(|known| covers(known, agent, lanes, epoch))
    }

    /// Whether the async proxy sees all that these lanes did to this memory up to this epoch:
    /// agent, lanes, epoch.
    pub(super) fn covers_fenced(&self, space: Space, other: (u16, u32, u32)) -> bool {
        let (agent, lanes, epoch) = other;
        covers(&self.fenced[fence_of(space)], agent, lanes, epoch)
    }

    /// The async proxy sees all that is known, and what these lanes of a warp did themselves, to
    /// this memory.
    pub(super) fn fence(&mut self, space: Space, own: &[(u16, Component)]) {
        let Clock { ordered, fenced, .. } = self;
        let fenced = &mut fenced[fence_of(space)];
        join(fenced, ordered);
        for (agent, component) in own {
            learn(fenced, *agent, *component);
        }
    }

    /// Learns a component.
    pub(super) fn learn(&mut self, agent: u16, component: Component) {
        learn(&mut self.ordered, agent, component);
    }

    /// Learns all that another clock of the same block knows.
    pub(super) fn join(&mut self, other: &Clock) {
        join(&mut self.ordered, &other.ordered);
        for (fenced, other) in self.fenced.iter_mut().zip(&other.fenced) {
            join(fenced, other);
        }
        for (block, known) in &other.foreign {
            join(self.foreign.entry(*block).or_default(), known);
        }
    }

    /// Learns, as a member of block `own`, what a clock of block `from` knows.
    pub(super) fn join_foreign(&mut self, own: u32, from: u32, other: &Clock) {
        join(self.foreign.entry(from).or_default(), &other.ordered);
        for (block, known) in &other.foreign {
            let mine = if *block == own {
                &mut self.ordered
            } else {
                self.foreign.entry(*block).or_default()
            };
            join(mine, known);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_ahead_cover_themselves_alone() {
        let mut clock = Clock::default();
        clock.learn(3, Component::known(u32::MAX, u32::MAX, 4));
        clock.learn(3, Component::known(0b10, u32::MAX, 7));
        assert!(clock.covers(3, 0b101, 4));
        assert!(clock.covers(3, 0b10, 7));
        assert!(!clock.covers(3, 0b11, 7));
        assert!(!clock.covers(3, 0b10, 8));
        assert!(!clock.covers(4, 0b1, 1));
    }

    #[test]
    fn what_a_block_did_comes_back_to_it_through_another_block() {
        let (mut ours, mut theirs) = (Clock::default(), Clock::default());
        ours.learn(0, Component::known(1, 1, 5));
        theirs.join_foreign(1, 0, &ours);
        assert!(theirs.covers_foreign(0, 0, 1, 5));
        let mut back = Clock::default();
        back.join_foreign(0, 1, &theirs);
        assert!(back.covers(0, 1, 5));
    }
}
