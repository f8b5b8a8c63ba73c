//! C = A·B, added to what C holds or not, on a register tile: MR rows by two vectors of accumulators.
//!
//! ```text
//!              B  k rows of one panel, two vectors wide, read in order
//!              ┌─────┬─────┐
//!   A          │ ··· │ ··· │      for each k: two loads of B, MR broadcasts of A,
//!  ┌───┐       └─────┴─────┘      2·MR multiply-adds into registers
//!  │ k │ MR    ┌─────┬─────┐
//!  └───┘       │  accumulators C, kept in registers over all k
//!              └─────┴─────┘
//! ```
//!
//! A's strides are free, so A may be read transposed. A row of C depends on its own row of A only,
//! and sums over k in order: how rows are grouped never shows in the result.

use crate::isa::{Float, Isa, Op};

/// Where A is: element (i, k) at `ptr + i·row + k·col`.
#[derive(Clone, Copy)]
pub(crate) struct Left<E> {
    pub(crate) ptr: *const E,
    pub(crate) row: usize,
    pub(crate) col: usize,
}

/// Where B is: element (k, j) of panel p at `ptr + p·panel + k·row + j`, NR columns to a panel.
/// The last panel may be one vector wide.
#[derive(Clone, Copy)]
pub(crate) struct Right<E> {
    pub(crate) ptr: *const E,
    pub(crate) panel: usize,
    pub(crate) row: usize,
}

/// Where C is: element (i, j) at `ptr + i·row + j`.
#[derive(Clone, Copy)]
pub(crate) struct Product<E> {
    pub(crate) ptr: *mut E,
    pub(crate) row: usize,
}

/// What is added to the sum.
#[derive(Clone, Copy)]
pub(crate) enum Init<E> {
    /// Nothing.
    Zero,
    /// What C holds.
    Add,
    /// What C holds, row i multiplied by element i.
    Scale(*const E),
}

/// The product, to be run by [`Isa::run`].
pub(crate) struct Gemm<I: Isa> {
    pub(crate) isa: I,
    pub(crate) rows: usize,
    /// Columns of C: a multiple of LANES.
    pub(crate) cols: usize,
    pub(crate) depth: usize,
    pub(crate) a: Left<I::Elem>,
    pub(crate) b: Right<I::Elem>,
    pub(crate) c: Product<I::Elem>,
    pub(crate) init: Init<I::Elem>,
}

impl<I: Isa> Gemm<I> {
    /// Computes the product.
    ///
    /// # Safety
    /// A, B and an `Init::Scale` are readable and C is writable at the sizes given, and C
    /// overlaps none of them.
    pub(crate) unsafe fn run(self) {
        debug_assert_eq!(self.cols % I::LANES, 0);
        let isa = self.isa;
        isa.run(self);
    }
}

impl<I: Isa> Op for Gemm<I> {
    type Output = ();

    #[inline(always)]
    fn eval(self) {
        let mut j = 0;
        while j < self.cols {
            let b = self.b.ptr.wrapping_add(j / I::NR * self.b.panel);
            // SAFETY: inside the sizes that `run` was promised.
            unsafe {
                if self.cols - j >= I::NR {
                    self.panel::<2>(j, b);
                } else {
                    self.panel::<1>(j, b);
                }
            }
            j += I::NR;
        }
    }
}

impl<I: Isa> Gemm<I> {
    /// All rows of one panel of N vectors, from column `j` on.
    #[inline(always)]
    unsafe fn panel<const N: usize>(&self, j: usize, b: *const I::Elem) {
        let mut i = 0;
        // SAFETY: as for `run`; the blocks of rows stay inside `rows`.
        unsafe {
            while self.rows - i >= I::MR {
                match I::MR {
                    12 => self.tile::<12, N>(i, j, b),
                    6 => self.tile::<6, N>(i, j, b),
                    _ => self.tile::<2, N>(i, j, b),
                }
                i += I::MR;
            }
            if I::MR > 6 && self.rows - i >= 6 {
                self.tile::<6, N>(i, j, b);
                i += 6;
            }
            if I::MR > 4 && self.rows - i >= 4 {
                self.tile::<4, N>(i, j, b);
                i += 4;
            }
            match self.rows - i {
                0 => {}
                1 => self.tile::<1, N>(i, j, b),
                2 => self.tile::<2, N>(i, j, b),
                _ => self.tile::<3, N>(i, j, b),
            }
        }
    }

