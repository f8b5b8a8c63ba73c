//! Copies, halves of registers, addresses and special registers.

use super::Context;
use crate::address::{Base, Space};
use crate::emulator::fault::Outcome;
use crate::emulator::registers::{Registers, each};
use crate::instruction::moves::{AddressOf, Move, Pack, ReadSpecial, Special, Unpack};
use crate::instruction::types::Type;
use crate::register::Operand;

pub(super) fn copy(r: &mut Registers, lanes: u32, form: &Move) -> Outcome<()> {
    if form.ty == Type::Pred {
        let truth = r.truth(form.a, lanes)?;
        r.set_truth(form.d, lanes, truth);
    } else {
        let values = r.any(form.a, lanes)?;
        r.set_any(form.d, lanes, values);
    }
    Ok(())
}

/// Bits of a half of this type.
fn half_bits(ty: Type) -> u32 {
    4 * ty.bytes()
}

pub(super) fn pack(r: &mut Registers, lanes: u32, form: &Pack) -> Outcome<()> {
    let [low, high] = form.halves.map(|half| r.words(Operand::Register(half), lanes));
    let (low, high) = (low?, high?);
    let bits = half_bits(form.ty);
    r.set_any(form.d, lanes, each(|l| u64::from(high[l]) << bits | u64::from(low[l])));
    Ok(())
}

pub(super) fn unpack(r: &mut Registers, lanes: u32, form: &Unpack) -> Outcome<()> {
    let a = r.any(form.a, lanes)?;
    let bits = half_bits(form.ty);
    let [low, high] = form.halves;
    r.set_any(low, lanes, a.map(|a| a & ((1 << bits) - 1)));
    r.set_any(high, lanes, a.map(|a| a >> bits));
    Ok(())
}

pub(super) fn address_of(context: &mut Context<'_>, form: &AddressOf) -> Outcome<()> {
    let lanes = context.lanes;
    let addresses = match form.address {
        address if address.space == Space::Shared => context.addresses(address)?,
        address => {
            let Base::Parameter(index) = address.base else {
                unreachable!("only shared memory and parameters have symbols")
            };
            [parameter_address(index); 32]
        }
    };
    context.warp.registers.set_any(form.d, lanes, addresses);
    Ok(())
}

/// The generic address that stands for a parameter.
fn parameter_address(index: usize) -> u64 {
    FIRST_PARAMETER + PARAMETER_BYTES * index as u64
}

/// The parameter that a generic address stands for.
pub(super) fn parameter_index(address: u64) -> Option<usize> {
    let offset = address.checked_sub(FIRST_PARAMETER)?;
    offset.is_multiple_of(PARAMETER_BYTES).then_some((offset / PARAMETER_BYTES) as usize)
}

/// Where parameters are in the generic address space, and how far apart.
const FIRST_PARAMETER: u64 = 0x7f00_0000_0000_0000;
const PARAMETER_BYTES: u64 = 128;

pub(super) fn special(context: &mut Context<'_>, form: &ReadSpecial) {
    let [blocks, index] = [context.grid.blocks, context.shared.index];
    let first = 32 * context.warp.number as u32;
    let same = |value: u32| [value; 32];
    let values = match form.special {
        Special::TidX => each(|lane| first + lane as u32),
        Special::TidY | Special::TidZ => same(0),
        Special::NtidX => same(context.grid.threads),
        Special::NtidY | Special::NtidZ => same(1),
        Special::CtaidX => same(index[0]),
        Special::CtaidY => same(index[1]),
        Special::CtaidZ => same(index[2]),
        Special::NctaidX => same(blocks[0]),
        Special::NctaidY => same(blocks[1]),
        Special::NctaidZ => same(blocks[2]),
        Special::LaneId => each(|lane| lane as u32),
    };
    context.warp.registers.set_words(form.d, context.lanes, values);
}
