//! Rows of tensors in and out of work space, whatever their dtype and strides.
//!
//! Work space holds f32 (f64 for f64 tensors): 16-bit numbers are widened here, once, and results
//! are rounded here, once.

use half::{bf16, f16};
use jhalak_problem::{DType, Matrix, MatrixMut};

use crate::isa::{Float, Isa, Op};

/// Reads `dst.len()` elements of row `row`, from column `first` on.
///
/// # Safety
/// The matrix is in host memory, and the elements lie inside it.
pub(crate) unsafe fn load<E: Float>(matrix: &Matrix<'_>, row: usize, first: usize, dst: &mut [E]) {
    // SAFETY: the caller's promise.
    unsafe { load_here(matrix, row, first, dst) }
}

/// [`load`], compiled for the instructions of the [`Op`](crate::isa::Op) that it stands in.
///
/// # Safety
/// As [`load`].
#[inline(always)]
pub(crate) unsafe fn load_here<E: Float>(
    matrix: &Matrix<'_>,
    row: usize,
    first: usize,
    dst: &mut [E],
) {
    if dst.is_empty() {
        return;
    }
    debug_assert!(row < matrix.rows() && first + dst.len() <= matrix.cols());
    let src = matrix.element_ptr(row, first);
    let stride = matrix.col_stride();
    // SAFETY: the caller's promise; a bool may be any byte.
    unsafe {
        match matrix.dtype() {
            DType::F32 => read(src.cast::<f32>(), stride, dst, E::from_f32),
            DType::F16 => read(src.cast::<u16>(), stride, dst, |x| E::from_f32(widen_f16(x))),
            DType::BF16 => {
                let widen = |x: u16| E::from_f32(f32::from_bits(u32::from(x) << 16));
                read(src.cast::<u16>(), stride, dst, widen);
            }
            DType::F64 => read(src.cast::<f64>(), stride, dst, E::from_f64),
            DType::Bool => {
                let truth = |x: u8| if x != 0 { E::ONE } else { E::ZERO };
                read(src, stride, dst, truth);
            }
            other => unreachable!("{other} rows are refused by Problem::new"),
        }
    }
}

/// # Safety
/// `dst.len()` elements at `stride` from `src` on are readable.
#[inline(always)]
unsafe fn read<T: Copy, E: Copy>(
    src: *const T,
    stride: isize,
    dst: &mut [E],
    convert: impl Fn(T) -> E,
) {
    if stride == 1 {
        for (n, x) in dst.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            *x = convert(unsafe { src.add(n).read_unaligned() });
        }
    } else {
        for (n, x) in dst.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            *x = convert(unsafe { src.wrapping_offset(n as isize * stride).read_unaligned() });
        }
    }
}

/// Half to single precision without branches or tables, so that loops of it are vectorised.
#[inline(always)]
fn widen_f16(half: u16) -> f32 {
    let word = u32::from(half) << 16;
    let magnitude = word << 1;
    // Exponent and fraction in place, exponent rebased by a multiplication that is exact.
    let normal = f32::from_bits((magnitude >> 4) + (0xE0 << 23)) * f32::from_bits(0x0780_0000);
    // Subnormal: the fraction becomes the low bits of 0.5, which is then taken off.
    let subnormal = f32::from_bits((magnitude >> 17) | (126 << 23)) - 0.5;
    let value = if magnitude < 1 << 27 { subnormal } else { normal };
    f32::from_bits((word & 0x8000_0000) | value.to_bits())
}

/// How a result meets what is already in the tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    /// Replaces it.
    Write,
    /// Is added to it.
    Add,
}

/// Writes `src · factor` to row `row`, from column 0 on.
///
/// # Safety
/// The elements lie inside the matrix, and no other thread uses the row.
pub(crate) unsafe fn store<E: Float>(
    matrix: &MatrixMut<'_>,
    row: usize,
    src: &[E],
    factor: E,
    how: Store,
) {
    // SAFETY: the caller's promise.
    unsafe { store_here(matrix, row, 0, src, factor, how) }
}

/// [`store`] with these instructions.
///
/// # Safety
/// As [`store`].
pub(crate) unsafe fn store_with<I: Isa>(
    isa: I,
    matrix: &MatrixMut<'_>,
    row: usize,
    src: &[I::Elem],
    factor: I::Elem,
    how: Store,
) {
    isa.run(StoreRow { isa, matrix, row, src, factor, how });
}