    /// M rows from row `i` on, N vectors from column `j` on.
    #[inline(always)]
    unsafe fn tile<const M: usize, const N: usize>(&self, i: usize, j: usize, b: *const I::Elem) {
        let isa = self.isa;
        // SAFETY: as for `run`.
        unsafe {
            let c = self.c.ptr.add(i * self.c.row + j);
            let mut acc = [[isa.splat(I::Elem::ZERO); N]; M];
            // One address for every three rows: the third is within reach of a scaled index, and
            // chains of additions stay shorter than the multiply-adds.
            let mut a = [self.a.ptr; 4];
            for (n, a) in a.iter_mut().enumerate() {
                *a = self.a.ptr.wrapping_add((i + 3 * n) * self.a.row);
            }
            let mut b = b;
            for _ in 0..self.depth {
                let mut right = [isa.splat(I::Elem::ZERO); N];
                for (n, x) in right.iter_mut().enumerate() {
                    *x = isa.load(b.add(n * I::LANES));
                }
                for (m, row) in acc.iter_mut().enumerate() {
                    let left = isa.splat(*a[m / 3].add(m % 3 * self.a.row));
                    for (n, x) in row.iter_mut().enumerate() {
                        *x = isa.fma(left, right[n], *x);
                    }
                }
                for a in &mut a {
                    *a = a.wrapping_add(self.a.col);
                }
                b = b.wrapping_add(self.b.row);
            }
            // What was there before joins last: sums over many blocks then round once per block,
            // not once per step.
            for (m, row) in acc.iter().enumerate() {
                for (n, &x) in row.iter().enumerate() {
                    let at = c.add(m * self.c.row + n * I::LANES);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::for_each_f32_isa;
    use crate::isa::Scalar;

    fn number(n: usize) -> f64 {
        ((n * 7919 + 13) % 257) as f64 / 64.0 - 2.0
    }

    /// Every tail of rows, columns and depth, both orders of A, every start value.
    fn check<I: Isa>(isa: I) {
        for rows in 1..=2 * I::MR + 3 {
            for vectors in [1, 2, 3, 5] {
                for depth in [0, 1, 7] {
                    for transposed in [false, true] {
                        for init in 0..3 {
                            case(isa, rows, vectors * I::LANES, depth, transposed, init);
                        }
                    }
                }
            }
        }
    }

    fn case<I: Isa>(isa: I, rows: usize, cols: usize, depth: usize, transposed: bool, init: usize) {
        let e = |n: usize| I::Elem::from_f64(number(n));
        let panels = cols.div_ceil(I::NR);
        let a: Vec<I::Elem> = (0..rows * depth + 1).map(e).collect();
        let b: Vec<I::Elem> = (0..panels * depth * I::NR + 1).map(|n| e(n + 5)).collect();
        let scale: Vec<I::Elem> = (0..rows).map(|n| e(n + 9)).collect();
        let stride = cols + 3;
        let before: Vec<I::Elem> = (0..rows * stride).map(|n| e(n + 11)).collect();
        let mut c = before.clone();
        let (row, col) = if transposed { (1, rows) } else { (depth, 1) };
        let product = Gemm {
            isa,
            rows,
            cols,
            depth,
            a: Left { ptr: a.as_ptr(), row, col },
            b: Right { ptr: b.as_ptr(), panel: depth * I::NR, row: I::NR },
            c: Product { ptr: c.as_mut_ptr(), row: stride },
            init: [Init::Zero, Init::Add, Init::Scale(scale.as_ptr())][init],
        };
        // SAFETY: the vectors are as large as the sizes say.
        unsafe { product.run() };
        for i in 0..rows {
            for j in 0..stride {
                let old = before[i * stride + j].to_f64();
                let mut truth = match init {
                    0 => 0.0,
                    1 => old,
                    _ => old * scale[i].to_f64(),
                };
                for k in 0..depth {
                    let at = |j: usize| j / I::NR * depth * I::NR + k * I::NR + j % I::NR;
                    if j < cols {
                        truth += a[i * row + k * col].to_f64() * b[at(j)].to_f64();
                    }
                }
                let truth = if j < cols { truth } else { old };
                // The numbers are multiples of 2^-6 below 4: products and sums are exact.
                assert_eq!(c[i * stride + j].to_f64(), truth, "{isa:?} {rows} {cols} {depth}");
            }
        }
    }

    #[test]
    fn products_are_exact_on_every_tail() {
        for_each_f32_isa!(check);
        check(Scalar::<f64>::new());
    }
}
