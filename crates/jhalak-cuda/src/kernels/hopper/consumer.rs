//! A consumer: a warpgroup that takes 64 rows of a tile through their keys, last block first
//! (Shah et al., 2024, "FlashAttention-3").
//!
//! ```text
//! block j:   begin Q·Kⱼ ─ begin O += Pⱼ₊₁·Vⱼ₊₁ ─ wait for the first ─ softmax of block j, in whose
//!            middle the second is waited for
//! ```
//!
//! Blocks that need a mask come at the ends; those between have a loop of their own without one.

use jhalak_ptx::Comparison::{Eq, Gt, Lt};
use jhalak_ptx::{B32, F32, KernelBuilder, Pred};

use super::super::context::Context;
use super::super::parameters::Parameter;
use super::super::row::Row;
use super::super::scores::{RowScores, Scores};
use super::super::sequence::Block;
use super::super::thread::Thread;
use super::super::visible::{Visible, alignment};
use super::class::HopperSoftmax;
use super::epilogue;
use super::forward::Kernel;
use super::mask;
use super::memory::tile_bytes;
use super::order::Turns;
use super::products::Products;
use super::ring::{Position, Ring};
use super::softmax::{Softmax, row_of};
use super::work::Work;

/// A warpgroup and its registers.
pub(super) struct Consumer<'c> {
    pub(super) kernel: &'c Kernel<'c>,
    /// Its number, from 0.
    pub(super) index: B32,
    /// In the warpgroup.
    pub(super) thread: Thread,
    /// One lane of each warp.
    pub(super) leader: Pred,
    products: Products,
    pub(super) softmax: Softmax,
    pub(super) results: Vec<F32>,
    turns: Turns,
    pub(super) q_at: Position,
    k_at: Position,
    v_at: Position,
}

/// A tile of rows, as a thread sees it.
pub(super) struct Tile<'t> {
    pub(super) context: Context<'t>,
    /// The tile's first query.
    pub(super) first: B32,
    pub(super) rows: [TileRow; 2],
}

/// One of a thread's rows.
pub(super) struct TileRow {
    pub(super) row: Row,
    /// Whether the sequence uses it.
    pub(super) used: Pred,
    scores: RowScores,
}

/// Takes all tiles of the block through their keys, as warpgroup `index`.
pub(super) fn write(k: &mut KernelBuilder, kernel: &Kernel<'_>, thread: Thread, index: B32) {
    let class = kernel.class;
    let consumer = Consumer {
        kernel,
        index,
        thread,
        leader: k.setp_u32(Eq, thread.lane, 0),
        products: Products::new(k, kernel, index),
        softmax: Softmax::new(k, class, &kernel.inputs),
        results: k.fragment((class.attention.head_dim_v / 2) as usize),
        turns: Turns::new(k, class.tuning.order, index, class.consumers()),
        q_at: Ring::consumer(k),
        k_at: Ring::consumer(k),
        v_at: Ring::consumer(k),
    };
    let memory = &kernel.memory;
    k.loop_(|k, this| {
        memory.q_ring.wait_full(k, consumer.q_at);
        let record = k.mad_lo_u32(consumer.q_at.tile, Work::BYTES, memory.work);
        let more = Work::is_there(k, record);
        k.break_if(this, !more);
        let work = Work::read(k, record);
        consumer.tile(k, &work);
        memory.q_ring.advance(k, consumer.q_at);
    });
    consumer.turns.end(k);
}

