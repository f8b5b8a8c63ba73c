//! From products to weights and to the gradients of the scores.
//!
//! ```text
//! P = exp(s − lse)     dS = P ∘ (dP∘Z − delta) · slope     slope = 1 − (s / cap)², where capped
//! ```
//!
//! The gradient of the bias is dS without the slope.
//!
//! A thread's columns are queries, its rows keys.

use jhalak_ptx::Comparison::{Gt, Lt, Ne, Neu};
use jhalak_ptx::{B32, Connective, F32, KernelBuilder, Pred};

use super::super::super::dropout::Numbers;
use super::super::super::parameters::Parameter;
use super::super::super::row::Row;
use super::super::super::scores::RowScores;
use super::super::super::softmax::{Fragments, row_of};
use super::Context;
use super::dbias::BiasRow;
use super::layout::NUMBERS;

const LOG2_E: f32 = std::f32::consts::LOG2_E;

/// What a thread knows of its keys.
pub(super) struct ScoreGradients {
    /// The tile's keys, from the first to the end, counted from the first tile.
    begin: B32,
    end: B32,
    /// The thread's first key, counted likewise.
    key: B32,
    /// Where the numbers of the thread's first query are.
    numbers: B32,
    /// scale · log₂ e, if scores are folded into the exponent.
    factor: Option<F32>,
    keep: Option<F32>,
}

/// A query of the thread.
struct Query {
    row: Row,
    minus_lse: F32,
    minus_delta: F32,
    /// What is needed for each score, unless all are alike.
    scores: Option<QueryScores>,
}

struct QueryScores {
    scores: RowScores,
    /// The keys that it sees.
    first: B32,
    count: B32,
    /// Where the gradient of the bias is added, if it is asked for.
    dbias: Option<BiasRow>,
}

impl ScoreGradients {
    pub(super) fn new(k: &mut KernelBuilder, context: &Context<'_>, first: B32) -> Self {
        let (class, thread) = (context.class, &context.thread);
        let inputs = &context.inputs;
        ScoreGradients {
            begin: first,
            end: k.add_u32(first, class.tile.keys),
            key: context.thread_key(k, first),
            numbers: k.mad_lo_u32(thread.column, NUMBERS, context.tiles.numbers),
            factor: class.scores.folded.then(|| inputs.f32(k, Parameter::ScaleLog2)),
            keep: class.dropout.then(|| inputs.f32(k, Parameter::Keep)),
        }
    }

    /// Replaces K·Qᵀ by weights and V·dOᵀ by the gradients of the scores, for the queries of a head
    /// from `first` on.
    pub(super) fn apply(
        &self,
        k: &mut KernelBuilder,
        context: &Context<'_>,
        head: B32,
        first: B32,
        p: &Fragments,
        ds: &Fragments,
    ) {
        let rows = 2 * p.len();
        let [p, ds] = [p, ds].map(|f| (0..rows).map(|r| row_of(f, r)).collect::<Vec<_>>());
        if context.scores.is_plain() {
            self.mask(k, context, first, &p);
        }
        let query = k.add_u32(first, context.thread.column);
        for n in 0..p[0].len() {
            let place = (self.numbers, (8 * (n / 2) + n % 2) as u32 * NUMBERS);
            let [minus_lse, minus_delta] = k.ld_vector(place);
            let row = Row { i: k.add_u32(query, offset(n)), head };
            let scores = (!context.scores.is_plain()).then(|| QueryScores::new(k, context, &row));
            let query = Query { row, minus_lse, minus_delta, scores };
            let mut numbers = None;
            for (r, (p, ds)) in p.iter().zip(&ds).enumerate() {
                if r % 2 == 0 {
                    numbers = self.numbers(k, context, &query.row, r);
                }
                self.element(k, context, &query, numbers, r, [p[n], ds[n]]);
            }
        }
    }

    /// One weight and one gradient.
    fn element(
        &self,
        k: &mut KernelBuilder,
        context: &Context<'_>,
        query: &Query,
        numbers: Option<(Numbers, Pred)>,
        r: usize,
        [p, ds]: [F32; 2],
    ) {
        let (seen, slope) = self.weight(k, context, query, r, p);
        let kept = numbers.map(|(numbers, upper)| self.kept(k, context, numbers, upper, r));
        if context.class.needs_scores() {
            let sum = match kept.zip(self.keep) {
                None => k.add_f32(ds, query.minus_delta),
                Some((kept, keep)) => {
                    let factor = k.selp_f32(keep, 0.0, kept);
                    k.fma_f32(ds, factor, query.minus_delta)
                }
            };
            let gradient = k.mul_f32(p, sum);
            if let Some(scores) = &query.scores {
                self.add_to_bias(k, context, scores, r, seen, gradient);
            }
            let gradient = match slope {
                None => gradient,
                Some(slope) => k.mul_f32(gradient, slope),
            };
            // What is not seen has no influence, whatever it is.
            k.selp_f32_to(ds, gradient, 0.0, seen);
        }
        if let Some(kept) = kept {
            k.selp_f32_to(p, p, 0.0, kept);
        }
    }

    /// Adds the gradient of a score to that of the bias, if it is asked for and the bias has it.
    fn add_to_bias(
        &self,
        k: &mut KernelBuilder,
        context: &Context<'_>,
        QueryScores { scores, dbias, .. }: &QueryScores,
        r: usize,
        seen: Pred,
        gradient: F32,
    ) {
        let Some(dbias) = dbias else { return };
        let key = k.add_u32(self.key, 8 * r as u32);
        let j = context.unshifted(k, key);
        let inside = context.scores.inside(k, scores, j, context.sequence.used_k);
        let inside = inside.expect("there is a bias");
        let condition = k.and_pred(seen, inside);
        dbias.add(k, context, condition, j, gradient);
    }

