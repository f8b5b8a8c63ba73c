//! The warps that copy results from shared memory to out, one for each warpgroup of consumers. The
//! slot of Q in which they lie is empty when they have been read.

use jhalak_ptx::Comparison::{Eq, Lt};
use jhalak_ptx::{B32, Connective, KernelBuilder, Pred};

use super::super::context::Context;
use super::super::parameters::Tensor;
use super::super::row::Row;
use super::class::Leave;
use super::forward::Kernel;
use super::memory::{PANEL, ROW_BYTES, tile_bytes};
use super::ring::Ring;
use super::work::Work;

/// Rows of a warpgroup.
const ROWS: u32 = 64;
const WARP: u32 = 32;
/// 16-bit elements of 16 bytes.
const CHUNK: u32 = 8;
/// Loads that are under way at once.
const AT_ONCE: u32 = 4;

/// Copies the results of warpgroup `index`.
pub(super) fn write(k: &mut KernelBuilder, kernel: &Kernel<'_>, lane: B32, index: B32) {
    let (class, memory) = (kernel.class, &kernel.memory);
    let ring = memory.q_ring;
    let at = Ring::consumer(k);
    let leader = k.setp_u32(Eq, lane, 0);
    let ready = k.add_u32(index, super::order::READY);
    let [_, _, q_bytes] = tile_bytes(class);
    k.loop_(|k, this| {
        ring.wait_full(k, at);
        let record = k.mad_lo_u32(at.tile, Work::BYTES, memory.work);
        let more = Work::is_there(k, record);
        k.break_if(this, !more);
        let work = Work::read(k, record);
        k.bar_sync(ready, super::order::READY_THREADS);
        let slot = k.mad_lo_u32(at.tile, q_bytes, memory.q);
        let mine = k.mad_lo_u32(index, ROWS * ROW_BYTES, slot);
        let first = k.mad_lo_u32(index, ROWS, work.first);
        match class.leave() {
            Leave::Copied => copy(k, kernel, leader, &work, first, mine),
            _ => copy_rows(k, kernel, lane, &work, first, mine),
        }
        ring.release(k, at, leader);
        ring.advance(k, at);
    });
    if class.leave() == Leave::Copied {
        k.when(leader, |k| k.bulk_wait_group(0));
    }
}

/// By the copy engine, which leaves out what lies after the tensor.
fn copy(
    k: &mut KernelBuilder,
    kernel: &Kernel<'_>,
    leader: Pred,
    work: &Work,
    first: B32,
    from: B32,
) {
    let class = &kernel.class.attention;
    let map = kernel.inputs.map(k, Tensor::Out);
    k.if_(leader, |k| {
        for panel in 0..class.head_dim_v.div_ceil(PANEL) {
            let column = panel * PANEL;
            let place =
                [column.into(), first.into(), work.head.into(), work.sequence.storage.into()];
            k.tensor_store(map, &place, (from, panel * class.tile.rows * ROW_BYTES), None);
        }
        k.bulk_commit_group();
        k.bulk_wait_group_read(0);
    });
}

/// Row by row, 16 bytes at once.
fn copy_rows(
    k: &mut KernelBuilder,
    kernel: &Kernel<'_>,
    lane: B32,
    work: &Work,
    first: B32,
    from: B32,
) {
    let class = &kernel.class.attention;
    let chunks = class.head_dim_v / CHUNK;
    let all = ROWS * chunks;
    let begin = k.mov_b32(lane);
    k.do_while(|k| {
        let copies: Vec<_> = (0..AT_ONCE)
            .map(|n| {
                let index = k.add_u32(begin, n * WARP);
                let row = k.div_u32(index, chunks);
                let before = k.mul_lo_u32(row, chunks);
                let chunk = k.sub_u32(index, before);
                let i = k.add_u32(first, row);
                let stored = k.setp_u32(Lt, i, work.sequence.rows_q);
                let stored = k.setp_u32_with(Lt, index, all, Connective::And, stored);
                let place = chunk_place(k, class.tile.rows, from, row, chunk);
                let row = Row { i, head: work.head };
                let (inputs, start) = (&kernel.inputs, work.sequence.start_q);
                let to = work.sequence.row_address(k, inputs, Tensor::Out, start, &row);
                let to = k.mad_wide_u32(chunk, 16, to);
                let values: [B32; 4] = k.registers();
                k.when(stored, |k| {
                    k.ld_with(values, place, jhalak_ptx::Access::new(jhalak_ptx::Order::Weak));
                });
                (stored, to, values)
            })
            .collect();
        for (stored, to, values) in copies {
            k.when(stored, |k| k.st_vector(to, values));
        }
        k.add_u32_to(begin, begin, AT_ONCE * WARP);
        k.setp_u32(Lt, begin, all)
    });
    k.bar_warp_sync();
}

/// Where 16 bytes of a row are in the panels of a tile of so many rows.
fn chunk_place(k: &mut KernelBuilder, rows: u32, tile: B32, row: B32, chunk: B32) -> B32 {
    let panel = k.shr_u32(chunk, 3);
    let place = k.mad_lo_u32(panel, rows * ROW_BYTES, tile);
    let place = k.mad_lo_u32(row, ROW_BYTES, place);
    let chunk = k.and_b32(chunk, 7);
    let in_pattern = k.and_b32(row, 7);
    let chunk = k.xor_b32(chunk, in_pattern);
    k.mad_lo_u32(chunk, 16, place)
}

/// Stores a 16-bit element of a row of results in the slot of Q.
pub(super) fn store_element(
    k: &mut KernelBuilder,
    context: &Context<'_>,
    slot: B32,
    row: B32,
    column: B32,
    value: jhalak_ptx::F32,
) {
    let chunk = k.shr_u32(column, 3);
    let place = chunk_place(k, context.class.tile.rows, slot, row, chunk);
    let within = k.and_b32(column, 7);
    let place = k.mad_lo_u32(within, 2, place);
    context.class.out.store(k, place, value);
}