impl Consumer<'_> {
    fn tile(&self, k: &mut KernelBuilder, work: &Work) {
        let tile = self.tile_of(k, work);
        self.softmax.begin(k);
        for &result in &self.results {
            k.mov_f32_to(result, 0.0);
        }
        let any = k.setp_u32(Lt, work.begin, work.end);
        k.if_(any, |k| self.keys(k, work, &tile));
        let [_, _, q_bytes] = tile_bytes(self.kernel.class);
        let slot = k.mad_lo_u32(self.q_at.tile, q_bytes, self.kernel.memory.q);
        epilogue::write(k, self, &tile, slot);
    }

    /// What is needed of a tile.
    fn tile_of(&self, k: &mut KernelBuilder, work: &Work) -> Tile<'_> {
        let (class, inputs, memory) =
            (&self.kernel.class.attention, &self.kernel.inputs, &self.kernel.memory);
        let Work { first, head, batch, sequence, .. } = *work;
        let group = inputs.u32(k, Parameter::Group);
        let head_k = k.div_u32(head, group);
        let block = Block { batch, tile: first, head, head_k, group, part: None };
        let alignment = alignment(k, inputs, &sequence);
        let visible = Visible::new(k, class.bounds, inputs, &sequence, None);
        let scores = Scores::new(k, class.scores, inputs, batch, alignment);
        let row = k.mad_lo_u32(self.thread.warp, 16, self.thread.row);
        let row = k.mad_lo_u32(self.index, 64, row);
        let row = k.add_u32(row, first);
        let rows = [0, 8].map(|more| {
            let row = Row { i: k.add_u32(row, more), head };
            let used = k.setp_u32(Lt, row.i, sequence.used_q);
            TileRow { row, used, scores: scores.row(k, inputs, &row, used) }
        });
        let context = Context {
            class,
            inputs: inputs.clone(),
            thread: self.thread,
            block,
            sequence,
            visible,
            scores,
            dropout: None,
            tiles: [memory.q, memory.k, memory.v],
            shift: None,
        };
        Tile { context, first, rows }
    }

    /// All blocks of keys of a tile.
    fn keys(&self, k: &mut KernelBuilder, work: &Work, tile: &Tile<'_>) {
        let (class, memory) = (&self.kernel.class.attention, &self.kernel.memory);
        let Softmax { scores, weights, .. } = &self.softmax;
        let block = k.sub_u32(work.end, 1);
        memory.k_ring.wait_full(k, self.k_at);
        self.products.scores(k, scores, self.q_at.tile, self.k_at.tile);
        k.wgmma_wait_group(0);
        self.done_with_keys(k);
        self.finish_scores(k, tile, block);
        if class.hides() {
            self.hide(k, tile, block);
        } else {
            let end = k.mul_lo_u32(work.end, class.tile.keys);
            let ragged = k.setp_u32(Gt, end, tile.context.sequence.used_k);
            k.if_(ragged, |k| self.hide(k, tile, block));
        }
        self.softmax.first(k);
        self.turns.begin(k);
        if class.bounds.upper {
            self.blocks(k, tile, block, work.whole[1], true);
        }
        self.blocks(k, tile, block, work.whole[0], false);
        if class.bounds.lower {
            self.blocks(k, tile, block, work.begin, true);
        }
        memory.v_ring.wait_full(k, self.v_at);
        self.products.values(k, &self.results, weights, self.v_at.tile);
        k.wgmma_wait_group(0);
        self.done_with_values(k);
    }

    /// The blocks before `block`, to `to`.
    fn blocks(&self, k: &mut KernelBuilder, tile: &Tile<'_>, block: B32, to: B32, masked: bool) {
        let more = k.setp_u32(Gt, block, to);
        k.if_(more, |k| {
            k.do_while(|k| {
                k.sub_u32_to(block, block, 1);
                self.block(k, tile, block, masked);
                k.setp_u32(Gt, block, to)
            });
        });
    }

    fn block(&self, k: &mut KernelBuilder, tile: &Tile<'_>, block: B32, masked: bool) {
        let memory = &self.kernel.memory;
        let Softmax { scores, weights, .. } = &self.softmax;
        memory.k_ring.wait_full(k, self.k_at);
        self.turns.wait(k);
        self.products.scores(k, scores, self.q_at.tile, self.k_at.tile);
        memory.v_ring.wait_full(k, self.v_at);
        self.products.values(k, &self.results, weights, self.v_at.tile);
        self.turns.pass(k);
        k.wgmma_wait_group(1);
        self.done_with_keys(k);
        self.finish_scores(k, tile, block);
        let finish = |k: &mut KernelBuilder| {
            k.wgmma_wait_group(0);
            self.done_with_values(k);
        };
        if masked {
            self.hide(k, tile, block);
        }
        if masked || self.kernel.class.tuning.softmax == HopperSoftmax::Followed {
            self.softmax.followed(k, &self.results, finish);
        } else {
            self.softmax.assumed(k, &self.results, finish);
        }
    }

    fn done_with_keys(&self, k: &mut KernelBuilder) {
        self.kernel.memory.k_ring.release(k, self.k_at, self.leader);
        self.kernel.memory.k_ring.advance(k, self.k_at);
    }

    fn done_with_values(&self, k: &mut KernelBuilder) {
        self.kernel.memory.v_ring.release(k, self.v_at, self.leader);
        self.kernel.memory.v_ring.advance(k, self.v_at);
    }

    /// The first key of a block that the thread holds.
    fn first_key(&self, k: &mut KernelBuilder, block: B32) -> B32 {
        k.mad_lo_u32(block, self.kernel.class.attention.tile.keys, self.thread.column)
    }

    /// Makes products scores, apart from a folded scale and from visibility.
    fn finish_scores(&self, k: &mut KernelBuilder, tile: &Tile<'_>, block: B32) {
        let context = &tile.context;
        if context.scores.is_plain() {
            return;
        }
        let key = self.first_key(k, block);
        for (n, &score) in self.softmax.scores.iter().enumerate() {
            let j = k.add_u32(key, mask::key_of(n));
            let row = &tile.rows[row_of(n)].scores;
            let result = context.scores.score(k, row, score, j, context.sequence.used_k);
            k.mov_f32_to(score, result);
        }
    }

    fn hide(&self, k: &mut KernelBuilder, tile: &Tile<'_>, block: B32) {
        let key = self.first_key(k, block);
        let rows = [0, 1].map(|row| tile.rows[row].row.i);
        mask::hide(k, &tile.context, rows, key, &self.softmax.scores);
    }
}
