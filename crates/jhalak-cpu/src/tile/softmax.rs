//! One step of the online softmax on a tile of scores (Milakov & Gimelshein, 2018).
//!
//! Per row: the maximum grows to m', what was summed and accumulated before is rescaled by
//! α = 2^(c·(m − m')), the scores s become weights 2^(c·(s − m')), and their sum is added.
//! The difference is taken before the factor is applied, so that scores up to the largest finite
//! number stay finite.

use crate::isa::{ExpFactor, Float, Isa, MAX_LANES, Op};

/// The running state of a tile's rows, one element per row.
#[derive(Clone, Copy)]
pub(crate) struct SoftmaxRows<E> {
    pub(crate) max: *mut E,
    pub(crate) sum: *mut E,
    /// Written: what the accumulated output of the row is to be multiplied by.
    pub(crate) alpha: *mut E,
}

/// The step, to be run by [`Isa::run`]. A row that holds NaN or +∞ gets a NaN sum; a row of −∞
/// alone keeps its state.
pub(crate) struct SoftmaxStep<I: Isa> {
    pub(crate) isa: I,
    pub(crate) rows: usize,
    /// A multiple of LANES, at least one vector.
    pub(crate) cols: usize,
    /// Scores in, weights out; element (i, j) at `s + i·stride + j`.
    pub(crate) s: *mut I::Elem,
    pub(crate) stride: usize,
    /// The factor c, above 0.
    pub(crate) factor: f64,
    pub(crate) state: SoftmaxRows<I::Elem>,
}

impl<I: Isa> SoftmaxStep<I> {
    /// Takes the step.
    ///
    /// # Safety
    /// The tile and the rows' state are readable and writable at the sizes given.
    pub(crate) unsafe fn run(self) {
        debug_assert!(self.cols > 0 && self.cols.is_multiple_of(I::LANES));
        let isa = self.isa;
        isa.run(self);
    }
}

impl<I: Isa> Op for SoftmaxStep<I> {
    type Output = ();

    #[inline(always)]
    fn eval(self) {
        let isa = self.isa;
        let factor = ExpFactor::new(isa, self.factor);
        for first in (0..self.rows).step_by(I::LANES) {
            // SAFETY: as promised to `run`.
            unsafe {
                let (bases, count) = self.begin_rows(first, &factor);
                for (n, &base) in bases.iter().enumerate().take(count) {
                    let (s, base) = (self.s.add((first + n) * self.stride), isa.splat(base));
                    let mut sum = isa.splat(I::Elem::ZERO);
                    for j in (0..self.cols).step_by(I::LANES) {
                        let weights = self.weights(base, &factor, s.add(j));
                        sum = isa.add(sum, weights);
                        isa.store(s.add(j), weights);
                    }
                    self.end_row(first + n, sum);
                }
            }
        }
    }
}

impl<I: Isa> SoftmaxStep<I> {
    /// Raises the maxima of a vector of rows from `first` on, or as many as there are; writes α of
    /// each and rescales its sum. Gives what is subtracted from the scores of each, and their number.
    ///
    /// # Safety
    /// As [`run`](Self::run).
    #[inline(always)]
    pub(super) unsafe fn begin_rows(
        &self,
        first: usize,
        factor: &ExpFactor<I::Vec>,
    ) -> ([I::Elem; MAX_LANES], usize) {
        let isa = self.isa;
        let count = (self.rows - first).min(I::LANES);
        let (mut bases, mut alphas) = ([I::Elem::ZERO; MAX_LANES], [I::Elem::ZERO; MAX_LANES]);
        // SAFETY: the caller's promise; the arrays hold a vector.
        unsafe {
            for n in 0..count {
                let s = self.s.add((first + n) * self.stride);
                let mut highest = isa.load(s);
                for j in (I::LANES..self.cols).step_by(I::LANES) {
                    highest = isa.max(isa.load(s.add(j)), highest);
                }
                let (old, new) = (*self.state.max.add(first + n), isa.reduce_max(highest));
                let max = if new > old { new } else { old };
                *self.state.max.add(first + n) = max;
                // Nothing visible yet: any base but −∞ gives weights of 0.
                bases[n] = if max == I::Elem::NEG_INFINITY { I::Elem::ZERO } else { max };
                alphas[n] = old - bases[n];
            }
            let alpha = isa.exp2_scaled(isa.load(alphas.as_ptr()), factor);
            isa.store(alphas.as_mut_ptr(), alpha);
            for (n, &alpha) in alphas.iter().enumerate().take(count) {
                *self.state.alpha.add(first + n) = alpha;
                let sum = self.state.sum.add(first + n);
                *sum = *sum * alpha;
            }
        }
        (bases, count)
    }

