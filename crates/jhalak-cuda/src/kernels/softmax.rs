//! The online softmax: a running maximum and sum of each row, and results rescaled when the maximum
//! has risen (Milakov and Gimelshein, 2018, "Online normalizer calculation for softmax").
//!
//! A row's maximum is followed with slack: as long as no row of the warp rises by more than a factor
//! of 2⁸, nothing is rescaled, and weights are up to 2⁸.

use jhalak_ptx::Comparison::{Eq, Gt};
use jhalak_ptx::{F32, KernelBuilder};

use super::parameters::{Inputs, Parameter};

const LN_2: f32 = std::f32::consts::LN_2;
const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// Rows may rise by this power of 2.
pub(crate) const SLACK_LOG2: f32 = 8.0;

/// Fragments of 16 × 8 floats: [16 rows][8 columns][a thread's 4].
pub(crate) type Fragments = Vec<Vec<[F32; 4]>>;

/// Fragments of zeros.
pub(crate) fn zeros(k: &mut KernelBuilder, fragments: usize, columns: usize) -> Fragments {
    let mut zero = || -> F32 { k.mov_f32(0.0) };
    (0..fragments)
        .map(|_| (0..columns).map(|_| std::array::from_fn(|_| zero())).collect())
        .collect()
}

/// How scores become exponents of 2.
#[derive(Clone, Copy)]
pub(crate) enum Exponent {
    /// Scores are products; they are multiplied by this, which is above 0.
    Folded {
        /// scale · log₂ e
        factor: F32,
        /// The slack, in products.
        slack: F32,
    },
    /// Scores are scores.
    Plain,
}

impl Exponent {
    pub(crate) fn new(k: &mut KernelBuilder, folded: bool, inputs: &Inputs) -> Self {
        if folded {
            let factor = inputs.f32(k, Parameter::ScaleLog2);
            Exponent::Folded { factor, slack: inputs.f32(k, Parameter::Slack) }
        } else {
            Exponent::Plain
        }
    }

    /// 2^(the exponent of score − max).
    pub(crate) fn weight(self, k: &mut KernelBuilder, score: F32, max: F32) -> F32 {
        let exponent = match self {
            Exponent::Folded { factor, .. } => {
                let offset = self.offset(k, max);
                k.fma_f32(score, factor, offset)
            }
            Exponent::Plain => {
                let difference = k.sub_f32(score, max);
                k.mul_f32(difference, LOG2_E)
            }
        };
        k.ex2_f32(exponent)
    }

    /// Replaces a row's scores by weights.
    fn weights(self, k: &mut KernelBuilder, scores: &[F32], max: F32) {
        match self {
            Exponent::Folded { factor, .. } => {
                let offset = self.offset(k, max);
                for &score in scores {
                    k.fma_f32_to(score, score, factor, offset);
                }
            }
            Exponent::Plain => {
                for &score in scores {
                    k.sub_f32_to(score, score, max);
                    k.mul_f32_to(score, score, LOG2_E);
                }
            }
        }
        for &score in scores {
            k.ex2_f32_to(score, score);
        }
    }

    fn offset(self, k: &mut KernelBuilder, max: F32) -> F32 {
        let Exponent::Folded { factor, .. } = self else { panic!("only folded scores have one") };
        let offset = k.mul_f32(max, factor);
        k.neg_f32(offset)
    }

    fn raised(self, k: &mut KernelBuilder, max: F32) -> F32 {
        match self {
            Exponent::Folded { slack, .. } => k.add_f32(max, slack),
            Exponent::Plain => k.add_f32(max, SLACK_LOG2 * LN_2),
        }
    }
}

/// A row's state in a thread.
#[derive(Clone, Copy)]
pub(crate) struct RowState {
    /// What scores are compared with; −∞ as long as nothing was seen.
    pub(crate) max: F32,
    /// The sum of the thread's own weights.
    pub(crate) sum: F32,
}

/// The states of a thread's rows.
pub(crate) struct Softmax {
    pub(crate) exponent: Exponent,
    pub(crate) rows: Vec<RowState>,
}

impl Softmax {
    pub(crate) fn new(k: &mut KernelBuilder, exponent: Exponent, fragments: usize) -> Self {
        let row = |_| RowState { max: k.mov_f32(f32::NEG_INFINITY), sum: k.mov_f32(0.0) };
        Softmax { exponent, rows: (0..2 * fragments).map(row).collect() }
    }

    /// Replaces the scores of a tile by weights, and rescales the results so far.
    pub(crate) fn update(&self, k: &mut KernelBuilder, scores: &Fragments, results: &Fragments) {
        let highest: Vec<F32> = (0..self.rows.len())
            .map(|r| {
                let mut max = self.rows[r].max;
                for score in row_of(scores, r) {
                    max = k.max_f32(max, score);
                }
                over_quad(k, max, |k, a, b| k.max_f32(a, b))
            })
            .collect();
        let mut risen = None;
        for (state, &high) in self.rows.iter().zip(&highest) {
            let most = self.exponent.raised(k, state.max);
            let this = k.setp_f32(Gt, high, most);
            risen = Some(match risen {
                None => this,
                Some(other) => k.or_pred(other, this),
            });
        }
        let risen = k.vote_any(risen.expect("a thread has rows"));
        k.if_(risen, |k| {
            for (r, (state, &high)) in self.rows.iter().zip(&highest).enumerate() {
                let reference = finite_or_zero(k, high);
                let factor = self.exponent.weight(k, state.max, reference);
                k.mov_f32_to(state.max, high);
                k.mul_f32_to(state.sum, state.sum, factor);
                for result in row_of(results, r) {
                    k.mul_f32_to(result, result, factor);
                }
            }
        });
        for (r, state) in self.rows.iter().enumerate() {
            let scores = row_of(scores, r);
            let max = finite_or_zero(k, state.max);
            self.exponent.weights(k, &scores, max);
            for score in scores {
                k.add_f32_to(state.sum, state.sum, score);
            }
        }
    }
}

/// The values of row `r` of a thread.
pub(crate) fn row_of(fragments: &Fragments, r: usize) -> Vec<F32> {
    let first = 2 * (r % 2);
    fragments[r / 2].iter().flat_map(|values| [values[first], values[first + 1]]).collect()
}

/// Combines a row's values over the 4 lanes that share it.
pub(crate) fn over_quad(
    k: &mut KernelBuilder,
    mut value: F32,
    combine: impl Fn(&mut KernelBuilder, F32, F32) -> F32,
) -> F32 {
    for mask in [1, 2] {
        let other = k.shfl_bfly_f32(value, mask);
        value = combine(k, value, other);
    }
    value
}

/// The maximum, or 0 where nothing was seen: exponents count from it.
pub(crate) fn finite_or_zero(k: &mut KernelBuilder, max: F32) -> F32 {
    let nothing = k.setp_f32(Eq, max, f32::NEG_INFINITY);
    k.selp_f32(0.0, max, nothing)
}
