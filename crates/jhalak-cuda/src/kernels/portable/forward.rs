//! Attention, forward: one block takes a tile of query rows through all the keys they see
//! (Dao, 2023, "FlashAttention-2", algorithm 1).
//!
//! ```text
//! last tile of keys first:   wait for K ─ begin V ─ S = Q·Kᵀ ─ wait for V ─ begin the next K ─
//!                            scores and mask ─ softmax ─ O += P·V
//! ```

use jhalak_ptx::Comparison::{Gt, Lt};
use jhalak_ptx::{B32, B64, Connective, Error, KernelBuilder, Module, ModuleBuilder, Pred};

use super::super::class::ForwardClass;
use super::super::context::Context;
use super::super::dropout::{self, Dropout};
use super::super::parameters::{Axis, Inputs, Parameter, Tensor};
use super::super::row::{Row, TileRows};
use super::super::scores::{RowScores, Scores};
use super::super::sequence::{Block, Sequence};
use super::super::softmax::{Exponent, Fragments, Softmax, row_of, zeros};
use super::super::thread::Thread;
use super::super::visible::{Visible, alignment};
use super::any_products::AnyProducts;
use super::copy::{Source, TileCopy, pitch};
use super::epilogue;

/// The name of the kernel in its module.
pub const FORWARD: &str = "forward";

/// The module of a class.
///
/// # Errors
///
/// Whatever [`ModuleBuilder::build`] finds: sm_75 has no bf16.
pub fn forward(class: &ForwardClass) -> Result<Module, Error> {
    let mut module = ModuleBuilder::new(class.target);
    module.kernel(FORWARD, |k| write(k, class));
    module.build()
}

/// A thread's row of a fragment.
pub(crate) struct ThreadRow {
    pub(crate) row: Row,
    /// Whether the sequence uses it.
    pub(crate) used: Pred,
    scores: RowScores,
}

fn write(k: &mut KernelBuilder, class: &ForwardClass) {
    k.maxntid(class.tile.threads());
    let inputs = Inputs::declare(k, &class.parameters());
    let shared = k.dynamic_shared("tiles", shared_bytes(class), 16);
    let shared = k.shared_address(shared);
    let [q_bytes, k_bytes] = tile_bytes(class);
    let tiles = [0, q_bytes, q_bytes + k_bytes].map(|offset| k.add_u32(shared, offset));

    let thread = Thread::new(k);
    let block = Block::new(k, class, &inputs);
    let sequence = Sequence::new(k, class.lengths, &inputs, block.batch);
    let alignment = alignment(k, &inputs, &sequence);
    let dropout = class.dropout.then(|| Dropout::new(k, &inputs, block.batch, alignment));
    let shift = class.dropout.then(|| inputs.u32(k, Parameter::DropoutShift));
    let visible = Visible::new(k, class.bounds, &inputs, &sequence, shift);
    let scores = Scores::new(k, class.scores, &inputs, block.batch, alignment);
    let context =
        Context { class, inputs, thread, block, sequence, visible, scores, dropout, tiles, shift };
    if class.lengths.packed {
        // The grid is made for a hint of the longest sequence.
        let tiles = context.inputs.u32(k, Parameter::RowTiles);
        let tile = k.mov_b32(block.tile);
        k.while_(
            |k| {
                let rows = context.rows(k, tile);
                let first = rows.first_query(k);
                k.setp_u32(Lt, first, context.sequence.rows_q)
            },
            |k| {
                context.tile(k, tile);
                // The next tile goes where this one is still read.
                k.bar_sync_all();
                k.add_u32_to(tile, tile, tiles);
            },
        );
    } else {
        context.tile(k, block.tile);
    }
}

/// Bytes of the tile of q, which out also goes through, and of that of k.
fn tile_bytes(class: &ForwardClass) -> [u32; 2] {
    let (row, row_v) =
        (pitch(class.element, class.head_dim), pitch(class.element, class.head_dim_v));
    [class.tile.rows * row.max(row_v), class.tile.keys * row]
}

/// Shared memory of a block, in bytes.
pub fn shared_bytes(class: &ForwardClass) -> u32 {
    let [q, k] = tile_bytes(class);
    q + k + class.tile.keys * pitch(class.element, class.head_dim_v)
}