struct StoreRow<'m, I: Isa> {
    isa: I,
    matrix: &'m MatrixMut<'m>,
    row: usize,
    src: &'m [I::Elem],
    factor: I::Elem,
    how: Store,
}

impl<I: Isa> Op for StoreRow<'_, I> {
    type Output = ();

    #[inline(always)]
    fn eval(self) {
        let StoreRow { isa, matrix, row, src, factor, how } = self;
        let in_vectors = matrix.dtype() == DType::F16 && matrix.col_stride() == 1;
        let whole = if in_vectors { src.len() / I::LANES * I::LANES } else { 0 };
        let (vectors, rest) = src.split_at(whole);
        let dst = matrix.element_ptr(row, 0).cast::<f16>();
        let scale = isa.splat(factor);
        // SAFETY: the promise to `store_with`; f16 is never added to.
        unsafe {
            for (n, x) in vectors.chunks_exact(I::LANES).enumerate() {
                let x = isa.mul(isa.load(x.as_ptr()), scale);
                isa.narrow_f16(dst.add(n * I::LANES), x);
            }
            store_here(matrix, row, whole, rest, factor, how);
        }
    }
}

/// [`store`] from column `first` on.
///
/// # Safety
/// As [`store`].
#[inline(always)]
unsafe fn store_here<E: Float>(
    matrix: &MatrixMut<'_>,
    row: usize,
    first: usize,
    src: &[E],
    factor: E,
    how: Store,
) {
    if src.is_empty() {
        return;
    }
    debug_assert!(row < matrix.rows() && first + src.len() <= matrix.cols());
    let dst = matrix.element_ptr(row, first);
    let stride = matrix.col_stride();
    // SAFETY: the caller's promise.
    unsafe {
        match (matrix.dtype(), how) {
            (DType::F32, Store::Write) => {
                write(dst.cast::<f32>(), stride, src, |x, _| (x * factor).to_f32());
            }
            (DType::F32, Store::Add) => {
                write(dst.cast::<f32>(), stride, src, |x, old| old + (x * factor).to_f32());
            }
            (DType::F64, Store::Write) => {
                write(dst.cast::<f64>(), stride, src, |x, _| (x * factor).to_f64());
            }
            (DType::F64, Store::Add) => {
                write(dst.cast::<f64>(), stride, src, |x, old| old + (x * factor).to_f64());
            }
            (DType::F16, Store::Write) => {
                write(dst.cast::<f16>(), stride, src, |x, _| f16::from_f32((x * factor).to_f32()));
            }
            (DType::BF16, Store::Write) => {
                write(dst.cast::<bf16>(), stride, src, |x, _| {
                    bf16::from_f32((x * factor).to_f32())
                });
            }
            (other, how) => unreachable!("{how:?} to {other} is refused by Problem::new"),
        }
    }
}

/// # Safety
/// `src.len()` elements at `stride` from `dst` on are writable.
#[inline(always)]
unsafe fn write<T: Copy, E: Copy>(
    dst: *mut T,
    stride: isize,
    src: &[E],
    convert: impl Fn(E, T) -> T,
) {
    if stride == 1 {
        for (n, &x) in src.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe {
                let place = dst.add(n);
                place.write_unaligned(convert(x, place.read_unaligned()));
            }
        }
    } else {
        for (n, &x) in src.iter().enumerate() {
            let place = dst.wrapping_offset(n as isize * stride);
            // SAFETY: the caller's promise.
            unsafe { place.write_unaligned(convert(x, place.read_unaligned())) };
        }
    }
}

/// Fills all rows of a matrix with one value.
///
/// # Safety
/// No other thread uses the matrix.
pub(crate) unsafe fn fill(matrix: &MatrixMut<'_>, value: f32) {
    let row = vec![value; matrix.cols()];
    for n in 0..matrix.rows() {
        // SAFETY: inside the matrix; the caller keeps others away.
        unsafe { store(matrix, n, &row, 1.0, Store::Write) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_is_widened_to_its_value() {
        for bits in 0..=u16::MAX {
            let (ours, theirs) = (widen_f16(bits), f16::from_bits(bits).to_f32());
            assert!(ours == theirs || (ours.is_nan() && theirs.is_nan()), "{bits:#x}");
            assert_eq!(ours.is_sign_negative(), theirs.is_sign_negative(), "{bits:#x}");
        }
    }
}
