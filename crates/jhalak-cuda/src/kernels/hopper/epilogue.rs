//! The end of a tile's rows: division, lse, and the results' way out.

use jhalak_ptx::Comparison::{Eq, Ne};
use jhalak_ptx::{AsyncMemory, B32, F32, KernelBuilder};

use super::super::finish::finish_row;
use super::super::parameters::Tensor;
use super::super::repair::Repair;
use super::super::row::TileRows;
use super::super::softmax::over_quad;
use super::class::Leave;
use super::consumer::{Consumer, Tile};
use super::memory::{PANEL, ROW_BYTES};
use super::order::{GROUP, READY, READY_THREADS};
use super::softmax::row_of;
use super::store;

const LN_2: f32 = std::f32::consts::LN_2;
/// Columns that one stmatrix stores, and a thread's registers of them.
const COLUMNS: usize = 16;
const REGISTERS: usize = 8;

/// Writes lse, and out or, to a slot of Q, what becomes out.
pub(super) fn write(k: &mut KernelBuilder, consumer: &Consumer<'_>, tile: &Tile<'_>, slot: B32) {
    let (context, results) = (&tile.context, &consumer.results);
    let mut broken = k.mov_b32(0);
    for (n, row) in tile.rows.iter().enumerate() {
        let state = consumer.softmax.rows[n];
        let sum = over_quad(k, state.sum, |k, a, b| k.add_f32(a, b));
        let max = k.mul_f32(state.reference, LN_2);
        let nothing = k.setp_f32(Eq, max, f32::NEG_INFINITY);
        let mine: Vec<F32> = row_results(results, n);
        let lanes = finish_row(k, context, &row.row, [row.used, nothing], [max, sum], &mine);
        let lanes = k.shl_b32(lanes, n as u32);
        broken = k.or_b32(broken, lanes);
    }
    let leave = consumer.kernel.class.leave();
    if leave == Leave::Floats {
        store_floats(k, tile, results);
    } else {
        // All warps have read their rows of Q.
        let group = k.add_u32(consumer.index, GROUP);
        k.bar_sync(group, 128);
        to_slot(k, consumer, slot);
    }
    repair(k, consumer, tile, slot, broken);
    if leave == Leave::Floats {
        // All lanes have read the record of the tile.
        k.bar_warp_sync();
        consumer.kernel.memory.q_ring.release(k, consumer.q_at, consumer.leader);
    } else {
        k.fence_proxy_async(AsyncMemory::Shared);
        let ready = k.add_u32(consumer.index, READY);
        k.bar_arrive(ready, READY_THREADS);
    }
}

/// The registers of a thread's row.
fn row_results(results: &[F32], row: usize) -> Vec<F32> {
    let of_row = |(n, &result)| (row_of(n) == row).then_some(result);
    results.iter().enumerate().filter_map(of_row).collect()
}

/// Rows that are not finite, once more; bits as [`Repair::rows`] takes them.
fn repair(k: &mut KernelBuilder, consumer: &Consumer<'_>, tile: &Tile<'_>, slot: B32, broken: B32) {
    let context = &tile.context;
    let any = k.setp_u32(Ne, broken, 0);
    k.if_(any, |k| {
        // What is written again is written after the first time.
        k.bar_warp_sync();
        let first_row = k.mul_lo_u32(consumer.thread.warp, 16);
        let first_row = k.mad_lo_u32(consumer.index, 64, first_row);
        let tile_rows = TileRows { first: tile.first, head: context.block.head, group: None };
        let floats = consumer.kernel.class.leave() == Leave::Floats;
        let store = |k: &mut KernelBuilder, row: &_, index, column, value| {
            if floats {
                context.store_out(k, row, column, value);
            } else {
                store::store_element(k, context, slot, index, column, value);
            }
        };
        let repair = Repair { context, tile_rows: &tile_rows, part: None, store: &store };
        repair.rows(k, first_row, broken);
    });
}

/// Rounds results and puts them into the slot, swizzled as the copy engine reads it.
fn to_slot(k: &mut KernelBuilder, consumer: &Consumer<'_>, slot: B32) {
    let class = &consumer.kernel.class.attention;
    let place = swizzled_place(k, consumer, slot);
    for (step, values) in consumer.results.chunks(REGISTERS).enumerate() {
        let column = (step * COLUMNS) as u32;
        let (panel, within) = (column / PANEL, column % PANEL);
        let place = k.xor_b32(place, within * 2);
        let place = (place, panel * class.tile.rows * ROW_BYTES);
        let pack =
            |k: &mut KernelBuilder, n: usize| class.out.pack(k, values[2 * n], values[2 * n + 1]);
        if values.len() == REGISTERS {
            let values: [B32; 4] = std::array::from_fn(|n| pack(k, n));
            k.stmatrix(place, values);
        } else {
            let values: [B32; 2] = std::array::from_fn(|n| pack(k, n));
            k.stmatrix(place, values);
        }
    }
}

/// Where in a panel of the slot this lane's row of 16 × 16 elements begins: lanes 0 to 15 name the
/// rows' first 16 bytes, the others the next. 16 further columns are at `place ^ 32`, and so on.
fn swizzled_place(k: &mut KernelBuilder, consumer: &Consumer<'_>, slot: B32) -> B32 {
    let lane = consumer.thread.lane;
    let row = k.and_b32(lane, 15);
    let in_pattern = k.and_b32(lane, 7);
    let chunk = k.shr_u32(lane, 4);
    let chunk = k.xor_b32(chunk, in_pattern);
    let row = k.mad_lo_u32(consumer.thread.warp, 16, row);
    let row = k.mad_lo_u32(consumer.index, 64, row);
    let place = k.mad_lo_u32(row, ROW_BYTES, slot);
    k.mad_lo_u32(chunk, 16, place)
}

fn store_floats(k: &mut KernelBuilder, tile: &Tile<'_>, results: &[F32]) {
    let context = &tile.context;
    for (n, row) in tile.rows.iter().enumerate() {
        let stored = context.is_stored(k, &row.row);
        let place = context.row_address(k, Tensor::Out, context.sequence.start_q, &row.row);
        let place = k.mad_wide_u32(context.thread.column, 4, place);
        for (step, pair) in (0..).zip(row_results(results, n).chunks_exact(2)) {
            let values = [pair[0], pair[1]];
            k.when(stored, |k| k.st_vector((place, step * 32u32), values));
        }
    }
}
