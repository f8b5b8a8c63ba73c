//! Keys whose gradients are not finite, once more and slowly: a warp takes one key, query by query.
//!
//! The products of whole tiles multiply what a key is not seen by with 0, and 0 · ∞ is NaN. Here only
//! queries that see the key take part, so that a NaN which remains belongs to the key.

use jhalak_ptx::Comparison::{Gt, Lt, Ne, Neu};
use jhalak_ptx::{B32, B64, Connective, F32, KernelBuilder, Pred};

use super::super::super::element::Element;
use super::super::super::guarded::load_float;
use super::super::super::parameters::{Parameter, Tensor};
use super::super::super::repair::over_warp;
use super::super::super::row::Row;
use super::super::super::scores::Scores;
use super::columns::Columns;
use super::epilogue::GradientTensor;
use super::{Context, KeyGradients};

const WARP: u32 = 32;
const LOG2_E: f32 = std::f32::consts::LOG2_E;

/// Writes the gradients of the warp's keys whose bits are set, as far as the columns are the warp's:
/// bit 4·g + r stands for the `r`th key of the lanes whose first one is key g.
pub(super) fn keys(
    k: &mut KernelBuilder,
    context: &Context<'_>,
    first: B32,
    sums: &KeyGradients,
    bits: B32,
) {
    let first = k.add_u32(first, context.warp_key);
    k.do_while(|k| {
        let rest = k.sub_u32(bits, 1);
        let below = k.not_b32(bits);
        let below = k.and_b32(below, rest);
        let bit = k.popc_b32(below);
        k.and_b32_to(bits, bits, rest);
        let (row, r) = (k.shr_u32(bit, 2), k.and_b32(bit, 3));
        let key = k.mad_lo_u32(r, 8, row);
        let key = k.add_u32(key, first);
        SlowKey::new(k, context, key, sums).write(k);
        k.setp_u32(Ne, bits, 0)
    });
}

/// A warp's key.
struct SlowKey<'c> {
    context: &'c Context<'c>,
    /// Counted from the first tile, and in the sequence.
    key: B32,
    row: Row,
    scores: Scores,
    k: B64,
    v: B64,
    dk: Option<LaneSums>,
    dv: Option<LaneSums>,
}

/// Sums of a lane's columns: every 32nd one of the warp's.
struct LaneSums {
    sums: Vec<(B32, F32)>,
    /// The end of the warp's columns.
    end: B32,
}

impl LaneSums {
    fn new(k: &mut KernelBuilder, context: &Context<'_>, columns: &Columns) -> Self {
        let first = k.add_u32(columns.own, context.thread.lane);
        let sums = (0..columns.count.div_ceil(WARP))
            .map(|n| (k.add_u32(first, n * WARP), k.mov_f32(0.0)))
            .collect();
        LaneSums { sums, end: k.add_u32(columns.own, columns.count) }
    }
}

impl<'c> SlowKey<'c> {
    fn new(k: &mut KernelBuilder, context: &'c Context<'c>, key: B32, sums: &KeyGradients) -> Self {
        let row = Row { i: context.unshifted(k, key), head: context.block.head_k };
        let start = context.sequence.start_k;
        let [keys, v] = [Tensor::K, Tensor::V].map(|t| context.row_address(k, t, start, &row));
        let [dk, dv] = [&sums.dk, &sums.dv]
            .map(|sums| sums.as_ref().map(|(columns, _)| LaneSums::new(k, context, columns)));
        let scores = context.scores.unfolded();
        SlowKey { context, key, row, scores, k: keys, v, dk, dv }
    }

    fn write(&self, k: &mut KernelBuilder) {
        let context = self.context;
        let (block, used_q) = (context.block, context.sequence.used_q);
        let next = k.add_u32(self.key, 1);
        let [begin, end] = context.visible.queries(k, [self.key, next], used_q);
        let end_head = k.add_u32(block.head, block.group);
        k.for_range(block.head, end_head, 1, |k, head| {
            let i = k.mov_b32(begin);
            k.while_(
                |k| k.setp_s32(Lt, i, end),
                |k| {
                    self.query(k, Row { i, head });
                    k.add_u32_to(i, i, 1);
                },
            );
        });
        let class = context.class;
        let dk = GradientTensor::dk(class).zip(self.dk.as_ref());
        let dv = GradientTensor::dv(class).zip(self.dv.as_ref());
        for (tensor, LaneSums { sums, end }) in dk.into_iter().chain(dv) {
            for &(column, sum) in sums {
                tensor.store_column(k, context, &self.row, (column, *end), sum);
            }
        }
    }

