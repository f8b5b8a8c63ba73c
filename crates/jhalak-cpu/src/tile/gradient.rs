//! The backward's elementwise part on a tile: P from scores and lse, dS from P and dP.

use crate::isa::{ExpFactor, Float, Isa, Op};

/// P = 2^(log₂e · (scale·s − lse)) in place of the scores. A row whose lse is −∞ sees nothing:
/// its P is 0.
pub(crate) struct Probabilities<I: Isa> {
    pub(crate) isa: I,
    pub(crate) rows: usize,
    /// A multiple of LANES.
    pub(crate) cols: usize,
    /// Element (i, j) at `s + i·stride + j`.
    pub(crate) s: *mut I::Elem,
    pub(crate) stride: usize,
    pub(crate) scale: f64,
    /// One element per row.
    pub(crate) lse: *const I::Elem,
}

impl<I: Isa> Probabilities<I> {
    /// # Safety
    /// The tile is readable and writable, lse readable, at the sizes given.
    pub(crate) unsafe fn run(self) {
        let isa = self.isa;
        isa.run(self);
    }
}

impl<I: Isa> Op for Probabilities<I> {
    type Output = ();

    #[inline(always)]
    fn eval(self) {
        let isa = self.isa;
        // In two parts, as the factor: scores may be large.
        let high = I::Elem::from_f64(self.scale);
        let low = isa.splat(I::Elem::from_f64(high.to_f64() - self.scale));
        let (high, zero) = (isa.splat(-high), isa.splat(I::Elem::ZERO));
        // −∞ would meet a low part of 0 or of the other sign; this far down is as far.
        let lowest = isa.splat(I::Elem::from_f32(f32::MIN));
        let log2_e = ExpFactor::new(isa, std::f64::consts::LOG2_E);
        for i in 0..self.rows {
            // SAFETY: as promised to `run`.
            unsafe {
                let s = self.s.add(i * self.stride);
                let lse = *self.lse.add(i);
                if lse == I::Elem::NEG_INFINITY {
                    std::slice::from_raw_parts_mut(s, self.cols).fill(I::Elem::ZERO);
                    continue;
                }
                let lse = isa.splat(lse);
                for j in (0..self.cols).step_by(I::LANES) {
                    let x = isa.max(lowest, isa.load(s.add(j)));
                    // Never above 1: the forward may have summed a huge score in another order.
                    let below = isa.max(zero, isa.fma(x, low, isa.fma(x, high, lse)));
                    isa.store(s.add(j), isa.exp2_scaled(isa.sub(zero, below), &log2_e));
                }
            }
        }
    }
}

/// dS = P ∘ (dP − delta) in place of dP, and 0 wherever P is 0.
pub(crate) struct ScoreGradient<I: Isa> {
    pub(crate) isa: I,
    pub(crate) rows: usize,
    /// A multiple of LANES.
    pub(crate) cols: usize,
    pub(crate) p: *const I::Elem,
    pub(crate) dp: *mut I::Elem,
    /// Elements from row to row, of both tiles.
    pub(crate) stride: usize,
    /// One element per row.
    pub(crate) delta: *const I::Elem,
}

impl<I: Isa> ScoreGradient<I> {
    /// # Safety
    /// Both tiles and delta are readable, and dP writable, at the sizes given.
    pub(crate) unsafe fn run(self) {
        let isa = self.isa;
        isa.run(self);
    }
}

impl<I: Isa> Op for ScoreGradient<I> {
    type Output = ();

    #[inline(always)]
    fn eval(self) {
        let isa = self.isa;
        for i in 0..self.rows {
            // SAFETY: as promised to `run`.
            unsafe {
                let (p, dp) = (self.p.add(i * self.stride), self.dp.add(i * self.stride));
                let delta = isa.splat(*self.delta.add(i));
                for j in (0..self.cols).step_by(I::LANES) {
                    let weights = isa.load(p.add(j));
                    let ds = isa.mul(weights, isa.sub(isa.load(dp.add(j)), delta));
                    // An infinite dP or delta must not make NaN of a key that is not visible.
                    isa.store(dp.add(j), isa.zero_unless(weights, ds));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::for_each_f32_isa;
    use crate::isa::Scalar;

    fn check<I: Isa>(isa: I) {
        let e = I::Elem::from_f64;
        let (rows, cols, stride) = (3, 2 * I::LANES, 2 * I::LANES + 5);
        let score = |n: usize| if n % 7 == 3 { f64::NEG_INFINITY } else { n as f64 / 50.0 - 1.0 };
        let mut s: Vec<I::Elem> = (0..rows * stride).map(|n| e(score(n))).collect();
        let lse = [2.5, f64::NEG_INFINITY, 1.5].map(e);
        let probabilities = Probabilities {
            isa,
            rows,
            cols,
            s: s.as_mut_ptr(),
            stride,
            scale: 0.75,
            lse: lse.as_ptr(),
        };
        // SAFETY: the vectors are as large as the sizes say.
        unsafe { probabilities.run() };
        let mut dp: Vec<I::Elem> = (0..rows * stride).map(|n| e(n as f64 / 9.0)).collect();
        let before = dp.clone();
        dp[3] = e(f64::INFINITY);
        let delta = [0.5, f64::NAN, 2.0].map(e);
        let gradient = ScoreGradient {
            isa,
            rows,
            cols,
            p: s.as_ptr(),
            dp: dp.as_mut_ptr(),
            stride,
            delta: delta.as_ptr(),
        };
        // SAFETY: as above.
        unsafe { gradient.run() };
        for i in 0..rows {
            for j in 0..cols {
                let n = i * stride + j;
                let seen = i != 1 && n % 7 != 3;
                let p = if seen { (0.75 * score(n) - lse[i].to_f64()).exp() } else { 0.0 };
                assert!((s[n].to_f64() - p).abs() < 1e-6 * (1.0 + p), "{isa:?} {i} {j}");
                let ds = if seen { p * (before[n].to_f64() - delta[i].to_f64()) } else { 0.0 };
                let bound = 1e-5 * (1.0 + ds.abs());
                assert!((dp[n].to_f64() - ds).abs() < bound, "{isa:?} {i} {j}");
            }
            for j in cols..stride {
                assert_eq!(dp[i * stride + j], before[i * stride + j]);
            }
        }
    }

    #[test]
    fn gradients_follow_the_definition_and_hidden_keys_stay_zero() {
        for_each_f32_isa!(check);
        check(Scalar::<f64>::new());
    }
}
