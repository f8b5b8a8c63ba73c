//! Rows of tensors in the order in which products read them.
//!
//! ```text
//! load_rows        a tensor's rows, widened, one after the other
//! transpose_panel  [D][NR]: lane = row       what is multiplied along D (keys in scores)
//! lay_panels       [rows][NR] per NR columns  what is multiplied along the rows (values)
//! ```

use std::ops::Range;

use half::f16;
use jhalak_problem::{DType, Matrix};

use crate::isa::{Float, Isa, Op};
use crate::rows;

/// Reads rows `first..first + count` to `dst`, each filled up with zeros to `stride`, a multiple of
/// LANES.
///
/// # Safety
/// Host memory; the rows lie inside the matrix.
pub(crate) unsafe fn load_rows<I: Isa>(
    isa: I,
    matrix: &Matrix<'_>,
    first: usize,
    count: usize,
    stride: usize,
    dst: &mut [I::Elem],
) {
    isa.run(LoadRows { isa, matrix, first, stride, dst: &mut dst[..count * stride] })
}

/// Reads the same rows of several matrices, padded as by [`load_rows`], in the order in which heads
/// that lie next to each other are in memory: all heads of a row, then the next row. Matrix n goes to
/// `dst` from its row n · `apart` on.
///
/// # Safety
/// Host memory; the rows lie inside the matrices.
pub(crate) unsafe fn load_side_by_side<I: Isa>(
    isa: I,
    matrices: &[Matrix<'_>],
    rows: Range<usize>,
    apart: usize,
    dst: &mut [I::Elem],
) {
    isa.run(LoadSideBySide { isa, matrices, rows, apart, dst });
}

struct LoadSideBySide<'m, I: Isa> {
    isa: I,
    matrices: &'m [Matrix<'m>],
    rows: Range<usize>,
    apart: usize,
    dst: &'m mut [I::Elem],
}

impl<I: Isa> Op for LoadSideBySide<'_, I> {
    type Output = ();

    #[inline(always)]
    fn eval(self) {
        for (n, row) in self.rows.enumerate() {
            for (head, matrix) in self.matrices.iter().enumerate() {
                let stride = I::pad(matrix.cols());
                let dst = &mut self.dst[(head * self.apart + n) * stride..][..stride];
                // SAFETY: the promise to `load_side_by_side`.
                unsafe { load_row(self.isa, matrix, row, dst) };
            }
        }
    }
}

struct LoadRows<'m, I: Isa> {
    isa: I,
    matrix: &'m Matrix<'m>,
    first: usize,
    stride: usize,
    dst: &'m mut [I::Elem],
}

impl<I: Isa> Op for LoadRows<'_, I> {
    type Output = ();

    #[inline(always)]
    fn eval(self) {
        for (n, row) in self.dst.chunks_exact_mut(self.stride).enumerate() {
            // SAFETY: the promise to `load_rows`.
            unsafe { load_row(self.isa, self.matrix, self.first + n, row) };
        }
    }
}

/// Reads a row, and fills `dst` up with zeros.
///
/// # Safety
/// Host memory; the row lies inside the matrix.
#[inline(always)]
unsafe fn load_row<I: Isa>(isa: I, matrix: &Matrix<'_>, row: usize, dst: &mut [I::Elem]) {
    let (values, padding) = dst.split_at_mut(matrix.cols());
    let in_vectors = matrix.dtype() == DType::F16 && matrix.col_stride() == 1;
    let whole = if in_vectors { values.len() / I::LANES * I::LANES } else { 0 };
    let src = matrix.element_ptr(row, 0).cast::<f16>();
    for (n, x) in values[..whole].chunks_exact_mut(I::LANES).enumerate() {
        // SAFETY: the caller's promise.
        unsafe { isa.store(x.as_mut_ptr(), isa.widen_f16(src.add(n * I::LANES))) };
    }
    // SAFETY: as above.
    unsafe { rows::load_here(matrix, row, whole, &mut values[whole..]) };
    padding.fill(I::Elem::ZERO);
}

/// Whether all elements, a multiple of LANES of them, are finite.
pub(crate) fn all_finite<I: Isa>(isa: I, x: &[I::Elem]) -> bool {
    debug_assert!(x.len().is_multiple_of(I::LANES));
    isa.run(AllFinite { isa, x })
}

struct AllFinite<'m, I: Isa> {
    isa: I,
    x: &'m [I::Elem],
}

impl<I: Isa> Op for AllFinite<'_, I> {
    type Output = bool;

    #[inline(always)]
    fn eval(self) -> bool {
        /// Sums that do not wait for one another.
        const CHAINS: usize = 8;
        let isa = self.isa;
        let zero = isa.splat(I::Elem::ZERO);
        let mut checks = [zero; CHAINS];
        let mut add = |x: &[I::Elem], chain: usize| {
            // SAFETY: one vector. Finite numbers times 0 are 0, others NaN.
            let x = unsafe { isa.load(x[chain * I::LANES..][..I::LANES].as_ptr()) };
            checks[chain] = isa.fma(x, zero, checks[chain]);
        };
        let mut chunks = self.x.chunks_exact(CHAINS * I::LANES);
        for x in &mut chunks {
            for chain in 0..CHAINS {
                add(x, chain);
            }
        }
        for chain in 0..chunks.remainder().len() / I::LANES {
            add(chunks.remainder(), chain);
        }
        checks.iter().all(|&check| isa.reduce_add(check) == I::Elem::ZERO)
    }
}

