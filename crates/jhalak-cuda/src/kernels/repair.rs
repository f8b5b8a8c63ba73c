//! Rows whose result is not finite, once more and slowly: a warp takes one row, key by key.
//!
//! The products of whole tiles multiply what a row does not see by 0, and 0 · ∞ is NaN; and a folded
//! scale can overflow where scores do not. Here only what is visible takes part, so that a NaN which
//! remains belongs to the row.

use jhalak_ptx::Comparison::{Eq, Lt, Ne};
use jhalak_ptx::{B32, B64, F32, KernelBuilder, Pred};

use super::context::Context;
use super::guarded::load_float;
use super::normaliser::Normaliser;
use super::parameters::{Axis, Tensor};
use super::row::{Row, TileRows};
use super::scores::{RowScores, Scores};
use super::softmax::{Exponent, finite_or_zero};

const WARP: u32 = 32;

/// How rows of a tile are repaired.
pub(crate) struct Repair<'r> {
    pub(crate) context: &'r Context<'r>,
    pub(crate) tile_rows: &'r TileRows,
    /// The keys of the block's part, from and to, if they are split.
    pub(crate) part: Option<[B32; 2]>,
    /// Stores the result of a row, the tile's so manieth, in a column.
    pub(crate) store: &'r dyn Fn(&mut KernelBuilder, &Row, B32, B32, F32),
}

impl Repair<'_> {
    /// Stores out and lse again of the warp's rows whose bits are set: bit 4·g + r stands for the
    /// `r`th row of the lanes whose first one is row g.
    pub(crate) fn rows(&self, k: &mut KernelBuilder, first_row: B32, bits: B32) {
        let bits = k.mov_b32(bits);
        k.do_while(|k| {
            let rest = k.sub_u32(bits, 1);
            let below = k.not_b32(bits);
            let below = k.and_b32(below, rest);
            let bit = k.popc_b32(below);
            k.and_b32_to(bits, bits, rest);
            let (row, r) = (k.shr_u32(bit, 2), k.and_b32(bit, 3));
            let index = k.mad_lo_u32(r, 8, row);
            let index = k.add_u32(index, first_row);
            SlowRow::new(k, self, index).write(k);
            k.setp_u32(Ne, bits, 0)
        });
    }
}

struct SlowRow<'r> {
    repair: &'r Repair<'r>,
    context: &'r Context<'r>,
    /// Which row of the tile.
    index: B32,
    row: Row,
    scores: Scores,
    row_scores: RowScores,
    q: B64,
    /// Key 0 and value 0 of the sequence and head.
    k: B64,
    v: B64,
    /// The keys that the row sees, counted from the first tile.
    begin: B32,
    end: B32,
}

impl<'r> SlowRow<'r> {
    fn new(k: &mut KernelBuilder, repair: &'r Repair<'r>, index: B32) -> Self {
        let (context, row) = (repair.context, repair.tile_rows.row(k, index));
        let sequence = &context.sequence;
        let used = k.setp_u32(Lt, row.i, sequence.used_q);
        let scores = context.scores.unfolded();
        let row_scores = scores.row(k, &context.inputs, &row, used);
        let q = context.row_address(k, Tensor::Q, sequence.start_q, &row);
        let zero = k.mov_b32(0);
        let key = Row { i: zero, head: context.block.head_k };
        let [keys, v] =
            [Tensor::K, Tensor::V].map(|t| context.row_address(k, t, sequence.start_k, &key));
        let (mut begin, mut end) = (context.visible.first(k, row.i), context.visible.end(k, row.i));
        if let Some([from, to]) = repair.part {
            (begin, end) = (k.max_s32(begin, from), k.min_s32(end, to));
        }
        SlowRow { repair, context, index, row, scores, row_scores, q, k: keys, v, begin, end }
    }

    fn write(&self, k: &mut KernelBuilder) {
        let lane = self.context.thread.lane;
        let max = k.mov_f32(f32::NEG_INFINITY);
        let sum = k.mov_f32(0.0);
        let key = k.add_u32(self.begin, lane);
        k.while_(
            |k| k.setp_s32(Lt, key, self.end),
            |k| {
                let score = self.score(k, key);
                let high = k.max_f32(max, score);
                let reference = finite_or_zero(k, high);
                let factor = Exponent::Plain.weight(k, max, reference);
                let weight = Exponent::Plain.weight(k, score, reference);
                k.fma_f32_to(sum, sum, factor, weight);
                k.mov_f32_to(max, high);
                k.add_u32_to(key, key, WARP);
            },
        );
        let highest = over_warp(k, max, |k, a, b| k.max_f32(a, b));
        let reference = finite_or_zero(k, highest);
        let factor = Exponent::Plain.weight(k, max, reference);
        let sum = k.mul_f32(sum, factor);
        let sum = over_warp(k, sum, |k, a, b| k.add_f32(a, b));
        let normaliser = Normaliser::new(k, self.context, self.row.head, highest, sum);
        self.write_out(k, reference, normaliser.factor);
        let first = k.setp_u32(Eq, lane, 0);
        let start = self.context.sequence.start_q;
        let place = self.context.row_address(k, Tensor::Lse, start, &self.row);
        k.when(first, |k| k.st(place, normaliser.lse));
    }