    /// Replaces a product by its weight; returns whether the key is seen, and the cap's slope.
    fn weight(
        &self,
        k: &mut KernelBuilder,
        context: &Context<'_>,
        query: &Query,
        r: usize,
        p: F32,
    ) -> (Pred, Option<F32>) {
        let mut slope = None;
        let mut score = p;
        if let Some(QueryScores { scores, first, count, .. }) = &query.scores {
            let key = k.add_u32(self.key, 8 * r as u32);
            let j = context.unshifted(k, key);
            let used_k = context.sequence.used_k;
            let (whole, tanh) = context.scores.score_and_tanh(k, scores, p, j, used_k);
            let distance = k.sub_u32(key, *first);
            let seen = k.setp_u32(Lt, distance, *count);
            score = k.selp_f32(whole, f32::NEG_INFINITY, seen);
            slope = tanh.map(|tanh| {
                let minus = k.neg_f32(tanh);
                k.fma_f32(minus, tanh, 1.0)
            });
        }
        match self.factor {
            Some(factor) => k.fma_f32_to(p, score, factor, query.minus_lse),
            None => {
                k.add_f32_to(p, score, query.minus_lse);
                k.mul_f32_to(p, p, LOG2_E);
            }
        }
        let seen = k.setp_f32(Neu, p, f32::NEG_INFINITY);
        let seen = if context.class.dbias {
            // An lse of NaN makes the exponents of hidden keys NaN too: their bias must not get it.
            k.setp_f32_with(Neu, score, f32::NEG_INFINITY, Connective::And, seen)
        } else {
            seen
        };
        k.ex2_f32_to(p, p);
        // Never above 1: the forward may have summed a huge score in another order.
        let above = k.setp_f32(Gt, p, 1.0);
        k.selp_f32_to(p, 1.0, p, above);
        (seen, slope)
    }

    /// The random numbers of a query for the 16 keys of row `r`'s fragment, and whether these are
    /// the upper half of 32.
    fn numbers(
        &self,
        k: &mut KernelBuilder,
        context: &Context<'_>,
        row: &Row,
        r: usize,
    ) -> Option<(Numbers, Pred)> {
        let dropout = context.dropout.as_ref()?;
        let key = k.add_u32(self.key, 8 * r as u32);
        let (block, upper) = (k.shr_u32(key, 5), k.and_b32(key, 16));
        let pair = k.shr_u32(context.thread.row, 1);
        let numbers = dropout.numbers(k, row, block, pair);
        Some((numbers, k.setp_u32(Ne, upper, 0)))
    }

    fn kept(
        &self,
        k: &mut KernelBuilder,
        context: &Context<'_>,
        numbers: Numbers,
        upper: Pred,
        r: usize,
    ) -> Pred {
        let dropout = context.dropout.as_ref().expect("there are numbers");
        let odd = k.and_b32(context.thread.row, 1);
        let odd_bits = k.shl_b32(odd, 4);
        dropout.keeps_lane(k, numbers, r % 2, upper, odd_bits)
    }

    /// Hides what queries do not see by position, unless all queries of the tile see all its keys.
    fn mask(&self, k: &mut KernelBuilder, context: &Context<'_>, first: B32, p: &[Vec<F32>]) {
        let visible = &context.visible;
        let last = k.add_u32(first, context.class.tile.rows - 1);
        let most = k.sub_u32(context.sequence.used_q, 1);
        let last = k.min_s32(last, most);
        let (from, to) = (visible.first(k, last), visible.end(k, first));
        let partial = k.setp_u32(Lt, self.begin, from);
        let partial = k.setp_u32_with(Gt, self.end, to, Connective::Or, partial);
        k.if_(partial, |k| {
            let query = k.add_u32(first, context.thread.column);
            for n in 0..p[0].len() {
                let query = k.add_u32(query, offset(n));
                let (first, count) = seen(k, context, query);
                let distance = k.sub_u32(self.key, first);
                for (r, p) in p.iter().enumerate() {
                    let distance = k.add_u32(distance, 8 * r as u32);
                    let seen = k.setp_u32(Lt, distance, count);
                    k.selp_f32_to(p[n], p[n], f32::NEG_INFINITY, seen);
                }
            }
        });
    }
}

impl QueryScores {
    fn new(k: &mut KernelBuilder, context: &Context<'_>, row: &Row) -> Self {
        let used = k.setp_u32(Lt, row.i, context.sequence.used_q);
        let scores = context.scores.row(k, &context.inputs, row, used);
        let (first, count) = seen(k, context, row.i);
        let dbias = context.class.dbias.then(|| BiasRow::new(k, context, row));
        QueryScores { scores, first, count, dbias }
    }
}

/// The first key that a query sees, and how many.
fn seen(k: &mut KernelBuilder, context: &Context<'_>, query: B32) -> (B32, B32) {
    let (first, end) = (context.visible.first(k, query), context.visible.end(k, query));
    let count = k.sub_u32(end, first);
    (first, k.max_s32(count, 0))
}

/// From a thread's first query of a tile to the `n`th that it holds.
fn offset(n: usize) -> u32 {
    (8 * (n / 2) + n % 2) as u32
}
