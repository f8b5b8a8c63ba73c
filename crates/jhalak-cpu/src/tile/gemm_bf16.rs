//! Products of bf16 pairs into f32 accumulators (vdpbf16ps), and softmax weights rounded to bf16.
//!
//! The same register tile as [`gemm`](super::gemm); one instruction multiplies two steps of k.
//! Panels of B hold pairs: [k / 2][NR][2].

use std::arch::x86_64::__m512i;

use half::bf16;

use super::gemm::{Init, Product};
use super::softmax::SoftmaxStep;
use crate::isa::{Avx512Bf16, ExpFactor, Isa, Op};

/// The product, to be run by [`Isa::run`].
pub(crate) struct PairGemm {
    pub(crate) isa: Avx512Bf16,
    pub(crate) rows: usize,
    /// Columns of C: a multiple of LANES.
    pub(crate) cols: usize,
    /// Pairs of k.
    pub(crate) pairs: usize,
    /// Pair (i, k) of A at `a + i·a_row + 2·k`.
    pub(crate) a: *const bf16,
    pub(crate) a_row: usize,
    /// Pair (k, j) of panel p of B at `b + p·b_panel + k·b_row + 2·j`.
    pub(crate) b: *const bf16,
    pub(crate) b_panel: usize,
    pub(crate) b_row: usize,
    pub(crate) c: Product<f32>,
    pub(crate) init: Init<f32>,
}

const LANES: usize = Avx512Bf16::LANES;
const NR: usize = Avx512Bf16::NR;
const MR: usize = Avx512Bf16::MR;

impl PairGemm {
    /// Computes the product.
    ///
    /// # Safety
    /// A, B and an `Init::Scale` are readable and C is writable at the sizes given, and C
    /// overlaps none of them.
    pub(crate) unsafe fn run(self) {
        debug_assert_eq!(self.cols % LANES, 0);
        let isa = self.isa;
        isa.run(self);
    }
}

impl Op for PairGemm {
    type Output = ();

    #[inline(always)]
    fn eval(self) {
        for j in (0..self.cols).step_by(NR) {
            let b = self.b.wrapping_add(j / NR * self.b_panel);
            // SAFETY: inside the sizes that `run` was promised.
            unsafe {
                if self.cols - j >= NR {
                    self.panel::<2>(j, b);
                } else {
                    self.panel::<1>(j, b);
                }
            }
        }
    }
}

impl PairGemm {
    #[inline(always)]
    unsafe fn panel<const N: usize>(&self, j: usize, b: *const bf16) {
        let mut i = 0;
        // SAFETY: as for `run`; the blocks of rows stay inside `rows`.
        unsafe {
            while self.rows - i >= MR {
                self.tile::<MR, N>(i, j, b);
                i += MR;
            }
            while self.rows - i >= 4 {
                self.tile::<4, N>(i, j, b);
                i += 4;
            }
            while i < self.rows {
                self.tile::<1, N>(i, j, b);
                i += 1;
            }
        }
    }

    #[inline(always)]
    unsafe fn tile<const M: usize, const N: usize>(&self, i: usize, j: usize, b: *const bf16) {
        let isa = self.isa;
        // SAFETY: as for `run`. A pair of A is read as one unaligned 32-bit number.
        unsafe {
            let c = self.c.ptr.add(i * self.c.row + j);
            let mut acc = [[isa.splat(0.0); N]; M];
            let mut a = self.a.add(i * self.a_row);
            let mut b = b;
            for _ in 0..self.pairs {
                let mut right: [__m512i; N] = [isa.splat_pair(0); N];
                for (n, x) in right.iter_mut().enumerate() {
                    *x = isa.load_pairs(b.add(2 * n * LANES));
                }
                for (m, row) in acc.iter_mut().enumerate() {
                    let pair = a.add(m * self.a_row).cast::<i32>().read_unaligned();
                    let left = isa.splat_pair(pair);
                    for (n, x) in row.iter_mut().enumerate() {
                        *x = isa.dot_pairs(*x, left, right[n]);
                    }
                }
                a = a.wrapping_add(2);
                b = b.wrapping_add(self.b_row);
            }
            for (m, row) in acc.iter().enumerate() {
                for (n, &x) in row.iter().enumerate() {
                    let at = c.add(m * self.c.row + n * LANES);
                    let sum = match self.init {
                        Init::Zero => x,
                        Init::Add => isa.add(isa.load(at), x),
                        Init::Scale(scale) => {
                            isa.fma(isa.load(at), isa.splat(*scale.add(i + m)), x)
                        }
                    };
                    isa.store(at, sum);
                }
            }
        }
    }
}