    /// Adds up the values, 32 keys after the other, a lane's columns each.
    fn write_out(&self, k: &mut KernelBuilder, reference: F32, factor: F32) {
        let class = self.context.class;
        let lane = self.context.thread.lane;
        let columns: Vec<(B32, F32)> = (0..class.head_dim_v.div_ceil(WARP))
            .map(|n| (k.add_u32(lane, n * WARP), k.mov_f32(0.0)))
            .collect();
        let first = k.mov_b32(self.begin);
        k.while_(
            |k| k.setp_s32(Lt, first, self.end),
            |k| {
                let key = k.add_u32(first, lane);
                let score = k.mov_f32(f32::NEG_INFINITY);
                let weight = k.mov_f32(0.0);
                let mine = k.setp_s32(Lt, key, self.end);
                k.if_(mine, |k| {
                    let value = self.score(k, key);
                    k.mov_f32_to(score, value);
                    let value = Exponent::Plain.weight(k, score, reference);
                    k.mov_f32_to(weight, value);
                    if let Some(dropout) = &self.context.dropout {
                        let kept = dropout.keeps_key(k, &self.row, key);
                        k.selp_f32_to(weight, weight, 0.0, kept);
                    }
                });
                k.for_range(0, WARP, 1, |k, from| {
                    let (score, weight) =
                        (k.shfl_idx_f32(score, from), k.shfl_idx_f32(weight, from));
                    let seen = k.setp_f32(jhalak_ptx::Comparison::Neu, score, f32::NEG_INFINITY);
                    let key = k.add_u32(first, from);
                    let row = self.key_row(k, self.v, Tensor::V, key);
                    k.if_(seen, |k| {
                        for (column, sum) in &columns {
                            let inside = k.setp_u32(Lt, *column, class.head_dim_v);
                            let value = self.element(k, Tensor::V, row, *column, inside);
                            k.fma_f32_to(*sum, weight, value, *sum);
                        }
                    });
                });
                k.add_u32_to(first, first, WARP);
            },
        );
        for (column, sum) in columns {
            let inside = k.setp_u32(Lt, column, class.head_dim_v);
            let value = k.mul_f32(sum, factor);
            k.if_(inside, |k| (self.repair.store)(k, &self.row, self.index, column, value));
        }
    }

    /// The row's score with a key, counted from the first tile.
    fn score(&self, k: &mut KernelBuilder, key: B32) -> F32 {
        let row = self.key_row(k, self.k, Tensor::K, key);
        let product = k.mov_f32(0.0);
        // The compiler does not see that this is the head dimension, and leaves the loop a loop.
        let head_dim = self.context.class.head_dim;
        let columns = k.add_u32(self.context.sequence.rows_k, head_dim);
        let columns = k.min_u32(columns, head_dim);
        k.for_range(0, columns, 1, |k, column| {
            let always = k.setp_u32(Eq, column, column);
            let a = self.element(k, Tensor::Q, self.q, column, always);
            let b = self.element(k, Tensor::K, row, column, always);
            k.fma_f32_to(product, a, b, product);
        });
        let key = self.context.unshifted(k, key);
        self.scores.score(k, &self.row_scores, product, key, self.context.sequence.used_k)
    }

    fn key_row(&self, k: &mut KernelBuilder, first: B64, tensor: Tensor, key: B32) -> B64 {
        let key = self.context.unshifted(k, key);
        self.context.inputs.advance(k, first, key, tensor, Axis::Row)
    }

    fn element(
        &self,
        k: &mut KernelBuilder,
        tensor: Tensor,
        row: B64,
        column: B32,
        inside: Pred,
    ) -> F32 {
        let element = self.context.class.element;
        let place = self.context.place(k, tensor, element, row, column);
        load_float(k, element, inside, place)
    }
}

/// Combines values over a warp.
pub(crate) fn over_warp(
    k: &mut KernelBuilder,
    mut value: F32,
    combine: impl Fn(&mut KernelBuilder, F32, F32) -> F32,
) -> F32 {
    for mask in [16, 8, 4, 2, 1] {
        let other = k.shfl_bfly_f32(value, mask);
        value = combine(k, value, other);
    }
    value
}
