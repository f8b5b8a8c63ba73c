//! Matrices spread over a warp: ldmatrix and mma. The layouts stand in
//! [`crate::instruction::ldmatrix`] and [`crate::instruction::mma`].
//!
//! Products are exact and summed in double precision, then rounded once. Tensor cores sum with a few
//! bits more than a float, in an order of their own: their results may differ in the last bits.
//! Integers small enough agree exactly.

use super::Context;
use super::formats::{canonical, from_bf16, from_e4m3, from_f16, from_tf32};
use crate::address::Space;
use crate::emulator::fault::Outcome;
use crate::emulator::registers::{Lanes, each};
use crate::instruction::ldmatrix::LoadMatrix;
use crate::instruction::mma::Mma;
use crate::instruction::stmatrix::{StoreMatrix, TransposeMatrix};
use crate::instruction::types::Type;

/// Bytes of a row of an 8 × 8 matrix.
const ROW: usize = 16;

pub(super) fn load(context: &mut Context<'_>, form: &LoadMatrix) -> Outcome<()> {
    context.require_whole_warp()?;
    let addresses = context.addresses(form.address)?;
    for (matrix, d) in form.d.iter().enumerate() {
        let mut rows = [[0; ROW]; 8];
        for (row, bytes) in rows.iter_mut().enumerate() {
            let lane = 8 * matrix + row;
            let (shared, request) = context.request(Space::Shared, lane as u32, addresses[lane], 0);
            *bytes = shared.load(&request, ROW)?;
        }
        let element = |row: usize, column: usize| {
            u32::from(u16::from_le_bytes([rows[row][2 * column], rows[row][2 * column + 1]]))
        };
        let values = each(|lane| {
            let (row, column) = (lane / 4, 2 * (lane % 4));
            let [low, high] = [column, column + 1].map(|column| {
                if form.transposed { element(column, row) } else { element(row, column) }
            });
            high << 16 | low
        });
        context.warp.registers.set_words(*d, context.lanes, values);
    }
    Ok(())
}

pub(super) fn store(context: &mut Context<'_>, form: &StoreMatrix) -> Outcome<()> {
    context.require_whole_warp()?;
    let addresses = context.addresses(form.address)?;
    for (matrix, register) in form.values.iter().enumerate() {
        let values = context.words(*register)?;
        for row in 0..8 {
            let element = |column| {
                if form.transposed {
                    held_element(&values, column, row)
                } else {
                    held_element(&values, row, column)
                }
            };
            let mut bytes = [0; ROW];
            for (column, bytes) in bytes.chunks_exact_mut(2).enumerate() {
                bytes.copy_from_slice(&element(column).to_le_bytes());
            }
            let lane = 8 * matrix + row;
            let (shared, request) = context.request(Space::Shared, lane as u32, addresses[lane], 0);
            shared.store(&request, &bytes)?;
        }
    }
    *context.progress += 1;
    Ok(())
}

pub(super) fn transpose(context: &mut Context<'_>, form: &TransposeMatrix) -> Outcome<()> {
    context.require_whole_warp()?;
    let a = context.warp.registers.words(form.a, context.lanes)?;
    let values = each(|lane| {
        let (row, column) = (lane / 4, 2 * (lane % 4));
        let [low, high] = [column, column + 1].map(|c| u32::from(held_element(&a, c, row)));
        high << 16 | low
    });
    context.warp.registers.set_words(form.d, context.lanes, values);
    Ok(())
}

/// An element of an 8 × 8 matrix that is spread over the warp.
fn held_element(values: &Lanes<u32>, row: usize, column: usize) -> u16 {
    (values[4 * row + column / 2] >> (16 * (column % 2))) as u16
}

/// The numbers in a register, the lowest bits first.
pub(super) fn unpack(ty: Type, bits: u32, element: usize) -> f64 {
    f64::from(match ty {
        Type::F16 => from_f16((bits >> (16 * element)) as u16),
        Type::Bf16 => from_bf16((bits >> (16 * element)) as u16),
        Type::E4m3 => from_e4m3((bits >> (8 * element)) as u8),
        _ => from_tf32(bits),
    })
}

/// Rows of `a` and columns of `b` along which products are summed: at most 32 of them.
type Depth = [f64; 32];

pub(super) fn mma(context: &mut Context<'_>, form: &Mma) -> Outcome<()> {
    context.require_whole_warp()?;
    let width = 4 / form.ty.bytes() as usize;
    let (mut a, mut b) = ([[0.0; 32]; 16], [[0.0; 32]; 8]);
    for (index, register) in form.a.iter().enumerate() {
        let (row, half) = (8 * (index % 2), index / 2);
        spread(form.ty, width, half, &context.words(*register)?, |r, k, x| a[row + r][k] = x);
    }
    for (half, register) in form.b.iter().enumerate() {
        spread(form.ty, width, half, &context.words(*register)?, |column, k, x| b[column][k] = x);
    }
    let c = form.c.map(|c| context.words(c));
    for ((index, c), d) in c.into_iter().enumerate().zip(form.d) {
        let c = c?;
        let sums = each(|lane| {
            let (row, column) = (lane / 4 + 8 * (index / 2), 2 * (lane % 4) + index % 2);
            canonical(sum(&a[row], &b[column], f32::from_bits(c[lane])))
        });
        context.warp.registers.set_floats(d, context.lanes, sums);
    }
    Ok(())
}

/// Hands out what the lanes hold of one half of the depth: row (or column), place in the depth, and
/// number.
fn spread(
    ty: Type,
    width: usize,
    half: usize,
    words: &Lanes<u32>,
    mut put: impl FnMut(usize, usize, f64),
) {
    for (lane, word) in words.iter().enumerate() {
        for element in 0..width {
            let k = 4 * width * half + width * (lane % 4) + element;
            put(lane / 4, k, unpack(ty, *word, element));
        }
    }
}

fn sum(a: &Depth, b: &Depth, c: f32) -> f32 {
    let products: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
    (products + f64::from(c)) as f32
}
