//! The online softmax of a warpgroup. A thread has two rows, and of each 16 keys four scores:
//!
//! ```text
//! register   0 1   2 3   4 5   6 7      then the next 16 keys
//! row        0     1     0     1
//! key        0 1   0 1   8 9   8 9      + 2·(lane % 4)
//! ```
//!
//! A weight is 2 to the power of its score, in units of log₂, minus the row's *reference*, which lies
//! at most [`SLACK_LOG2`](super::super::SLACK_LOG2) below the highest score so far. It is raised by
//! whole warps, rarely, so that results are rarely rescaled.
//!
//! *Followed*, the block's maximum comes first. *Assumed*, the reference of the blocks before is
//! taken as it is: exponents stay in their registers, and where a thread's weights of a row add up to
//! more than [`LIMIT`], the warp weighs the block once more with a higher reference. That is exact
//! whatever the scores are, and costs little as it happens at the begin of rows, if at all. A row that
//! has seen nothing becomes NaN there; such rows come to it only if visible scores were −∞, and are
//! repaired.

use jhalak_ptx::Comparison::{Gt, Le};
use jhalak_ptx::{B32, F32, KernelBuilder, Source};

use super::super::element::Element;
use super::super::parameters::{Inputs, Parameter};
use super::super::softmax::{SLACK_LOG2, finite_or_zero, over_quad};
use super::class::{HopperClass, HopperOrder};
use super::products::DEPTH;

/// Sums of a thread's weights of a row and block up to which the block is not weighed again. No
/// weight is larger then, which f16 and sums can take.
const LIMIT: f32 = 256.0;
/// Scores of 16 keys.
const CHUNK: usize = 8;
/// Registers of their weights.
const PACKED: usize = 4;

/// A row's state in a thread.
#[derive(Clone, Copy)]
pub(super) struct RowState {
    /// What exponents count from; −∞ as long as nothing was seen.
    pub(super) reference: F32,
    /// The sum of the thread's own weights.
    pub(super) sum: F32,
}

/// A thread's two rows of a block.
pub(super) struct Softmax {
    element: Element,
    /// What scores are multiplied by.
    factor: Source<F32>,
    pub(super) rows: [RowState; 2],
    pub(super) scores: Vec<F32>,
    /// The weights of the block before, as long as they are multiplied; then this one's.
    pub(super) weights: Vec<B32>,
    /// Chunks of 16 keys that are weighed before the products with the block before are over.
    early: usize,
}

impl Softmax {
    pub(super) fn new(k: &mut KernelBuilder, class: &HopperClass, inputs: &Inputs) -> Self {
        let attention = &class.attention;
        let chunks = (attention.tile.keys / DEPTH) as usize;
        let factor = if attention.scores.folded {
            inputs.f32(k, Parameter::ScaleLog2).into()
        } else {
            std::f32::consts::LOG2_E.into()
        };
        // Where others' products run all the time, waiting for the own ones costs nothing.
        let early = if class.tuning.order == HopperOrder::Every { chunks } else { chunks / 2 };
        Softmax {
            element: attention.element,
            factor,
            rows: std::array::from_fn(|_| RowState { reference: k.register(), sum: k.register() }),
            scores: k.fragment(CHUNK * chunks),
            weights: k.fragment(PACKED * chunks),
            early,
        }
    }

    /// Nothing was seen.
    pub(super) fn begin(&self, k: &mut KernelBuilder) {
        for RowState { reference, sum } in self.rows {
            k.mov_f32_to(reference, f32::NEG_INFINITY);
            k.mov_f32_to(sum, 0.0);
        }
    }

    /// Makes the scores of a tile's first block weights.
    pub(super) fn first(&self, k: &mut KernelBuilder) {
        let raised = self.raise(k);
        self.weigh(k, 0..self.chunks(), raised.offsets);
        self.pack(k, 0..self.chunks());
        self.add_up(k, &raised.factors);
    }

    /// Makes scores weights. `finish` waits for the products of the block before, whose results are
    /// then rescaled if need be.
    pub(super) fn followed(
        &self,
        k: &mut KernelBuilder,
        results: &[F32],
        finish: impl FnOnce(&mut KernelBuilder),
    ) {
        let raised = self.raise(k);
        self.weigh(k, 0..self.early, raised.offsets);
        finish(k);
        k.if_(raised.any, |k| rescale(k, results, raised.factors));
        self.pack(k, 0..self.early);
        self.weigh(k, self.early..self.chunks(), raised.offsets);
        self.pack(k, self.early..self.chunks());
        self.add_up(k, &raised.factors);
    }