    /// Adds what a query contributes.
    fn query(&self, k: &mut KernelBuilder, query: Row) {
        let context = self.context;
        let (class, sequence) = (context.class, &context.sequence);
        let [q, dout, lse] = [Tensor::Q, Tensor::Dout, Tensor::Lse]
            .map(|tensor| context.row_address(k, tensor, sequence.start_q, &query));
        let used = k.setp_u32(Lt, query.i, sequence.used_q);
        let scores = self.scores.row(k, &context.inputs, &query, used);
        let product = self.product(k, (Tensor::Q, q), (Tensor::K, self.k), class.head_dim);
        let (score, tanh) =
            self.scores.score_and_tanh(k, &scores, product, self.row.i, sequence.used_k);
        let lse = Element::F32.load(k, lse);
        let seen = k.setp_f32(Neu, score, f32::NEG_INFINITY);
        let seen = k.setp_f32_with(Neu, lse, f32::NEG_INFINITY, Connective::And, seen);
        k.if_(seen, |k| {
            let exponent = k.sub_f32(score, lse);
            let exponent = k.mul_f32(exponent, LOG2_E);
            let p = k.ex2_f32(exponent);
            let above = k.setp_f32(Gt, p, 1.0);
            let p = k.selp_f32(1.0, p, above);
            let kept = context.dropout.as_ref().map(|d| d.keeps_key(k, &query, self.key));
            if let Some(sums) = &self.dk {
                let ds = self.gradient(k, &query, p, kept, tanh);
                self.add(k, sums, ds, (Tensor::Q, q), class.head_dim);
            }
            if let Some(sums) = &self.dv {
                let p = kept.map_or(p, |kept| k.selp_f32(p, 0.0, kept));
                self.add(k, sums, p, (Tensor::Dout, dout), class.head_dim_v);
            }
        });
    }

    /// The gradient of a query's score.
    fn gradient(
        &self,
        k: &mut KernelBuilder,
        query: &Row,
        p: F32,
        kept: Option<Pred>,
        tanh: Option<F32>,
    ) -> F32 {
        let context = self.context;
        let [dout, delta] = [Tensor::Dout, Tensor::Delta]
            .map(|tensor| context.row_address(k, tensor, context.sequence.start_q, query));
        let (a, b) = ((Tensor::Dout, dout), (Tensor::V, self.v));
        let mut dp = self.product(k, a, b, context.class.head_dim_v);
        if let Some(kept) = kept {
            let keep = context.inputs.f32(k, Parameter::Keep);
            let factor = k.selp_f32(keep, 0.0, kept);
            dp = k.mul_f32(dp, factor);
        }
        let delta = Element::F32.load(k, delta);
        let difference = k.sub_f32(dp, delta);
        let gradient = k.mul_f32(p, difference);
        match tanh {
            None => gradient,
            Some(tanh) => {
                let minus = k.neg_f32(tanh);
                let slope = k.fma_f32(minus, tanh, 1.0);
                k.mul_f32(gradient, slope)
            }
        }
    }

    /// Adds a row's elements, times a factor.
    fn add(
        &self,
        k: &mut KernelBuilder,
        LaneSums { sums, .. }: &LaneSums,
        factor: F32,
        row: (Tensor, B64),
        head_dim: u32,
    ) {
        for &(column, sum) in sums {
            let value = self.element(k, row, column, head_dim);
            k.fma_f32_to(sum, factor, value, sum);
        }
    }

    /// The product of two rows.
    fn product(
        &self,
        k: &mut KernelBuilder,
        a: (Tensor, B64),
        b: (Tensor, B64),
        head_dim: u32,
    ) -> F32 {
        let sum = k.mov_f32(0.0);
        for n in 0..head_dim.div_ceil(WARP) {
            let column = k.add_u32(self.context.thread.lane, n * WARP);
            let a = self.element(k, a, column, head_dim);
            let b = self.element(k, b, column, head_dim);
            k.fma_f32_to(sum, a, b, sum);
        }
        over_warp(k, sum, |k, a, b| k.add_f32(a, b))
    }

    fn element(
        &self,
        k: &mut KernelBuilder,
        (tensor, row): (Tensor, B64),
        column: B32,
        head_dim: u32,
    ) -> F32 {
        let element = self.context.class.element_of(tensor);
        let place = self.context.column_address(k, tensor, element.bytes(), row, column);
        let inside = k.setp_u32(Lt, column, head_dim);
        load_float(k, element, inside, place)
    }
}
