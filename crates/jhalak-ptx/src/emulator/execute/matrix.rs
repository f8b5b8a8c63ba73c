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
