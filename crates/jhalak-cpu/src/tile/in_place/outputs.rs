//! Outputs of a few rows.

use super::{Rows, Stored, with_format};
use crate::isa::{Float, Isa, Op};

/// One head's outputs: `o[row] = alpha[row]·o[row] + Σ_key w[row][key]·v[key]`.
pub(crate) struct Outputs<I: Isa> {
    pub(crate) isa: I,
    pub(crate) values: Rows,
    pub(crate) keys: usize,
    pub(crate) rows: usize,
    /// Columns, a multiple of LANES, and elements from one row of outputs to the next.
    pub(crate) width: usize,
    pub(crate) weights: *const I::Elem,
    /// Elements from one row of weights to the next.
    pub(crate) stride: usize,
    pub(crate) alpha: *const I::Elem,
    pub(crate) o: *mut I::Elem,
}

impl<I: Isa> Outputs<I> {
    /// Computes the outputs.
    ///
    /// # Safety
    /// Values, weights and factors are readable and outputs writable at the sizes given.
    pub(crate) unsafe fn run(self) {
        debug_assert!(self.width.is_multiple_of(I::LANES));
        let isa = self.isa;
        isa.run(self);
    }
}

impl<I: Isa> Op for Outputs<I> {
    type Output = ();

    #[inline(always)]
    fn eval(self) {
        with_format!(self.values.format, S => self.all_rows::<S>());
    }
}

impl<I: Isa> Outputs<I> {
    #[inline(always)]
    fn all_rows<S: Stored>(&self) {
        let mut row = 0;
        // SAFETY: as promised to `run`; rows stay inside the sizes.
        unsafe {
            while self.rows - row >= 4 {
                self.columns::<S, 4, 2>(row);
                row += 4;
            }
            match self.rows - row {
                0 => {}
                1 => self.columns::<S, 1, 8>(row),
                2 => self.columns::<S, 2, 4>(row),
                _ => self.columns::<S, 3, 2>(row),
            }
        }
    }

    /// All columns of R rows, N vectors at a time.
    #[inline(always)]
    unsafe fn columns<S: Stored, const R: usize, const N: usize>(&self, row: usize) {
        let mut column = 0;
        // SAFETY: as for `run`.
        unsafe {
            while self.width - column >= N * I::LANES {
                self.block::<S, R, N>(row, column);
                column += N * I::LANES;
            }
            while column < self.width {
                self.block::<S, R, 1>(row, column);
                column += I::LANES;
            }
        }
    }

    #[inline(always)]
    unsafe fn block<S: Stored, const R: usize, const N: usize>(&self, row: usize, column: usize) {
        let isa = self.isa;
        let zero = isa.splat(I::Elem::ZERO);
        let mut sums = [[zero; N]; R];
        // SAFETY: as for `run`.
        unsafe {
            let weights = self.weights.add(row * self.stride);
            for key in 0..self.keys {
                let values = self.values.row(key);
                let mut v = [zero; N];
                for (n, v) in v.iter_mut().enumerate() {
                    let at = (column + n * I::LANES) * S::bytes::<I>();
                    *v = S::load(isa, values.wrapping_add(at));
                }
                for (r, sums) in sums.iter_mut().enumerate() {
                    let weight = isa.splat(*weights.add(r * self.stride + key));
                    for (sum, &v) in sums.iter_mut().zip(&v) {
                        *sum = isa.fma(weight, v, *sum);
                    }
                }
            }
            for (r, sums) in sums.iter().enumerate() {
                let alpha = isa.splat(*self.alpha.add(row + r));
                for (n, &sum) in sums.iter().enumerate() {
                    let o = self.o.add((row + r) * self.width + column + n * I::LANES);
                    isa.store(o, isa.fma(isa.load(o), alpha, sum));
                }
            }
        }
    }
}
