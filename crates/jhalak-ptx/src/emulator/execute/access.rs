//! Loads and stores.

use super::Context;
use super::order::{Strength, acquire, release};
use crate::address::{Base, Space};
use crate::emulator::arena::WIDEST;
use crate::emulator::fault::Outcome;
use crate::emulator::machine::Flow;
use crate::emulator::registers::lanes_of;
use crate::emulator::shadow::{READ_ONLY, STRONG};
use crate::instruction::memory::{Load, Order, Store};
use crate::register::Operand;

fn strength(order: Order) -> Option<Strength> {
    match order {
        Order::Weak | Order::ReadOnly => None,
        Order::Volatile => Some(Strength::relaxed()),
        Order::Relaxed(scope) => Some(Strength { scope, ..Strength::relaxed() }),
        Order::Acquire(scope) => Some(Strength { acquires: true, scope, ..Strength::relaxed() }),
        Order::Release(scope) => Some(Strength { releases: true, scope, ..Strength::relaxed() }),
    }
}

fn flags(order: Order) -> u8 {
    match order {
        Order::Weak => 0,
        Order::ReadOnly => READ_ONLY,
        _ => STRONG,
    }
}

pub(super) fn load(context: &mut Context<'_>, form: &Load) -> Outcome<Flow> {
    let space = form.address.space;
    let lanes = context.lanes;
    if let Base::Parameter(index) = form.address.base {
        let value = context.grid.arguments[index].bits();
        context.warp.registers.set_any(form.d[0], lanes, [value; 32]);
        return Ok(Flow::Next);
    }
    let addresses = context.addresses(form.address)?;
    let size = form.ty.bytes() as usize;
    let mut values = [[0; 32]; WIDEST / 4];
    for lane in lanes_of(lanes) {
        let address = addresses[lane as usize];
        let (arena, request) = context.request(space, lane, address, flags(form.access.order));
        let bytes = arena.load(&request, size * form.d.len())?;
        for (values, element) in values.iter_mut().zip(bytes.chunks_exact(size)) {
            let mut value = [0; 8];
            value[..size].copy_from_slice(element);
            values[lane as usize] = u64::from_le_bytes(value);
        }
    }
    for (d, values) in form.d.iter().zip(values) {
        context.warp.registers.set_any(*d, lanes, values);
    }
    let Some(strength) = strength(form.access.order) else { return Ok(Flow::Next) };
    acquire(context, space, &addresses, strength);
    context.look(addresses[lanes.trailing_zeros() as usize]);
    Ok(if space == Space::Param { Flow::Next } else { Flow::Yield })
}

pub(super) fn store(context: &mut Context<'_>, form: &Store) -> Outcome<Flow> {
    let space = form.address.space;
    let addresses = context.addresses(form.address)?;
    let size = form.ty.bytes() as usize;
    let mut values = [[0; 32]; WIDEST / 4];
    for (values, register) in values.iter_mut().zip(&form.values) {
        *values = context.warp.registers.any(Operand::Register(*register), context.lanes)?;
    }
    if let Some(strength) = strength(form.access.order) {
        release(context, space, &addresses, strength, false);
    }
    let bytes = size * form.values.len();
    for lane in lanes_of(context.lanes) {
        let mut value = [0; WIDEST];
        for (element, values) in value[..bytes].chunks_exact_mut(size).zip(&values) {
            element.copy_from_slice(&values[lane as usize].to_le_bytes()[..size]);
        }
        let address = addresses[lane as usize];
        let (arena, request) = context.request(space, lane, address, flags(form.access.order));
        arena.store(&request, &value[..bytes])?;
    }
    *context.progress += 1;
    Ok(Flow::Next)
}
