//! The warps that copy results from shared memory to out, one for each warpgroup of consumers. What
//! comes next to their place waits until they have been read.

use jhalak_ptx::Comparison::{Eq, Lt};
use jhalak_ptx::{B32, Connective, KernelBuilder, Pred};

use super::super::context::Context;
use super::super::parameters::Tensor;
use super::super::row::Row;
use super::class::Leave;
use super::forward::Kernel;
use super::memory::PANEL;
use super::ring::Ring;
use super::slot::{ROWS, Slot};
use super::work::Work;

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
    k.loop_(|k, this| {
        ring.wait_full(k, at);
        let record = k.mad_lo_u32(at.tile, Work::BYTES, memory.work);
        let more = Work::is_there(k, record);
        k.break_if(this, !more);
        let work = Work::read(k, record);
        let in_values = class.stages_in_values();
        if in_values {
            k.bar_warp_sync();
            ring.release(k, at, leader);
        }
        k.bar_sync(ready, super::order::READY_THREADS);
        let slot = if in_values {
            let place = k.mad_lo_u32(index, 4, memory.slots);
            Slot::of_values(k.ld(place))
        } else {
            Slot::of_queries(k, kernel, at, index)
        };
        let first = k.mad_lo_u32(index, ROWS, work.first);
        match class.leave() {
            Leave::Copied => copy(k, kernel, leader, &work, first, slot),
            _ => copy_rows(k, kernel, lane, &work, first, slot),
        }
        // All lanes have read what they need of shared memory.
        k.bar_warp_sync();
        if in_values {
            k.when(leader, |k| k.mbarrier_arrive(memory.left));
        } else {
            ring.release(k, at, leader);
        }
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
    slot: Slot,
) {
    let class = &kernel.class.attention;
    let map = kernel.inputs.map(k, Tensor::Out);
    k.if_(leader, |k| {
        for panel in 0..class.head_dim_v.div_ceil(PANEL) {
            let column = panel * PANEL;
            let place =
                [column.into(), first.into(), work.head.into(), work.sequence.storage.into()];
            k.tensor_store(map, &place, (slot.rows, panel * slot.panel_bytes), None);
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
    slot: Slot,
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
                let place = slot.chunk(k, row, chunk);
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
}

/// Stores a 16-bit element of a row of the tile in the slot of its warpgroup.
pub(super) fn store_element(
    k: &mut KernelBuilder,
    context: &Context<'_>,
    slot: Slot,
    row: B32,
    column: B32,
    value: jhalak_ptx::F32,
) {
    let chunk = k.shr_u32(column, 3);
    let row = k.and_b32(row, ROWS - 1);
    let place = slot.chunk(k, row, chunk);
    let within = k.and_b32(column, 7);
    let place = k.mad_lo_u32(within, 2, place);
    context.class.out.store(k, place, value);
}