    /// Weights of one vector of scores.
    ///
    /// # Safety
    /// One vector is readable at `s`.
    #[inline(always)]
    pub(super) unsafe fn weights(
        &self,
        base: I::Vec,
        factor: &ExpFactor<I::Vec>,
        s: *const I::Elem,
    ) -> I::Vec {
        let isa = self.isa;
        // SAFETY: the caller's promise.
        let s = unsafe { isa.load(s) };
        isa.exp2_scaled(isa.sub(s, base), factor)
    }

    /// Adds the row's weights to its sum.
    ///
    /// # Safety
    /// As [`run`](Self::run).
    #[inline(always)]
    pub(super) unsafe fn end_row(&self, i: usize, sum: I::Vec) {
        // SAFETY: the caller's promise.
        unsafe {
            let total = self.state.sum.add(i);
            *total = *total + self.isa.reduce_add(sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::for_each_f32_isa;
    use crate::isa::Scalar;

    /// Takes steps over rows of scores; gives max, sum, α of the last step and all weights.
    fn steps<I: Isa>(isa: I, factor: f64, tiles: &[Vec<f64>]) -> (f64, f64, f64, Vec<f64>) {
        let e = I::Elem::from_f64;
        let (mut max, mut sum, mut alpha) = (I::Elem::NEG_INFINITY, I::Elem::ZERO, e(7.0));
        let mut last = Vec::new();
        for tile in tiles {
            let mut s: Vec<I::Elem> = tile.iter().map(|&x| e(x)).collect();
            s.resize(s.len().next_multiple_of(I::LANES), I::Elem::NEG_INFINITY);
            let state = SoftmaxRows { max: &mut max, sum: &mut sum, alpha: &mut alpha };
            let (cols, stride) = (s.len(), s.len());
            let step = SoftmaxStep { isa, rows: 1, cols, s: s.as_mut_ptr(), stride, factor, state };
            // SAFETY: one row, as long as the vector.
            unsafe { step.run() };
            last = s[..tile.len()].iter().map(|x| x.to_f64()).collect();
        }
        (max.to_f64(), sum.to_f64(), alpha.to_f64(), last)
    }

    fn check<I: Isa>(isa: I) {
        let inf = f64::INFINITY;
        // Two steps equal the definition.
        let first: Vec<f64> = (0..37).map(|n| (n * 17 % 29) as f64 / 4.0).collect();
        let second: Vec<f64> = (0..19).map(|n| (n * 13 % 23) as f64 / 2.0 - 3.0).collect();
        let all: Vec<f64> = first.iter().chain(&second).copied().collect();
        let (max, sum, alpha, weights) = steps(isa, 1.5, &[first.clone(), second.clone()]);
        let truth = all.iter().fold(-inf, |m, &x| m.max(x));
        assert_eq!(max, truth);
        let total: f64 = all.iter().map(|x| (1.5 * (x - max)).exp2()).sum();
        assert!((sum - total).abs() < 1e-6 * total, "{sum} {total}");
        assert!((alpha - (1.5 * (7.0 - max)).exp2()).abs() < 1e-6);
        for (w, s) in weights.iter().zip(&second) {
            assert!((w - (1.5 * (s - max)).exp2()).abs() < 1e-6);
        }
        // A row of −∞ keeps its state, before and after others.
        let hidden = vec![-inf; 20];
        let (max, sum, alpha, weights) = steps(isa, 1.0, std::slice::from_ref(&hidden));
        assert_eq!((max, sum, alpha), (-inf, 0.0, 0.0));
        assert!(weights.iter().all(|&w| w == 0.0));
        let (max, sum, alpha, _) = steps(isa, 1.0, &[vec![2.0; 8], hidden.clone()]);
        assert_eq!((max, sum, alpha), (2.0, 8.0, 1.0));
        let (max, sum, ..) = steps(isa, 1.0, &[hidden, vec![2.0; 8]]);
        assert_eq!((max, sum), (2.0, 8.0));
        // The largest finite scores.
        let (max, sum, _, weights) = steps(isa, 1.5, &[vec![-3e38, 3e38, 3e38]]);
        assert_eq!((max as f32, sum, &weights[..]), (3e38f32, 2.0, &[0.0, 1.0, 1.0][..]));
        // NaN and +∞ spoil the row's sum wherever they stand, also against nothing visible.
        for spoiler in [f64::NAN, inf] {
            for place in 0..40 {
                let mut s = vec![1.0; 40];
                s[place] = spoiler;
                assert!(steps(isa, 1.0, &[s]).1.is_nan());
            }
            assert!(steps(isa, 1.0, &[vec![-inf, spoiler, -inf]]).1.is_nan());
            assert!(steps(isa, 1.0, &[vec![spoiler], vec![1.0]]).1.is_nan());
        }
    }

    #[test]
    fn steps_follow_the_definition_and_special_values_stay_in_their_row() {
        for_each_f32_isa!(check);
        check(Scalar::<f64>::new());
    }
}
