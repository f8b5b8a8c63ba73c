//! The vector steps of standard attention, for the benchmark that jhalak is compared with.
//!
//! Matrix products it takes from elsewhere; between them stand the softmax and its gradient, which
//! shall be no slower than jhalak's own, so they are made of the same vectors and the same exp2.

use crate::dispatch::with_f32_isa;
use crate::isa::{ExpFactor, Isa, IsaKind, Op};

/// The most lanes that any instruction set has.
const MAX_LANES: usize = 16;

/// Replaces each row of `cols` scores by its softmax: exp(scale · s) over their sum.
///
/// # Panics
/// If `scores` is not whole rows, or the machine lacks `isa`.
pub fn softmax_rows(isa: IsaKind, scores: &mut [f32], cols: usize, scale: f32) {
    assert!(isa.is_available(), "this machine has no {isa}");
    assert!(cols > 0 && scores.len().is_multiple_of(cols), "whole rows of {cols} scores");
    with_f32_isa!(isa, isa => isa.run(SoftmaxRows { isa, scores, cols, scale }));
}

/// Replaces each row of `cols` weight gradients dp by those of the scores: p · (dp − delta), with
/// one delta per row.
///
/// # Panics
/// If `p` and `dp` are not `delta.len()` rows, or the machine lacks `isa`.
pub fn softmax_gradient_rows(isa: IsaKind, p: &[f32], dp: &mut [f32], delta: &[f32], cols: usize) {
    assert!(isa.is_available(), "this machine has no {isa}");
    let size = delta.len() * cols;
    assert!(cols > 0 && p.len() == size && dp.len() == size, "a row of {cols} for each delta");
    with_f32_isa!(isa, isa => isa.run(GradientRows { isa, p, dp, delta, cols }));
}

struct SoftmaxRows<'a, I> {
    isa: I,
    scores: &'a mut [f32],
    cols: usize,
    scale: f32,
}

impl<I: Isa<Elem = f32>> Op for SoftmaxRows<'_, I> {
    type Output = ();

    #[inline(always)]
    fn eval(self) {
        let isa = self.isa;
        let factor = ExpFactor::new(isa, f64::from(self.scale) * std::f64::consts::LOG2_E);
        for row in self.scores.chunks_exact_mut(self.cols) {
            let mut max = isa.splat(f32::NEG_INFINITY);
            each(
                isa,
                row,
                #[inline(always)]
                |s| {
                    max = isa.max(s, max);
                    s
                },
            );
            let max = isa.splat(isa.reduce_max(max));
            let mut sum = isa.splat(0.0);
            each(
                isa,
                row,
                #[inline(always)]
                |s| {
                    let weight = isa.exp2_scaled(isa.sub(s, max), &factor);
                    sum = isa.add(sum, weight);
                    weight
                },
            );
            let share = isa.splat(1.0 / isa.reduce_add(sum));
            each(
                isa,
                row,
                #[inline(always)]
                |weight| isa.mul(weight, share),
            );
        }
    }
}

struct GradientRows<'a, I> {
    isa: I,
    p: &'a [f32],
    dp: &'a mut [f32],
    delta: &'a [f32],
    cols: usize,
}

impl<I: Isa<Elem = f32>> Op for GradientRows<'_, I> {
    type Output = ();

    #[inline(always)]
    fn eval(self) {
        let (isa, cols) = (self.isa, self.cols);
        let rows = self.p.chunks_exact(cols).zip(self.dp.chunks_exact_mut(cols)).zip(self.delta);
        for ((p, dp), &delta) in rows {
            let deltas = isa.splat(delta);
            let whole = cols / I::LANES * I::LANES;
            for n in (0..whole).step_by(I::LANES) {
                // SAFETY: both rows have LANES elements from n on.
                unsafe {
                    let at = dp.as_mut_ptr().add(n);
                    let p = isa.load(p.as_ptr().add(n));
                    isa.store(at, isa.mul(p, isa.sub(isa.load(at), deltas)));
                }
            }
            for (p, dp) in p[whole..].iter().zip(&mut dp[whole..]) {
                *dp = p * (*dp - delta);
            }
        }
    }
}

/// Replaces each vector of the row by what `f` makes of it. The last one is filled up with −∞,
/// whose maximum and exp2 change nothing.
#[inline(always)]
fn each<I: Isa<Elem = f32>>(isa: I, row: &mut [f32], mut f: impl FnMut(I::Vec) -> I::Vec) {
    let whole = row.len() / I::LANES;
    for n in 0..whole {
        // SAFETY: the row has LANES elements from there on.
        unsafe {
            let at = row.as_mut_ptr().add(n * I::LANES);
            isa.store(at, f(isa.load(at)));
        }
    }
    let rest = &mut row[whole * I::LANES..];
    if !rest.is_empty() {
        let mut filled = [f32::NEG_INFINITY; MAX_LANES];
        filled[..rest.len()].copy_from_slice(rest);
        // SAFETY: MAX_LANES elements are at least one vector.
        unsafe { isa.store(filled.as_mut_ptr(), f(isa.load(filled.as_ptr()))) };
        rest.copy_from_slice(&filled[..rest.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_any_length_become_their_softmax_and_gradient() {
        for isa in IsaKind::available() {
            for cols in 1..70 {
                let scores: Vec<f32> = (0..3 * cols).map(|n| (n * 37 % 53) as f32 - 20.0).collect();
                let (mut p, scale) = (scores.clone(), 0.25f32);
                softmax_rows(isa, &mut p, cols, scale);
                let (delta, before) = ([0.5, -1.0, 2.0], scores.clone());
                let mut dp = before.clone();
                softmax_gradient_rows(isa, &p, &mut dp, &delta, cols);
                for n in 0..3 * cols {
                    let row = &scores[n / cols * cols..][..cols];
                    let exp = |s: f32| f64::from(s * scale).exp();
                    let truth = exp(scores[n]) / row.iter().map(|&s| exp(s)).sum::<f64>();
                    assert!((f64::from(p[n]) - truth).abs() < 1e-6 * (1.0 + truth), "{isa} {cols}");
                    let truth = p[n] * (before[n] - delta[n / cols]);
                    assert!((dp[n] - truth).abs() <= 1e-6 * truth.abs(), "{isa} {cols}");
                }
            }
        }
    }
}
