//! Barriers of a block and of a warp, and fences.

use super::{Context, mbarrier};
use crate::address::Space;
use crate::emulator::fault::{Fault, Outcome};
use crate::emulator::warp::Waiting;
use crate::instruction::barrier::{AsyncMemory, Barrier, BarrierAction, FenceProxyAsync};

pub(super) fn barrier(context: &mut Context<'_>, form: &Barrier) -> Outcome<()> {
    context.require_converged()?;
    let id = context.uniform(form.id, "the barrier")?;
    let whole_block = 32 * context.shared.warp_count;
    let threads = form.threads.unwrap_or(whole_block);
    let barrier = id as usize;
    let Some(state) = context.shared.barriers.get_mut(barrier) else {
        let rule = "a block has barriers 0 to 15";
        return Err(Fault::BadOperand { operand: "the barrier", value: id, rule }.into());
    };
    if threads > whole_block {
        let rule = "a barrier is for no more threads than the block has";
        let value = threads.into();
        return Err(Fault::BadOperand { operand: "the number of threads", value, rule }.into());
    }
    let expected = *state.threads.get_or_insert(threads);
    if expected != threads {
        return Err(Fault::BarrierCount { id: id as u32, threads, expected }.into());
    }
    state.clock.join(&context.warp.publish(context.lanes));
    state.arrived += 32;
    if form.action == BarrierAction::Sync {
        context.warp.waiting = Some(Waiting { barrier, at: context.at });
    }
    if state.arrived == threads {
        let clock = std::mem::take(state).clock;
        context.shared.completed = Some((barrier, clock));
    }
    *context.progress += 1;
    Ok(())
}

pub(super) fn warp_barrier(context: &mut Context<'_>) -> Outcome<()> {
    context.require_converged()?;
    context.warp.synchronise();
    Ok(())
}

/// What these lanes did and know is seen by copies and products.
pub(super) fn fence_proxy(context: &mut Context<'_>, form: &FenceProxyAsync) {
    let spaces: &[Space] = match form.memory {
        AsyncMemory::All => &[Space::Global, Space::Shared],
        AsyncMemory::Global => &[Space::Global],
        AsyncMemory::Shared => &[Space::Shared],
    };
    context.warp.fence_proxy(context.lanes, spaces);
    if spaces.contains(&Space::Shared) {
        mbarrier::announce(context);
    }
}

/// Lets later strong writes release what was done before, and acquires what earlier strong reads
/// have seen.
pub(super) fn fence(context: &mut Context<'_>) {
    if let Some(seen) = context.warp.seen.take() {
        context.warp.acquire(context.lanes, &seen);
    }
    context.warp.fenced = Some(context.warp.publish(context.lanes));
}
