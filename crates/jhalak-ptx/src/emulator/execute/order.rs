//! Strong accesses: what they release to others and acquire from them (PTX ISA, "Memory Consistency
//! Model").

use super::Context;
use crate::address::Space;
use crate::emulator::arena::Release;
use crate::emulator::registers::{Lanes, lanes_of};
use crate::instruction::types::Scope;

/// How a strong access orders others.
#[derive(Clone, Copy)]
pub(super) struct Strength {
    pub(super) acquires: bool,
    pub(super) releases: bool,
    pub(super) scope: Scope,
}

impl Strength {
    pub(super) fn relaxed() -> Self {
        Strength { acquires: false, releases: false, scope: Scope::Sys }
    }
}

/// Before a strong write: what the lanes did is there for whoever acquires it. A read and write in
/// one (`keep`) also passes on what others had released there.
pub(super) fn release(
    context: &mut Context<'_>,
    space: Space,
    addresses: &Lanes<u64>,
    strength: Strength,
    keep: bool,
) {
    let block = context.warp.block;
    let within_block = strength.scope == Scope::Cta;
    for lane in lanes_of(context.lanes) {
        let clock = if strength.releases {
            Some(context.warp.publish(1 << lane))
        } else {
            context.warp.fenced.clone()
        };
        let releases = match space {
            Space::Shared => &mut context.shared.memory.releases,
            _ => &mut context.memory.releases,
        };
        let address = addresses[lane as usize];
        let before = if keep { releases.remove(&address) } else { None };
        if !keep {
            releases.remove(&address);
        }
        let after = match (before, clock) {
            (before, None) => before,
            (None, Some(clock)) => Some(Release { block, within_block, clock }),
            (Some(before), Some(mut clock)) => {
                if before.block == block {
                    clock.join(&before.clock);
                } else if !before.within_block {
                    clock.join_foreign(block, before.block, &before.clock);
                }
                Some(Release { block, within_block, clock })
            }
        };
        if let Some(after) = after {
            releases.insert(address, after);
        }
    }
}

/// After a strong read: the lanes learn what was released there, at once or at their next fence.
pub(super) fn acquire(
    context: &mut Context<'_>,
    space: Space,
    addresses: &Lanes<u64>,
    strength: Strength,
) {
    let releases = match space {
        Space::Shared => &context.shared.memory.releases,
        _ => &context.memory.releases,
    };
    if releases.is_empty() {
        return;
    }
    let warp = &mut *context.warp;
    let mut left = context.lanes;
    while left != 0 {
        let address = addresses[left.trailing_zeros() as usize];
        let together = lanes_of(left)
            .filter(|lane| addresses[*lane as usize] == address)
            .fold(0, |mask, lane| mask | 1 << lane);
        left &= !together;
        let Some(release) = releases.get(&address) else { continue };
        let own_block = release.block == warp.block;
        if !own_block && (release.within_block || strength.scope == Scope::Cta) {
            continue;
        }
        match (strength.acquires, own_block) {
            (true, true) => warp.acquire(together, &release.clock),
            (true, false) => warp.acquire_foreign(together, release.block, &release.clock),
            (false, true) => warp.seen.get_or_insert_default().join(&release.clock),
            (false, false) => {
                let seen = warp.seen.get_or_insert_default();
                seen.join_foreign(warp.block, release.block, &release.clock);
            }
        }
    }
}