/// `count` rows (at most NR), `stride` apart, as one panel [cols][NR], lane = row; missing rows
/// are 0.
pub(crate) fn transpose_panel<I: Isa>(
    isa: I,
    src: &mut [I::Elem],
    count: usize,
    stride: usize,
    cols: usize,
    dst: &mut [I::Elem],
) {
    assert!(count <= I::NR && cols <= stride && stride.is_multiple_of(I::LANES));
    src[count * stride..I::NR * stride].fill(I::Elem::ZERO);
    isa.run(TransposePanel {
        isa,
        src: &src[..I::NR * stride],
        stride,
        dst: &mut dst[..cols * I::NR],
    });
}

struct TransposePanel<'m, I: Isa> {
    isa: I,
    src: &'m [I::Elem],
    stride: usize,
    dst: &'m mut [I::Elem],
}

impl<I: Isa> Op for TransposePanel<'_, I> {
    type Output = ();

    #[inline(always)]
    fn eval(self) {
        for (block, dst) in self.dst.chunks_mut(I::LANES * I::NR).enumerate() {
            for half in [0, I::LANES] {
                let src = &self.src[half * self.stride + block * I::LANES..];
                debug_assert!(src.len() >= (I::LANES - 1) * self.stride + I::LANES);
                // SAFETY: LANES rows of LANES elements are there, and `dst` has that many rows of
                // NR.
                unsafe {
                    let (src, dst_rows) = (src.as_ptr(), dst.len() / I::NR);
                    let dst = dst.as_mut_ptr().add(half);
                    self.isa.transpose(src, self.stride, dst, I::NR, dst_rows);
                }
            }
        }
    }
}

/// `count` rows, `stride` apart, as rows `first..first + count` of panels [rows][NR] of their
/// columns. Columns between `cols` and the last panel's end are 0 where `stride` reaches that far,
/// and untouched beyond.
pub(crate) fn lay_panels<I: Isa>(
    isa: I,
    src: &[I::Elem],
    count: usize,
    stride: usize,
    (first, rows): (usize, usize),
    panels: &mut [I::Elem],
) {
    assert!(first + count <= rows && stride.is_multiple_of(I::LANES));
    assert!(panels.len() >= stride.div_ceil(I::NR) * rows * I::NR);
    isa.run(LayPanels { isa, src: &src[..count * stride], stride, first, rows, panels });
}

struct LayPanels<'m, I: Isa> {
    isa: I,
    src: &'m [I::Elem],
    stride: usize,
    first: usize,
    rows: usize,
    panels: &'m mut [I::Elem],
}

impl<I: Isa> Op for LayPanels<'_, I> {
    type Output = ();

    #[inline(always)]
    fn eval(self) {
        let isa = self.isa;
        for (n, row) in self.src.chunks_exact(self.stride).enumerate() {
            for (c, x) in row.chunks_exact(I::LANES).enumerate() {
                let (panel, half) = (c / 2, c % 2 * I::LANES);
                let at = panel * self.rows * I::NR + (self.first + n) * I::NR + half;
                debug_assert!(at + I::LANES <= self.panels.len());
                // SAFETY: `lay_panels` checked the sizes.
                unsafe { isa.store(self.panels.as_mut_ptr().add(at), isa.load(x.as_ptr())) };
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
        for cols in [1, I::LANES - 1, I::LANES, I::NR, I::NR + 3, 3 * I::NR + 1] {
            for count in [1, I::LANES, I::NR - 1, I::NR] {
                let stride = I::pad(cols);
                let value =
                    |n: usize, c: usize| if c < cols && n < count { n * 1000 + c + 1 } else { 0 };
                let number = |n: usize, c: usize| I::Elem::from_f64(value(n, c) as f64);
                let mut src: Vec<I::Elem> =
                    (0..I::NR * stride).map(|at| number(at / stride, at % stride)).collect();
                let mut panel = vec![I::Elem::ONE; cols * I::NR];
                transpose_panel(isa, &mut src, count, stride, cols, &mut panel);
                for (at, &x) in panel.iter().enumerate() {
                    assert!(x == number(at % I::NR, at / I::NR), "{isa:?} {cols} {count}");
                }
                let (first, rows) = (2, count + 3);
                let mut panels = vec![-I::Elem::ONE; cols.div_ceil(I::NR) * rows * I::NR];
                lay_panels(isa, &src, count, stride, (first, rows), &mut panels);
                for (at, &x) in panels.iter().enumerate() {
                    let (row, c) = (at / I::NR % rows, at / (rows * I::NR) * I::NR + at % I::NR);
                    let laid = (first..first + count).contains(&row) && c < stride;
                    let expected = if laid { number(row - first, c) } else { -I::Elem::ONE };
                    assert!(x == expected, "{isa:?} {cols} {count}");
                }
            }
        }
    }

    #[test]
    fn panels_hold_every_element_in_its_place() {
        for_each_f32_isa!(check);
        check(Scalar::<f64>::new());
    }
}