    /// The same with the references of the blocks before.
    pub(super) fn assumed(
        &self,
        k: &mut KernelBuilder,
        results: &[F32],
        finish: impl FnOnce(&mut KernelBuilder),
    ) {
        let offsets = self.rows.map(|row| k.neg_f32(row.reference));
        for (n, &score) in self.scores.iter().enumerate() {
            k.fma_f32_to(score, score, self.factor, offsets[row_of(n)]);
        }
        let mut sums = Sums::default();
        // The products with the block before still read its weights.
        let waiting: Vec<_> =
            (0..self.early).map(|chunk| self.weights_of(k, chunk, &mut sums)).collect();
        finish(k);
        for (chunk, weights) in waiting.iter().enumerate() {
            self.pack_chunk(k, chunk, weights);
        }
        for chunk in self.early..self.chunks() {
            let weights = self.weights_of(k, chunk, &mut sums);
            self.pack_chunk(k, chunk, &weights);
        }
        let sums = sums.total(k);
        let calm = k.setp_f32(Le, sums[0], LIMIT);
        let calm = k.setp_f32_with(Le, sums[1], LIMIT, jhalak_ptx::Connective::And, calm);
        let calm = k.vote_all(calm);
        k.if_(!calm, |k| self.weigh_again(k, results, sums));
        for (row, sum) in self.rows.into_iter().zip(sums) {
            k.add_f32_to(row.sum, row.sum, sum);
        }
    }

    fn chunks(&self) -> usize {
        self.scores.len() / CHUNK
    }

    /// The highest of a thread's numbers of each row, over the lanes that share it.
    fn highest(&self, k: &mut KernelBuilder) -> [F32; 2] {
        [0, 1].map(|row| {
            let mut scores = self.scores.iter().enumerate().filter(|(n, _)| row_of(*n) == row);
            // Four at a time, so that none waits for the one before.
            let mut highest: [F32; 4] =
                std::array::from_fn(|_| *scores.next().expect("a block has 16 keys or more").1);
            for (n, (_, &score)) in scores.enumerate() {
                highest[n % 4] = k.max_f32(highest[n % 4], score);
            }
            let [a, b, c, d] = highest;
            let (a, b) = (k.max_f32(a, b), k.max_f32(c, d));
            let highest = k.max_f32(a, b);
            over_quad(k, highest, |k, a, b| k.max_f32(a, b))
        })
    }

    /// Raises the references of rows whose scores are too high for them.
    fn raise(&self, k: &mut KernelBuilder) -> Raised {
        let highest = self.highest(k);
        let rows = [0, 1].map(|row| {
            let reference = self.rows[row].reference;
            let high = k.mul_f32(highest[row], self.factor);
            let most = k.add_f32(reference, SLACK_LOG2);
            let rises = k.setp_f32(Gt, high, most);
            let new = k.selp_f32(high, reference, rises);
            let difference = k.sub_f32(reference, new);
            let factor = k.ex2_f32(difference);
            let factor = k.selp_f32(factor, 1.0, rises);
            k.mov_f32_to(reference, new);
            let zero = finite_or_zero(k, reference);
            (rises, factor, k.neg_f32(zero))
        });
        let [(a, factor_a, offset_a), (b, factor_b, offset_b)] = rows;
        let any = k.or_pred(a, b);
        let any = k.vote_any(any);
        Raised { any, factors: [factor_a, factor_b], offsets: [offset_a, offset_b] }
    }

    /// Makes the scores of chunks of 16 keys weights, where they are.
    fn weigh(&self, k: &mut KernelBuilder, chunks: std::ops::Range<usize>, offsets: [F32; 2]) {
        for chunk in chunks {
            for (n, &score) in self.scores[CHUNK * chunk..][..CHUNK].iter().enumerate() {
                k.fma_f32_to(score, score, self.factor, offsets[row_of(n)]);
                k.ex2_f32_to(score, score);
            }
        }
    }

