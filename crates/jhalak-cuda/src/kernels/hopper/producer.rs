//! The producer: one warp that decides what comes next and has it copied to shared memory.
//!
//! ```text
//! a tile:   K of the last block ─ Q, with the work record ─ K one block ahead of V, to the first
//! ```
//!
//! Next tile's copies begin as soon as there is room, while this one is still computed.

use jhalak_ptx::Comparison::{Eq, Gt, Lt};
use jhalak_ptx::{AsyncMemory, B32, B64, Connective, KernelBuilder, Pred};

use super::super::parameters::{Parameter, Tensor};
use super::super::visible::Visible;
use super::forward::Kernel;
use super::memory::{PANEL, ROW_BYTES, tile_bytes};
use super::ring::{Position, Ring};
use super::schedule::{self, RowTile};
use super::work::Work;

const WARP: u32 = 32;
/// Bytes that a lane clears at once.
const CHUNK: u32 = 16;

/// The warp's state.
struct Producer<'c> {
    kernel: &'c Kernel<'c>,
    lane: B32,
    leader: Pred,
    q: Stream,
    k: Stream,
    v: Stream,
    /// Of the barrier at which uncleared tiles arrive.
    parity: B32,
}

/// One of the tensors that are copied.
#[derive(Clone, Copy)]
struct Stream {
    map: B64,
    tiles: B32,
    tile_bytes: u32,
    panels: u32,
    panel_bytes: u32,
    ring: Ring,
    at: Position,
}

/// Copies everything that the block needs, tile after tile.
pub(super) fn write(k: &mut KernelBuilder, kernel: &Kernel<'_>, lane: B32) {
    let (class, memory) = (&kernel.class.attention, &kernel.memory);
    let [k_bytes, v_bytes, q_bytes] = tile_bytes(kernel.class);
    let mut stream = |tensor, tiles, tile_bytes, columns: u32, rows: u32, ring| {
        let map = kernel.inputs.map(k, tensor);
        k.prefetch_tensor_map(map);
        let (panels, panel_bytes) = (columns.div_ceil(PANEL), rows * ROW_BYTES);
        Stream { map, tiles, tile_bytes, panels, panel_bytes, ring, at: Ring::producer(k) }
    };
    let tile = class.tile;
    let (q, keys, v) = (
        stream(Tensor::Q, memory.q, q_bytes, class.head_dim, tile.rows, memory.q_ring),
        stream(Tensor::K, memory.k, k_bytes, class.head_dim, tile.keys, memory.k_ring),
        stream(Tensor::V, memory.v, v_bytes, class.head_dim_v, tile.keys, memory.v_ring),
    );
    let leader = k.setp_u32(Eq, lane, 0);
    let producer = Producer { kernel, lane, leader, q, k: keys, v, parity: k.mov_b32(0) };
    schedule::for_each(k, kernel, |k, tile| producer.tile(k, tile));
    producer.end(k);
}

