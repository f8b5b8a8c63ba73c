//! Registers that move from one warpgroup to another.

use super::Context;
use crate::emulator::fault::{Fault, Outcome};
use crate::emulator::machine::Flow;
use crate::instruction::setmaxnreg::{RegisterChange, SetMaxRegisters};

pub(super) fn set_max_registers(
    context: &mut Context<'_>,
    form: &SetMaxRegisters,
) -> Outcome<Flow> {
    context.require_whole_warp()?;
    let (old, new) = (context.warp.register_limit, form.registers);
    let bad = |rule| {
        let (operand, value) = ("the number of registers", new.into());
        Err(Fault::BadOperand { operand, value, rule }.into())
    };
    match form.change {
        RegisterChange::Decrease if new > old => bad("setmaxnreg.dec keeps no more than there are"),
        RegisterChange::Increase if new < old => {
            bad("setmaxnreg.inc takes no fewer than there are")
        }
        RegisterChange::Increase if context.shared.free_registers < new - old => {
            // It waits until another warpgroup has given back enough.
            context.look(u64::MAX);
            Ok(Flow::Stay)
        }
        _ => {
            context.shared.free_registers = context.shared.free_registers + old - new;
            context.warp.register_limit = new;
            *context.progress += 1;
            Ok(Flow::Next)
        }
    }
}