impl Context<'_> {
    fn rows(&self, k: &mut KernelBuilder, tile: B32) -> TileRows {
        TileRows {
            first: k.mul_lo_u32(tile, self.class.tile.rows),
            head: self.block.head,
            group: self.class.grouped.then_some(self.block.group),
        }
    }

    /// The rows of a fragment that the thread holds; `first` is the warp's first row.
    fn thread_rows(&self, k: &mut KernelBuilder, rows: &TileRows, first: B32) -> Vec<ThreadRow> {
        let first = k.add_u32(first, self.thread.row);
        (0..2 * self.class.tile.row_fragments() as u32)
            .map(|r| {
                let index = k.add_u32(first, 8 * r);
                self.thread_row(k, rows, index)
            })
            .collect()
    }

    /// What is needed of row `index` of the tile.
    fn thread_row(&self, k: &mut KernelBuilder, rows: &TileRows, index: B32) -> ThreadRow {
        let row = rows.row(k, index);
        let used = k.setp_u32(Lt, row.i, self.sequence.used_q);
        let scores = self.scores.row(k, &self.inputs, &row, used);
        ThreadRow { row, used, scores }
    }

    fn tile(&self, k: &mut KernelBuilder, tile: B32) {
        let class = self.class;
        let fragments = class.tile.row_fragments();
        let rows = self.rows(k, tile);
        let first_row = k.mul_lo_u32(self.thread.warp, 16 * fragments as u32);
        let thread_rows = self.thread_rows(k, &rows, first_row);
        let exponent = Exponent::new(k, class.scores.folded, &self.inputs);
        let softmax = Softmax::new(k, exponent, fragments);
        let columns = class.head_dim_v.div_ceil(8) as usize;
        let results: Fragments = zeros(k, fragments, columns);
        let keys = KeyRange::new(k, self, &rows);
        k.if_(keys.any, |k| {
            self.keys(k, &rows, &keys, first_row, &thread_rows, &softmax, &results)
        });
        epilogue::write(k, self, &rows, &keys, first_row, &thread_rows, &softmax, &results);
    }

    /// Takes the rows through their keys.
    #[expect(clippy::too_many_arguments, reason = "the state of a tile")]
    fn keys(
        &self,
        k: &mut KernelBuilder,
        rows: &TileRows,
        keys: &KeyRange,
        first_row: B32,
        thread_rows: &[ThreadRow],
        softmax: &Softmax,
        results: &Fragments,
    ) {
        let copies = Copies::new(k, self);
        let products = self.products(k, first_row);
        let fragments = self.class.tile.row_fragments();
        let scores: Fragments = (0..fragments)
            .map(|_| (0..self.class.tile.keys / 8).map(|_| k.registers()).collect())
            .collect();
        let tile = k.sub_u32(keys.end, 1);
        copies.begin(k, self, Tensor::K, tile);
        copies.copy_q(k, self, rows);
        k.loop_(|k, this| {
            copies.k.finish(k);
            k.bar_sync_all();
            copies.begin(k, self, Tensor::V, tile);
            products.scores(k, &scores);
            copies.v.finish(k);
            k.bar_sync_all();
            let more = k.setp_u32(Gt, tile, keys.begin);
            k.if_(more, |k| {
                let next = k.sub_u32(tile, 1);
                copies.begin(k, self, Tensor::K, next);
            });
            self.finish_scores(k, &scores, thread_rows, tile);
            self.mask(k, &scores, thread_rows, keys, tile);
            softmax.update(k, &scores, results);
            self.drop_weights(k, &scores, thread_rows, tile);
            products.values(k, &scores, results);
            k.break_if(this, !more);
            k.sub_u32_to(tile, tile, 1);
        });
    }

    fn products(&self, k: &mut KernelBuilder, first_row: B32) -> AnyProducts {
        let ForwardClass { element, head_dim, head_dim_v, .. } = *self.class;
        let dims = [head_dim, head_dim_v];
        AnyProducts::new(k, &self.thread, element, dims, first_row, self.tiles)
    }

    /// The index of a tile's first key, of those the thread holds, counted from the first tile.
    fn first_key(&self, k: &mut KernelBuilder, tile: B32) -> B32 {
        k.mad_lo_u32(tile, self.class.tile.keys, self.thread.column)
    }

    /// Makes products scores, apart from a folded scale and from visibility by position.
    fn finish_scores(
        &self,
        k: &mut KernelBuilder,
        scores: &Fragments,
        rows: &[ThreadRow],
        tile: B32,
    ) {
        if self.scores.is_plain() {
            return;
        }
        let first = self.first_key(k, tile);
        let first = self.unshifted(k, first);
        for (r, row) in rows.iter().enumerate() {
            for (n, score) in row_of(scores, r).into_iter().enumerate() {
                let j = k.add_u32(first, offset(n));
                let result = self.scores.score(k, &row.scores, score, j, self.sequence.used_k);
                k.mov_f32_to(score, result);
            }
        }
    }

    /// Hides what rows do not see by position, unless all rows of the tile see all its keys.
    fn mask(
        &self,
        k: &mut KernelBuilder,
        scores: &Fragments,
        rows: &[ThreadRow],
        keys: &KeyRange,
        tile: B32,
    ) {
        let begin = k.mul_lo_u32(tile, self.class.tile.keys);
        let end = k.add_u32(begin, self.class.tile.keys);
        let partial = k.setp_u32(Lt, begin, keys.all_see_from);
        let partial = k.setp_u32_with(Gt, end, keys.all_see_to, Connective::Or, partial);
        k.if_(partial, |k| {
            let key = self.first_key(k, tile);
            for (r, ThreadRow { row, .. }) in rows.iter().enumerate() {
                let (first, end) = (self.visible.first(k, row.i), self.visible.end(k, row.i));
                let count = k.sub_u32(end, first);
                let count = k.max_s32(count, 0);
                let distance = k.sub_u32(key, first);
                for (n, score) in row_of(scores, r).into_iter().enumerate() {
                    let distance = k.add_u32(distance, offset(n));
                    let seen = k.setp_u32(Lt, distance, count);
                    k.selp_f32_to(score, score, f32::NEG_INFINITY, seen);
                }
            }
        });
    }

    /// Replaces dropped weights by 0. The factor of the others is applied to the results.
    fn drop_weights(
        &self,
        k: &mut KernelBuilder,
        weights: &Fragments,
        rows: &[ThreadRow],
        tile: B32,
    ) {
        let Some(dropout) = &self.dropout else { return };
        // A tile is a number of blocks, or half a block.
        let halves = self.class.tile.keys / (dropout::BLOCK / 2);
        let half = k.mul_lo_u32(tile, halves);
        let first = k.shr_u32(half, 1);
        let half = k.and_b32(half, 1);
        let second = (halves == 1).then(|| k.setp_u32(Gt, half, 0));
        let pair = k.shr_u32(self.thread.column, 1);
        for (r, ThreadRow { row, .. }) in rows.iter().enumerate() {
            for (block, weights) in row_of(weights, r).chunks(8).enumerate() {
                let block = k.add_u32(first, block as u32);
                let mut numbers = dropout.numbers(k, row, block, pair);
                if let Some(second) = second {
                    numbers = numbers.half(k, second);
                }
                for (n, weight) in weights.iter().enumerate() {
                    let kept = dropout.keeps(k, numbers, n / 2, n % 2 == 1);
                    k.selp_f32_to(*weight, *weight, 0.0, kept);
                }
            }
        }
    }
}