/// The online-softmax step with weights rounded to bf16 rows; sums are of the weights before
/// rounding.
pub(crate) struct PairSoftmaxStep {
    /// `cols` is a multiple of two vectors here.
    pub(crate) step: SoftmaxStep<Avx512Bf16>,
    /// Weight (i, j) at `weights + i·stride + j`, the stride being the scores'.
    pub(crate) weights: *mut bf16,
}

impl PairSoftmaxStep {
    /// Takes the step.
    ///
    /// # Safety
    /// As [`SoftmaxStep::run`], and the weights are writable.
    pub(crate) unsafe fn run(self) {
        debug_assert!(self.step.cols > 0 && self.step.cols.is_multiple_of(2 * LANES));
        let isa = self.step.isa;
        isa.run(self);
    }
}

impl Op for PairSoftmaxStep {
    type Output = ();

    #[inline(always)]
    fn eval(self) {
        let (step, isa) = (&self.step, self.step.isa);
        let factor = ExpFactor::new(isa, step.factor);
        for first in (0..step.rows).step_by(LANES) {
            // SAFETY: as promised to `run`.
            unsafe {
                let (bases, count) = step.begin_rows(first, &factor);
                for (n, &base) in bases.iter().enumerate().take(count) {
                    let (i, base) = (first + n, isa.splat(base));
                    let s = step.s.add(i * step.stride);
                    let weights = self.weights.add(i * step.stride);
                    let mut sums = [isa.splat(0.0); 2];
                    for j in (0..step.cols).step_by(2 * LANES) {
                        let low = step.weights(base, &factor, s.add(j));
                        let high = step.weights(base, &factor, s.add(j + LANES));
                        sums = [isa.add(sums[0], low), isa.add(sums[1], high)];
                        isa.store_pairs(weights.add(j), isa.round_to_bf16(low, high));
                    }
                    step.end_row(i, isa.add(sums[0], sums[1]));
                }
            }
        }
    }
}

/// Rounds a tile of f32 weights to bf16 rows.
pub(crate) struct RoundTile {
    pub(crate) isa: Avx512Bf16,
    pub(crate) rows: usize,
    /// A multiple of two vectors.
    pub(crate) cols: usize,
    pub(crate) s: *const f32,
    pub(crate) weights: *mut bf16,
    /// Elements from row to row, of both tiles.
    pub(crate) stride: usize,
}

impl RoundTile {
    /// # Safety
    /// The tiles are readable and writable at the sizes given.
    pub(crate) unsafe fn run(self) {
        let isa = self.isa;
        isa.run(self);
    }
}

impl Op for RoundTile {
    type Output = ();