    fn pack(&self, k: &mut KernelBuilder, chunks: std::ops::Range<usize>) {
        for chunk in chunks {
            self.pack_chunk(k, chunk, &self.scores[CHUNK * chunk..][..CHUNK]);
        }
    }

    fn pack_to(&self, k: &mut KernelBuilder, to: B32, low: F32, high: F32) {
        match self.element {
            Element::F16 => k.cvt_f16x2_f32_to(to, low, high),
            _ => k.cvt_bf16x2_f32_to(to, low, high),
        }
    }

    /// Adds weights to the sums of their rows.
    fn add_up(&self, k: &mut KernelBuilder, factors: &[F32; 2]) {
        let mut sums = Sums::default();
        for (n, &weight) in self.scores.iter().enumerate() {
            sums.add(k, n, weight);
        }
        let sums = sums.total(k);
        for ((row, sum), &factor) in self.rows.into_iter().zip(sums).zip(factors) {
            k.fma_f32_to(row.sum, row.sum, factor, sum);
        }
    }

    /// The weights of a chunk of exponents, which stay where they are.
    fn weights_of(&self, k: &mut KernelBuilder, chunk: usize, sums: &mut Sums) -> Vec<F32> {
        let exponents = &self.scores[CHUNK * chunk..][..CHUNK];
        let weights: Vec<F32> = exponents.iter().map(|&exponent| k.ex2_f32(exponent)).collect();
        for (n, &weight) in weights.iter().enumerate() {
            sums.add(k, n, weight);
        }
        weights
    }

    fn pack_chunk(&self, k: &mut KernelBuilder, chunk: usize, weights: &[F32]) {
        for (pair, &to) in weights.chunks_exact(2).zip(&self.weights[PACKED * chunk..]) {
            self.pack_to(k, to, pair[0], pair[1]);
        }
    }

    /// Weighs a block again whose exponents are too high, with a higher reference.
    fn weigh_again(&self, k: &mut KernelBuilder, results: &[F32], sums: [F32; 2]) {
        let highest = self.highest(k);
        let rises = highest.map(|high| k.max_f32(high, 0.0));
        let factors = [0, 1].map(|row| {
            let RowState { reference, sum } = self.rows[row];
            k.add_f32_to(reference, reference, rises[row]);
            let fall = k.neg_f32(rises[row]);
            let factor = k.ex2_f32(fall);
            k.mul_f32_to(sum, sum, factor);
            factor
        });
        rescale(k, results, factors);
        let mut again = Sums::default();
        for (n, &exponent) in self.scores.iter().enumerate() {
            k.sub_f32_to(exponent, exponent, rises[row_of(n)]);
        }
        for chunk in 0..self.chunks() {
            let weights = self.weights_of(k, chunk, &mut again);
            self.pack_chunk(k, chunk, &weights);
        }
        for (sum, again) in sums.into_iter().zip(again.total(k)) {
            k.mov_f32_to(sum, again);
        }
    }
}

/// What became of the references.
struct Raised {
    /// Whether the warp has raised one.
    any: jhalak_ptx::Pred,
    /// What results so far are multiplied by.
    factors: [F32; 2],
    /// What scores are moved by.
    offsets: [F32; 2],
}

/// The sums of two rows, each in two parts, so that additions do not wait for each other.
#[derive(Default)]
struct Sums([[Option<F32>; 2]; 2]);

impl Sums {
    /// Adds register `n`.
    fn add(&mut self, k: &mut KernelBuilder, n: usize, value: F32) {
        let sum = &mut self.0[row_of(n)][n % 2];
        *sum = Some(match *sum {
            None => value,
            Some(sum) => k.add_f32(sum, value),
        });
    }

    fn total(self, k: &mut KernelBuilder) -> [F32; 2] {
        self.0.map(|parts| {
            let [a, b] = parts.map(|part| part.expect("a block has keys"));
            k.add_f32(a, b)
        })
    }
}

/// The row of a thread's register.
pub(super) fn row_of(n: usize) -> usize {
    n / 2 % 2
}

fn rescale(k: &mut KernelBuilder, results: &[F32], factors: [F32; 2]) {
    for (n, &result) in results.iter().enumerate() {
        k.mul_f32_to(result, result, factors[row_of(n)]);
    }
}
