//! The end of a tile's rows: sums over lanes, division, lse, and writing.

use jhalak_ptx::Comparison::{Eq, Lt, Ne};
use jhalak_ptx::{B32, Connective, KernelBuilder, Pred};

use super::super::context::Context;
use super::super::element::Element;
use super::super::finish::finish_row;
use super::super::parameters::{Parameter, Tensor};
use super::super::repair::Repair;
use super::super::row::TileRows;
use super::super::softmax::{Exponent, Fragments, Softmax, over_quad, row_of};
use super::copy::pitch;
use super::forward::{KeyRange, ThreadRow};
use crate::kernels::Access;

/// Writes out and lse of a tile's rows.
#[expect(clippy::too_many_arguments, reason = "the state of a tile")]
pub(crate) fn write(
    k: &mut KernelBuilder,
    context: &Context<'_>,
    tile_rows: &TileRows,
    keys: &KeyRange,
    first_row: B32,
    rows: &[ThreadRow],
    softmax: &Softmax,
    results: &Fragments,
) {
    let mut broken = None;
    for (r, (ThreadRow { row, used, .. }, state)) in rows.iter().zip(&softmax.rows).enumerate() {
        let sum = over_quad(k, state.sum, |k, a, b| k.add_f32(a, b));
        let nothing = k.setp_f32(Eq, state.max, f32::NEG_INFINITY);
        let max = match softmax.exponent {
            Exponent::Plain => state.max,
            Exponent::Folded { .. } => {
                let scale = context.inputs.f32(k, Parameter::Scale);
                let score = k.mul_f32(state.max, scale);
                k.selp_f32(f32::NEG_INFINITY, score, nothing)
            }
        };
        let row_results = row_of(results, r);
        let lanes = finish_row(k, context, row, [*used, nothing], [max, sum], &row_results);
        let lanes = k.shl_b32(lanes, r as u32);
        broken = Some(match broken {
            None => lanes,
            Some(others) => k.or_b32(others, lanes),
        });
    }
    let class = context.class;
    if class.access == Access::Vectors && class.out != Element::F32 {
        store_through_shared(k, context, tile_rows, first_row, results);
    } else {
        store_fragments(k, context, rows, results);
    }
    let broken = broken.expect("a thread has rows");
    let any = k.setp_u32(Ne, broken, 0);
    k.if_(any, |k| {
        // What is written again is written after the first time.
        k.bar_warp_sync();
        let part = class
            .split
            .then(|| [keys.begin, keys.end].map(|tile| k.mul_lo_u32(tile, class.tile.keys)));
        let store = |k: &mut KernelBuilder, row: &_, _, column, value| {
            context.store_out(k, row, column, value);
        };
        Repair { context, tile_rows, part, store: &store }.rows(k, first_row, broken);
    });
}

/// From a thread's fragments, element by element or in pairs.
fn store_fragments(
    k: &mut KernelBuilder,
    context: &Context<'_>,
    rows: &[ThreadRow],
    results: &Fragments,
) {
    let class = context.class;
    let column = context.column(k, Tensor::Out);
    for (r, ThreadRow { row, .. }) in rows.iter().enumerate() {
        let stored = context.is_stored(k, row);
        let place = context.row_address(k, Tensor::Out, context.sequence.start_q, row);
        for (n, values) in row_of(results, r).chunks(2).enumerate() {
            let first = k.add_u32(context.thread.column, 8 * n as u32);
            match column {
                None => {
                    let inside = inside(k, first, class.head_dim_v, stored);
                    let place = k.mad_wide_u32(first, 4, place);
                    k.when(inside, |k| k.st_vector(place, [values[0], values[1]]));
                }
                Some(column) => {
                    for (odd, value) in (0..).zip(values) {
                        let index = k.add_u32(first, odd);
                        let inside = inside(k, index, class.head_dim_v, stored);
                        let index = k.cvt_u64_u32(index);
                        let place = k.mad_lo_u64(index, column, place);
                        k.if_(inside, |k| class.out.store(k, place, *value));
                    }
                }
            }
        }
    }
}

fn inside(k: &mut KernelBuilder, column: B32, columns: u32, stored: Pred) -> Pred {
    k.setp_u32_with(Lt, column, columns, Connective::And, stored)
}

/// By way of the tile of q, whose rows of this warp nobody else reads, so that rows are written 16
/// bytes at once.
fn store_through_shared(
    k: &mut KernelBuilder,
    context: &Context<'_>,
    tile_rows: &TileRows,
    first_row: B32,
    results: &Fragments,
) {
    let class = context.class;
    let pitch = pitch(class.element, class.head_dim).max(pitch(class.element, class.head_dim_v));
    let tile = k.mad_lo_u32(first_row, pitch, context.tiles[0]);
    let mine = k.mad_lo_u32(context.thread.row, pitch, tile);
    let mine = k.mad_lo_u32(context.thread.column, 2, mine);
    k.bar_warp_sync();
    for r in 0..2 * results.len() {
        for (n, values) in row_of(results, r).chunks(2).enumerate() {
            let pair = class.out.pack(k, values[0], values[1]);
            k.st((mine, 8 * r as u32 * pitch + 16 * n as u32), pair);
        }
    }
    k.bar_warp_sync();
    let chunks = class.head_dim_v / 8;
    // A fragment's 16 rows in one pass or more.
    let lanes = chunks.next_power_of_two().clamp(2, 32);
    let at_once = 32 / lanes;
    let row = k.shr_u32(context.thread.lane, lanes.ilog2());
    let chunk = k.and_b32(context.thread.lane, lanes - 1);
    let real = k.setp_u32(Lt, chunk, chunks);
    let from = k.mad_lo_u32(row, pitch, tile);
    let from = k.mad_lo_u32(chunk, 16, from);
    let row = k.add_u32(row, first_row);
    for pass in 0..16 * results.len() as u32 / at_once {
        let index = k.add_u32(row, pass * at_once);
        let row = tile_rows.row(k, index);
        let stored = context.is_stored(k, &row);
        let stored = k.and_pred(stored, real);
        let place = context.row_address(k, Tensor::Out, context.sequence.start_q, &row);
        let place = k.mad_wide_u32(chunk, 16, place);
        k.if_(stored, |k| {
            let values: [B32; 4] = k.ld_vector((from, pass * at_once * pitch));
            k.st_vector(place, values);
        });
    }
}
