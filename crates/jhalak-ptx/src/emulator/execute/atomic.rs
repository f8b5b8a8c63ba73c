//! Atomic operations. The lanes of a warp take their turns in an order that the seed picks.

use super::formats::canonical;
use super::order::{Strength, acquire, release};
use super::{Context, packed};
use crate::address::Address;
use crate::emulator::fault::Outcome;
use crate::emulator::machine::Flow;
use crate::emulator::registers::{Lanes, lanes_of};
use crate::emulator::shadow::STRONG;
use crate::instruction::atomic::{
    Atomic, AtomicOperator as Op, AtomicOrder, CompareSwap, Reduce, ReducePair, ReduceVector,
};
use crate::instruction::types::{Scope, Type};
use crate::register::Operand;

fn strength(order: AtomicOrder, scope: Scope) -> Strength {
    let acquires = matches!(order, AtomicOrder::Acquire | AtomicOrder::AcqRel);
    let releases = matches!(order, AtomicOrder::Release | AtomicOrder::AcqRel);
    Strength { acquires, releases, scope }
}

/// What an operation makes of memory.
fn apply(operator: Op, ty: Type, old: u64, value: u64) -> u64 {
    let (narrow, signed) = (ty.bytes() == 4, ty == Type::S32);
    let less = if signed { (old as i32) < value as i32 } else { old < value };
    let result = match operator {
        Op::Add if ty == Type::F32 => {
            let sum = f32::from_bits(old as u32) + f32::from_bits(value as u32);
            canonical(sum).to_bits().into()
        }
        Op::Add => old.wrapping_add(value),
        Op::Inc => {
            if old >= value {
                0
            } else {
                old + 1
            }
        }
        Op::Min => {
            if less {
                old
            } else {
                value
            }
        }
        Op::Max => {
            if less {
                value
            } else {
                old
            }
        }
        Op::And => old & value,
        Op::Or => old | value,
        Op::Xor => old ^ value,
        Op::Exch => value,
    };
    if narrow { u64::from(result as u32) } else { result }
}

/// Reads and writes at once, lane by lane; the result is what was there.
fn update(
    context: &mut Context<'_>,
    address: Address,
    ty: Type,
    strength: Strength,
    change: impl Fn(usize, u64) -> u64,
) -> Outcome<Lanes<u64>> {
    let addresses = context.addresses(address)?;
    release(context, address.space, &addresses, strength, true);
    let mut order: Vec<u32> = lanes_of(context.lanes).collect();
    context.random.shuffle(&mut order);
    let mut before = [0; 32];
    for lane in order {
        let index = lane as usize;
        let (arena, request) = context.request(address.space, lane, addresses[index], STRONG);
        let change = |old| change(index, old);
        before[index] = arena.update(&request, ty.bytes() as usize, change)?;
        if change(before[index]) != before[index] {
            *context.progress += 1;
        }
    }
    acquire(context, address.space, &addresses, strength);
    context.look(addresses[context.lanes.trailing_zeros() as usize]);
    Ok(before)
}

pub(super) fn atomic(context: &mut Context<'_>, form: &Atomic) -> Outcome<Flow> {
    let values = context.warp.registers.any(form.value, context.lanes)?;
    let strength = strength(form.order, form.scope);
    let before = update(context, form.address, form.ty, strength, |lane, old| {
        apply(form.operator, form.ty, old, values[lane])
    })?;
    context.warp.registers.set_any(form.d, context.lanes, before);
    Ok(Flow::Yield)
}

pub(super) fn compare_swap(context: &mut Context<'_>, form: &CompareSwap) -> Outcome<Flow> {
    let values = context.warp.registers.any(form.value, context.lanes)?;
    let compare = context.warp.registers.any(form.compare, context.lanes)?;
    let strength = strength(form.order, form.scope);
    let before = update(context, form.address, form.ty, strength, |lane, old| {
        if old == compare[lane] { values[lane] } else { old }
    })?;
    context.warp.registers.set_any(form.d, context.lanes, before);
    Ok(Flow::Yield)
}

pub(super) fn reduce(context: &mut Context<'_>, form: &Reduce) -> Outcome<Flow> {
    let values = context.warp.registers.any(form.value, context.lanes)?;
    let strength = strength(form.order, form.scope);
    update(context, form.address, form.ty, strength, |lane, old| {
        apply(form.operator, form.ty, old, values[lane])
    })?;
    Ok(Flow::Next)
}

pub(super) fn reduce_vector(context: &mut Context<'_>, form: &ReduceVector) -> Outcome<Flow> {
    context.check_aligned(form.address, 16)?;
    let strength = strength(AtomicOrder::Relaxed, form.scope);
    for (index, register) in form.values.iter().enumerate() {
        let values = context.warp.registers.any(Operand::Register(*register), context.lanes)?;
        let offset = form.address.offset + 4 * index as i32;
        let address = Address { offset, ..form.address };
        update(context, address, Type::F32, strength, |lane, old| {
            apply(Op::Add, Type::F32, old, values[lane])
        })?;
    }
    Ok(Flow::Next)
}

pub(super) fn reduce_pair(context: &mut Context<'_>, form: &ReducePair) -> Outcome<Flow> {
    let values = context.warp.registers.words(form.values, context.lanes)?;
    let strength = strength(AtomicOrder::Relaxed, form.scope);
    update(context, form.address, Type::B32, strength, |lane, old| {
        packed::sum(form.ty, [old as u32, values[lane]]).into()
    })?;
    Ok(Flow::Next)
}