/// From a thread's first key of a tile to the `n`th that it holds.
fn offset(n: usize) -> u32 {
    (8 * (n / 2) + n % 2) as u32
}

/// The keys that a tile's rows see; of split keys, those of the block's part.
pub(crate) struct KeyRange {
    /// Tiles of keys, from the first to the end.
    pub(crate) begin: B32,
    pub(crate) end: B32,
    any: Pred,
    /// Keys that all rows see: from here, to there.
    all_see_from: B32,
    all_see_to: B32,
}

impl KeyRange {
    fn new(k: &mut KernelBuilder, context: &Context<'_>, rows: &TileRows) -> Self {
        let (tile, used_q) = (context.class.tile, context.sequence.used_q);
        let first = rows.first_query(k);
        let last = k.mov_b32(tile.rows - 1);
        let last = rows.row(k, last).i;
        let most = k.sub_u32(used_q, 1);
        let last = k.min_s32(last, most);
        let visible = &context.visible;
        let (begin, end) = (visible.first(k, first), visible.end(k, last));
        let (all_see_from, all_see_to) = (visible.first(k, last), visible.end(k, first));
        let any = k.setp_s32(Lt, begin, end);
        let any = k.setp_u32_with(Lt, first, used_q, Connective::And, any);
        let end = k.add_u32(end, tile.keys - 1);
        let (begin, end) = (k.div_u32(begin, tile.keys), k.div_u32(end, tile.keys));
        let Some([part, parts]) = context.block.part else {
            return KeyRange { begin, end, any, all_see_from, all_see_to };
        };
        // Where nothing is seen the end may lie before the begin.
        let count = k.sub_u32(end, begin);
        let count = k.selp_b32(count, 0, any);
        let most = k.add_u32(count, parts);
        let most = k.sub_u32(most, 1);
        let most = k.div_u32(most, parts);
        let begin = k.mad_lo_u32(part, most, begin);
        let next = k.add_u32(begin, most);
        let end = k.min_s32(next, end);
        let any = k.setp_s32_with(Lt, begin, end, Connective::And, any);
        KeyRange { begin, end, any, all_see_from, all_see_to }
    }
}