    #[inline(always)]
    fn eval(self) {
        let isa = self.isa;
        for i in 0..self.rows {
            for j in (0..self.cols).step_by(2 * LANES) {
                // SAFETY: as promised to `run`.
                unsafe {
                    let s = self.s.add(i * self.stride + j);
                    let (low, high) = (isa.load(s), isa.load(s.add(LANES)));
                    let weights = self.weights.add(i * self.stride + j);
                    isa.store_pairs(weights, isa.round_to_bf16(low, high));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::softmax::SoftmaxRows;
    use super::*;

    /// Exact in bf16: multiples of 2^-4 below 2. Their products' sums are exact in f32.
    fn number(n: usize) -> bf16 {
        bf16::from_f32(((n * 7919 + 13) % 61) as f32 / 16.0 - 1.875)
    }

    /// Whether this machine can run these tests at all; those that cannot say so.
    fn isa() -> Option<Avx512Bf16> {
        let isa = Avx512Bf16::new();
        if isa.is_none() {
            eprintln!("not run: this machine has no avx512bf16");
        }
        isa
    }

    fn product(isa: Avx512Bf16, rows: usize, cols: usize, pairs: usize, init: usize) {
        let panels = cols.div_ceil(NR);
        let (a_row, stride) = (2 * pairs + 2, cols + 3);
        let a: Vec<bf16> = (0..rows * a_row).map(number).collect();
        let b: Vec<bf16> = (0..panels * pairs * 2 * NR + 1).map(|n| number(n + 5)).collect();
        let scale: Vec<f32> = (0..rows).map(|n| number(n + 9).to_f32()).collect();
        let before: Vec<f32> = (0..rows * stride).map(|n| number(n + 11).to_f32()).collect();
        let mut c = before.clone();
        let product = PairGemm {
            isa,
            rows,
            cols,
            pairs,
            a: a.as_ptr(),
            a_row,
            b: b.as_ptr(),
            b_panel: pairs * 2 * NR,
            b_row: 2 * NR,
            c: Product { ptr: c.as_mut_ptr(), row: stride },
            init: [Init::Zero, Init::Add, Init::Scale(scale.as_ptr())][init],
        };
        // SAFETY: the vectors are as large as the sizes say.
        unsafe { product.run() };
        for i in 0..rows {
            for j in 0..stride {
                let old = before[i * stride + j];
                let mut truth = [0.0, old, old * scale[i]][init];
                for k in 0..2 * pairs {
                    let at =
                        |j: usize| j / NR * pairs * 2 * NR + k / 2 * 2 * NR + j % NR * 2 + k % 2;
                    if j < cols {
                        truth += a[i * a_row + k].to_f32() * b[at(j)].to_f32();
                    }
                }
                let truth = if j < cols { truth } else { old };
                assert_eq!(c[i * stride + j], truth, "{rows} {cols} {pairs} {init}: {i} {j}");
            }
        }
    }

    #[test]
    fn products_of_pairs_are_exact_on_every_tail() {
        let Some(isa) = isa() else { return };
        for rows in 1..=2 * MR + 5 {
            for vectors in [1, 2, 3, 5] {
                for pairs in [0, 1, 4] {
                    for init in 0..3 {
                        product(isa, rows, vectors * LANES, pairs, init);
                    }
                }
            }
        }
    }

    /// Every weight has a value of its own, so an order of halves that is wrong shows.
    #[test]
    fn rounded_weights_stand_in_the_order_of_their_scores() {
        let Some(isa) = isa() else { return };
        let (rows, cols, stride) = (3, 4 * LANES, 4 * LANES + 6);
        let scores: Vec<f32> = (0..rows * stride).map(|n| (n as f32) / -16.0).collect();
        let mut rounded = vec![bf16::NAN; rows * stride];
        let (s, weights) = (scores.as_ptr(), rounded.as_mut_ptr());
        // SAFETY: the vectors are as large as the sizes say.
        unsafe { RoundTile { isa, rows, cols, s, weights, stride }.run() };
        let (mut s, mut weights) = (scores.clone(), vec![bf16::NAN; rows * stride]);
        let (mut max, mut sum, mut alpha) = ([f32::NEG_INFINITY; 3], [0.0; 3], [7.0; 3]);
        let state =
            SoftmaxRows { max: max.as_mut_ptr(), sum: sum.as_mut_ptr(), alpha: alpha.as_mut_ptr() };
        let step = SoftmaxStep { isa, rows, cols, s: s.as_mut_ptr(), stride, factor: 1.0, state };
        // SAFETY: as above.
        unsafe { PairSoftmaxStep { step, weights: weights.as_mut_ptr() }.run() };
        for i in 0..rows {
            let row = &scores[i * stride..][..cols];
            let total: f64 = row.iter().map(|&x| f64::from(x - row[0]).exp2()).sum();
            assert!((f64::from(sum[i]) - total).abs() < 1e-6 * total);
            for j in 0..stride {
                let n = i * stride + j;
                if j >= cols {
                    assert!(rounded[n].is_nan() && weights[n].is_nan());
                    continue;
                }
                // bf16::from_f32 rounds to nearest even, as the instruction does.
                assert_eq!(rounded[n], bf16::from_f32(scores[n]), "{i} {j}");
                let truth = (scores[n] - row[0]).exp2();
                let error = (weights[n].to_f32() - truth).abs();
                assert!(error <= truth * 2f32.powi(-8), "{i} {j}");
            }
        }
    }
}
