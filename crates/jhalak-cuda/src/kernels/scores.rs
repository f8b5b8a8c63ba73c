//! From the product of a query and a key to their score (semantics, section 2).

use jhalak_ptx::Comparison::{Eq, Lt};
use jhalak_ptx::{B32, B64, Connective, F32, KernelBuilder, Pred};

use super::class;
use super::element::Element;
use super::guarded::{load_byte, load_float};
use super::parameters::{Axis, Inputs, Parameter, Tensor};
use super::row::Row;

const LOG2_E: f32 = std::f32::consts::LOG2_E;

/// What the rows of a block share.
#[derive(Clone)]
pub(crate) struct Scores {
    class: class::Scores,
    batch: B32,
    scale: F32,
    cap: Option<Cap>,
    start: Option<B32>,
    columns: Columns,
}

#[derive(Clone, Copy)]
struct Cap {
    cap: F32,
    scale_over_cap: F32,
}

/// What score-shaped tensors have: their size, where they are not broadcast, and their strides.
#[derive(Clone, Copy)]
struct Columns {
    sizes: Option<(B32, B32)>,
    bias: Option<B64>,
    mask: Option<B64>,
}

/// What one row needs for its scores.
#[derive(Clone, Copy)]
pub(crate) struct RowScores {
    slope: Option<Alibi>,
    bias: Option<B64>,
    mask: Option<B64>,
    /// Whether bias and mask have this row.
    inside: Option<Pred>,
}

#[derive(Clone, Copy)]
struct Alibi {
    slope: F32,
    /// The query's position, from which those of keys are counted.
    position: B32,
}

impl Scores {
    /// For sequence `batch`, whose queries are moved by `alignment`.
    pub(crate) fn new(
        k: &mut KernelBuilder,
        scores: class::Scores,
        inputs: &Inputs,
        batch: B32,
        alignment: B32,
    ) -> Self {
        let cap = scores.softcap.then(|| Cap {
            cap: inputs.f32(k, Parameter::Softcap),
            scale_over_cap: inputs.f32(k, Parameter::ScaleOverCap),
        });
        let start = scores.alibi.then(|| {
            let start = inputs.u32(k, Parameter::Start);
            k.add_u32(start, alignment)
        });
        let shaped = scores.bias.is_some() || scores.mask;
        let columns = Columns {
            sizes: shaped.then(|| {
                (inputs.u32(k, Parameter::ScoreRows), inputs.u32(k, Parameter::ScoreColumns))
            }),
            bias: scores.bias.map(|_| inputs.stride(k, Tensor::Bias, Axis::Column)),
            mask: scores.mask.then(|| inputs.stride(k, Tensor::Mask, Axis::Column)),
        };
        let scale = inputs.f32(k, Parameter::Scale);
        Scores { class: scores, batch, scale, cap, start, columns }
    }

    /// Prepares a row; `used` says whether it belongs to the sequence.
    pub(crate) fn row(
        &self,
        k: &mut KernelBuilder,
        inputs: &Inputs,
        row: &Row,
        used: Pred,
    ) -> RowScores {
        let slope = self.start.map(|start| {
            let base = inputs.base(k, Tensor::Alibi);
            let place = inputs.advance(k, base, self.batch, Tensor::Alibi, Axis::Batch);
            let place = inputs.advance(k, place, row.head, Tensor::Alibi, Axis::Head);
            let slope = load_float(k, Element::F32, used, place);
            Alibi { slope, position: k.add_u32(row.i, start) }
        });
        let mut shaped = |given: bool, tensor| {
            given.then(|| {
                let base = inputs.base(k, tensor);
                let place = inputs.advance(k, base, self.batch, tensor, Axis::Batch);
                let place = inputs.advance(k, place, row.head, tensor, Axis::Head);
                inputs.advance(k, place, row.i, tensor, Axis::Row)
            })
        };
        let bias = shaped(self.class.bias.is_some(), Tensor::Bias);
        let mask = shaped(self.class.mask, Tensor::Mask);
        let inside = self
            .columns
            .sizes
            .map(|(rows, _)| k.setp_u32_with(Lt, row.i, rows, Connective::And, used));
        RowScores { slope, bias, mask, inside }
    }

    /// The score of a row's product with key `j` of `used_k`, −∞ where bias or mask hide it; in
    /// units of products if scores are folded into the exponent.
    pub(crate) fn score(
        &self,
        k: &mut KernelBuilder,
        row: &RowScores,
        product: F32,
        j: B32,
        used_k: B32,
    ) -> F32 {
        self.score_and_tanh(k, row, product, j, used_k).0
    }

