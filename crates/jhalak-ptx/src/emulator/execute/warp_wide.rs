//! What the lanes of a warp tell each other. None of it orders memory.

use super::Context;
use crate::emulator::fault::Outcome;
use crate::emulator::registers::{each, mask_of};
use crate::instruction::warp::{Ballot, Elect, Shuffle, ShuffleMode, Vote, VoteMode};

pub(super) fn shuffle(context: &mut Context<'_>, form: &Shuffle) -> Outcome<()> {
    context.require_converged()?;
    let lanes = context.lanes;
    let registers = &mut context.warp.registers;
    let (a, by) = (registers.words(form.a, lanes)?, registers.words(form.lane, lanes)?);
    let from = each(|lane| {
        let by = by[lane] as usize & 31;
        match form.mode {
            ShuffleMode::Index => by,
            ShuffleMode::Butterfly => lane ^ by,
            ShuffleMode::Up => lane.checked_sub(by).unwrap_or(lane),
            ShuffleMode::Down => Some(lane + by).filter(|from| *from < 32).unwrap_or(lane),
        }
    });
    registers.set_words(form.d, lanes, each(|lane| a[from[lane]]));
    // A lane that does not take part has nothing to give.
    let absent = mask_of(|lane| lanes >> from[lane] & 1 == 0);
    registers.unset(form.d, lanes & absent);
    Ok(())
}

pub(super) fn vote(context: &mut Context<'_>, form: &Vote) -> Outcome<()> {
    let ballot = ballots(context, form.a)?;
    let holds = match form.mode {
        VoteMode::All => ballot == context.lanes,
        VoteMode::Any => ballot != 0,
    };
    let truth = if holds { u32::MAX } else { 0 };
    context.warp.registers.set_truth(form.d, context.lanes, truth);
    Ok(())
}

pub(super) fn ballot(context: &mut Context<'_>, form: &Ballot) -> Outcome<()> {
    let ballot = ballots(context, form.a)?;
    context.warp.registers.set_words(form.d, context.lanes, [ballot; 32]);
    Ok(())
}

fn ballots(context: &Context<'_>, a: crate::register::Operand) -> Outcome<u32> {
    context.require_converged()?;
    Ok(context.warp.registers.truth(a, context.lanes)? & context.lanes)
}

/// The hardware picks the same lane each time; which one is open, here the lowest.
pub(super) fn elect(context: &mut Context<'_>, form: &Elect) -> Outcome<()> {
    context.require_converged()?;
    let lanes = context.lanes;
    context.warp.registers.set_truth(form.d, lanes, 1 << lanes.trailing_zeros());
    Ok(())
}