/// A thread's copies.
struct Copies {
    q: TileCopy,
    k: TileCopy,
    v: TileCopy,
    /// Key 0 and value 0 of the sequence and head, at the thread's row of a tile.
    first_k: B64,
    first_v: B64,
}

impl Copies {
    fn new(k: &mut KernelBuilder, context: &Context<'_>) -> Self {
        let ForwardClass { element, head_dim, head_dim_v, tile, .. } = *context.class;
        let [q_tile, k_tile, v_tile] = context.tiles;
        let mut copy = |tensor, size, place| {
            let column = context.column(k, tensor);
            TileCopy::new(k, &context.thread, tile.threads(), element, size, place, column)
        };
        let q = copy(Tensor::Q, (tile.rows, head_dim), q_tile);
        let keys = copy(Tensor::K, (tile.keys, head_dim), k_tile);
        let v = copy(Tensor::V, (tile.keys, head_dim_v), v_tile);
        let mut first = |tensor, copy: &TileCopy| {
            let start = context.unshifted(k, context.sequence.start_k);
            let row = Row { i: copy.row, head: context.block.head_k };
            context.row_address(k, tensor, start, &row)
        };
        let (first_k, first_v) = (first(Tensor::K, &keys), first(Tensor::V, &v));
        Copies { q, k: keys, v, first_k, first_v }
    }

    fn copy_q(&self, k: &mut KernelBuilder, context: &Context<'_>, rows: &TileRows) {
        let sequence = &context.sequence;
        let sources: Vec<Source> = (0..self.q.passes())
            .map(|pass| {
                let index = self.q.row_of(k, pass);
                let row = rows.row(k, index);
                let inside = k.setp_u32(Lt, row.i, sequence.used_q);
                let row = context.row_address(k, Tensor::Q, sequence.start_q, &row);
                Source { row, inside }
            })
            .collect();
        self.q.begin(k, &sources);
        self.q.finish(k);
    }

    /// Begins to copy a tile of keys or values.
    fn begin(&self, k: &mut KernelBuilder, context: &Context<'_>, tensor: Tensor, tile: B32) {
        let (copy, first) = match tensor {
            Tensor::K => (&self.k, self.first_k),
            _ => (&self.v, self.first_v),
        };
        let stride = context.inputs.stride(k, tensor, Axis::Row);
        let skipped = k.mul_lo_u32(tile, context.class.tile.keys);
        let first = {
            let skipped = k.cvt_u64_u32(skipped);
            k.mad_lo_u64(skipped, stride, first)
        };
        let step = k.mul_lo_u64(stride, u64::from(copy.rows_at_once()));
        let index = k.add_u32(skipped, copy.row);
        let index = context.unshifted(k, index);
        let sources = copy.strided(k, first, step, index, context.sequence.used_k);
        copy.begin(k, &sources);
    }
}