    /// The same, and the score's ratio to the cap before anything was added, if there is a cap.
    pub(crate) fn score_and_tanh(
        &self,
        k: &mut KernelBuilder,
        row: &RowScores,
        product: F32,
        j: B32,
        used_k: B32,
    ) -> (F32, Option<F32>) {
        let (mut score, tanh) =
            if self.class.folded { (product, None) } else { self.scaled(k, product) };
        let inside = self.inside(k, row, j, used_k);
        if let Some((element, base, inside)) = zip(self.class.bias, row.bias, inside) {
            let place = along(k, base, j, self.columns.bias);
            let bias = load_float(k, element, inside, place);
            let hidden = k.setp_f32(Eq, bias, f32::NEG_INFINITY);
            let sum = k.add_f32(score, bias);
            score = k.selp_f32(f32::NEG_INFINITY, sum, hidden);
        }
        if let Some(Alibi { slope, position }) = row.slope {
            let distance = k.sub_u32(position, j);
            let distance = k.abs_s32(distance);
            let distance = k.cvt_f32_s32(distance);
            let slope = k.neg_f32(slope);
            score = k.fma_f32(slope, distance, score);
        }
        if let Some((base, inside)) = row.mask.zip(inside) {
            let place = along(k, base, j, self.columns.mask);
            let seen = load_byte(k, inside, place);
            let hidden = k.setp_u32(Eq, seen, 0);
            score = k.selp_f32(f32::NEG_INFINITY, score, hidden);
        }
        (score, tanh)
    }

    /// Whether bias and mask have key `j` of `used_k` in this row, if there is one of them.
    pub(crate) fn inside(
        &self,
        k: &mut KernelBuilder,
        row: &RowScores,
        j: B32,
        used_k: B32,
    ) -> Option<Pred> {
        let (inside, (_, columns)) = row.inside.zip(self.columns.sizes)?;
        let inside = k.setp_u32_with(Lt, j, columns, Connective::And, inside);
        Some(k.setp_u32_with(Lt, j, used_k, Connective::And, inside))
    }

    /// scale · product, capped, and its ratio to the cap.
    fn scaled(&self, k: &mut KernelBuilder, product: F32) -> (F32, Option<F32>) {
        match &self.cap {
            None => (k.mul_f32(product, self.scale), None),
            Some(Cap { cap, scale_over_cap }) => {
                let ratio = k.mul_f32(product, *scale_over_cap);
                let tanh = tanh(k, ratio);
                (k.mul_f32(tanh, *cap), Some(tanh))
            }
        }
    }

    /// The same with the scale in the scores.
    pub(crate) fn unfolded(&self) -> Self {
        Scores { class: class::Scores { folded: false, ..self.class }, ..self.clone() }
    }

    /// Whether score() changes anything before the softmax, beside the scale.
    pub(crate) fn is_plain(&self) -> bool {
        let class::Scores { folded, bias, mask, alibi, .. } = self.class;
        folded && bias.is_none() && !mask && !alibi
    }
}

fn zip<A, B, C>(a: Option<A>, b: Option<B>, c: Option<C>) -> Option<(A, B, C)> {
    Some((a?, b?, c?))
}

fn along(k: &mut KernelBuilder, base: B64, j: B32, stride: Option<B64>) -> B64 {
    let stride = stride.expect("a tensor has a stride");
    let j = k.cvt_u64_u32(j);
    k.mad_lo_u64(j, stride, base)
}

/// tanh, to about 3e-7 relative; `tanh.approx` errs by 5e-4.
///
/// From 0.35 on it is 1 − 2 / (exp(2|x|) + 1); below, where that cancels, its Taylor series.
pub(crate) fn tanh(k: &mut KernelBuilder, x: F32) -> F32 {
    let magnitude = k.abs_f32(x);
    let exponent = k.mul_f32(magnitude, 2.0 * LOG2_E);
    let exponential = k.ex2_f32(exponent);
    let plus_one = k.add_f32(exponential, 1.0);
    let inverse = k.rcp_f32(plus_one);
    let large = k.fma_f32(inverse, -2.0, 1.0);
    let bits = k.bits_of_f32(large);
    let sign = k.bits_of_f32(x);
    let sign = k.and_b32(sign, i32::MIN);
    let bits = k.or_b32(bits, sign);
    let large = k.f32_of_bits(bits);

    let square = k.mul_f32(x, x);
    let mut sum = k.mov_f32(SERIES[0]);
    for coefficient in &SERIES[1..] {
        sum = k.fma_f32(sum, square, *coefficient);
    }
    let cube = k.mul_f32(square, x);
    let small = k.fma_f32(cube, sum, x);
    let is_small = k.setp_f32(Lt, magnitude, 0.35);
    k.selp_f32(small, large, is_small)
}

/// tanh x = x + x³ · (−1/3 + 2/15 x² − 17/315 x⁴ + 62/2835 x⁶ − 1382/155925 x⁸), last first.
const SERIES: [f32; 5] =
    [-1382.0 / 155_925.0, 62.0 / 2835.0, -17.0 / 315.0, 2.0 / 15.0, -1.0 / 3.0];