impl Producer<'_> {
    fn tile(&self, k: &mut KernelBuilder, tile: &RowTile) {
        let work = self.work(k, tile);
        let group = self.kernel.inputs.u32(k, Parameter::Group);
        let head_k = k.div_u32(work.head, group);
        let any = k.setp_u32(Lt, work.begin, work.end);
        let block = k.sub_u32(work.end, 1);
        k.if_(any, |k| self.load_keys(k, &work, head_k, block));
        self.load_queries(k, &work, any);
        k.if_(any, |k| {
            k.loop_(|k, this| {
                let more = k.setp_u32(Gt, block, work.begin);
                k.if_(more, |k| {
                    let next = k.sub_u32(block, 1);
                    self.load_keys(k, &work, head_k, next);
                });
                self.load_values(k, &work, head_k, block);
                k.break_if(this, !more);
                k.sub_u32_to(block, block, 1);
            });
        });
    }

    /// Which blocks of keys a tile's rows see.
    fn work(&self, k: &mut KernelBuilder, tile: &RowTile) -> Work {
        let class = &self.kernel.class.attention;
        let RowTile { first, head, batch, sequence } = *tile;
        let (rows, keys) = (class.tile.rows, class.tile.keys);
        let visible = Visible::new(k, class.bounds, &self.kernel.inputs, &sequence, None);
        let last = k.add_u32(first, rows - 1);
        let most = k.sub_u32(sequence.used_q, 1);
        let last = k.min_s32(last, most);
        let (seen_from, seen_to) = (visible.first(k, first), visible.end(k, last));
        let any = k.setp_s32(Lt, seen_from, seen_to);
        let any = k.setp_u32_with(Lt, first, sequence.used_q, Connective::And, any);
        let begin = k.div_u32(seen_from, keys);
        let end = k.add_u32(seen_to, keys - 1);
        let end = k.div_u32(end, keys);
        let end = k.selp_b32(end, begin, any);
        // Every row sees the keys from here to there.
        let (all_from, all_to) = (visible.first(k, last), visible.end(k, first));
        let to = k.max_s32(all_to, 1);
        let to = k.sub_u32(to, 1);
        let to = k.div_u32(to, keys);
        let to = k.min_u32(to, end);
        let to = k.max_u32(to, begin);
        let from = k.add_u32(all_from, keys - 1);
        let from = k.div_u32(from, keys);
        let from = k.max_u32(from, begin);
        let from = k.min_u32(from, to);
        Work { first, head, batch, begin, end, whole: [from, to], sequence }
    }

    fn load_queries(&self, k: &mut KernelBuilder, work: &Work, any: Pred) {
        let Stream { ring, at, .. } = self.q;
        ring.wait_empty(k, at);
        let record = k.mad_lo_u32(at.tile, Work::BYTES, self.kernel.memory.work);
        let full = ring.full(k, at);
        k.if_(self.leader, |k| {
            work.write(k, record);
            k.if_else(
                any,
                |k| {
                    let row = k.add_u32(work.sequence.start_q, work.first);
                    self.q.load(k, [row, work.head, work.sequence.storage], full);
                },
                |k| k.mbarrier_arrive(full),
            );
        });
        ring.advance(k, at);
    }

    fn load_keys(&self, k: &mut KernelBuilder, work: &Work, head: B32, block: B32) {
        let Stream { ring, at, .. } = self.k;
        ring.wait_empty(k, at);
        let full = ring.full(k, at);
        let row = k.mad_lo_u32(block, self.kernel.class.attention.tile.keys, work.sequence.start_k);
        k.if_(self.leader, |k| self.k.load(k, [row, head, work.sequence.storage], full));
        ring.advance(k, at);
    }

    /// Where the last block has rows of somebody else, or of nobody, they are cleared: their weights
    /// are 0, but 0 · NaN is NaN.
    fn load_values(&self, k: &mut KernelBuilder, work: &Work, head: B32, block: B32) {
        let Stream { ring, at, .. } = self.v;
        let keys = self.kernel.class.attention.tile.keys;
        ring.wait_empty(k, at);
        let full = ring.full(k, at);
        let first = k.mul_lo_u32(block, keys);
        let row = k.add_u32(first, work.sequence.start_k);
        let place = [row, head, work.sequence.storage];
        if self.kernel.class.clears() {
            let used = k.sub_u32(work.sequence.used_k, first);
            let ragged = k.setp_u32(Lt, used, keys);
            let barrier = k.selp_b32(self.kernel.memory.uncleared, full, ragged);
            k.if_(self.leader, |k| self.v.load(k, place, barrier));
            k.if_(ragged, |k| {
                k.mbarrier_wait(self.kernel.memory.uncleared, self.parity);
                k.xor_b32_to(self.parity, self.parity, 1);
                self.clear(k, used);
                k.when(self.leader, |k| k.mbarrier_arrive(full));
            });
        } else {
            k.if_(self.leader, |k| self.v.load(k, place, full));
        }
        ring.advance(k, at);
    }

    /// Clears the rows of a tile of V from this one on.
    fn clear(&self, k: &mut KernelBuilder, from: B32) {
        let zero = k.mov_b32(0);
        let tile = k.mad_lo_u32(self.v.at.tile, self.v.tile_bytes, self.v.tiles);
        let offset = k.mul_lo_u32(from, ROW_BYTES);
        let offset = k.mad_lo_u32(self.lane, CHUNK, offset);
        k.while_(
            |k| k.setp_u32(Lt, offset, self.v.panel_bytes),
            |k| {
                let place = k.add_u32(tile, offset);
                for panel in 0..self.v.panels {
                    k.st_vector((place, panel * self.v.panel_bytes), [zero; 4]);
                }
                k.add_u32_to(offset, offset, WARP * CHUNK);
            },
        );
        k.fence_proxy_async(AsyncMemory::Shared);
        k.bar_warp_sync();
    }

    /// Tells the other warps that there is no more work.
    fn end(&self, k: &mut KernelBuilder) {
        let Stream { ring, at, .. } = self.q;
        ring.wait_empty(k, at);
        let record = k.mad_lo_u32(at.tile, Work::BYTES, self.kernel.memory.work);
        let full = ring.full(k, at);
        k.if_(self.leader, |k| {
            Work::write_end(k, record);
            k.mbarrier_arrive(full);
        });
    }
}

impl Stream {
    /// Begins to copy a tile of these rows, head and sequence. For one thread.
    fn load(&self, k: &mut KernelBuilder, [row, head, storage]: [B32; 3], barrier: B32) {
        k.mbarrier_arrive_expect_tx(barrier, self.panels * self.panel_bytes);
        let tile = k.mad_lo_u32(self.at.tile, self.tile_bytes, self.tiles);
        for panel in 0..self.panels {
            let place = [(panel * PANEL).into(), row.into(), head.into(), storage.into()];
            k.tensor_load((tile, panel * self.panel_bytes), self.map, &place, barrier, None);
        }
    }
}
