//! [`Matrix`]: the rows of one sequence and one head inside a tensor, which is all that an engine
//! sees of dense, packed and strided layouts.

use std::marker::PhantomData;

use crate::dtype::DType;
use crate::tensor::{Device, read_f64};

/// A strided matrix of one sequence and head. Rows are positions, columns the head dimension
/// (or keys, for bias and mask; or a single column, for lse).
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    ptr: *const u8,
    dtype: DType,
    device: Device,
    rows: usize,
    cols: usize,
    /// In elements, as `col_stride`.
    row_stride: isize,
    col_stride: isize,
    memory: PhantomData<&'a [u8]>,
}

// SAFETY: a shared borrow of plain numbers; see `TensorView`.
unsafe impl Send for Matrix<'_> {}
// SAFETY: as above.
unsafe impl Sync for Matrix<'_> {}

macro_rules! matrix_getters {
    () => {
        /// The elements' type.
        #[inline]
        pub fn dtype(&self) -> DType {
            self.dtype
        }

        /// Number of rows.
        #[inline]
        pub fn rows(&self) -> usize {
            self.rows
        }

        /// Number of columns.
        #[inline]
        pub fn cols(&self) -> usize {
            self.cols
        }

        /// Elements from one row to the next; may be 0 or negative.
        #[inline]
        pub fn row_stride(&self) -> isize {
            self.row_stride
        }

        /// Elements from one column to the next; may be 0 or negative.
        #[inline]
        pub fn col_stride(&self) -> isize {
            self.col_stride
        }
    };
}

impl Matrix<'_> {
    matrix_getters!();

    pub(crate) fn new(
        ptr: *const u8,
        dtype: DType,
        device: Device,
        (rows, cols): (usize, usize),
        (row_stride, col_stride): (isize, isize),
    ) -> Self {
        Matrix { ptr, dtype, device, rows, cols, row_stride, col_stride, memory: PhantomData }
    }

    /// The address of the element at (`row`, `col`). Not necessarily aligned to its type.
    #[inline]
    pub fn element_ptr(&self, row: usize, col: usize) -> *const u8 {
        let offset = row as isize * self.row_stride + col as isize * self.col_stride;
        self.ptr.wrapping_offset(offset * self.dtype.size() as isize)
    }

    /// The element at (`row`, `col`) as `f64`.
    ///
    /// # Panics
    /// Outside the matrix, or if it is not in host memory.
    pub fn get(&self, row: usize, col: usize) -> f64 {
        assert!(row < self.rows && col < self.cols, "({row}, {col}) is outside {self:?}");
        assert_eq!(self.device, Device::Cpu, "only host memory can be read here");
        // SAFETY: inside a tensor whose every element its owner vouches for.
        unsafe { read_f64(self.element_ptr(row, col), self.dtype) }
    }
}

/// A strided matrix of an output. Copies write to the same memory: writing is `unsafe`, so that
/// engines can hand disjoint rows to their threads.
#[derive(Clone, Copy, Debug)]
pub struct MatrixMut<'a> {
    ptr: *mut u8,
    dtype: DType,
    rows: usize,
    cols: usize,
    row_stride: isize,
    col_stride: isize,
    memory: PhantomData<&'a mut [u8]>,
}

// SAFETY: only unsafe methods and pointers write; their callers keep threads apart.
unsafe impl Send for MatrixMut<'_> {}
// SAFETY: as above.
unsafe impl Sync for MatrixMut<'_> {}

impl MatrixMut<'_> {
    matrix_getters!();

    pub(crate) fn new(
        ptr: *mut u8,
        dtype: DType,
        (rows, cols): (usize, usize),
        (row_stride, col_stride): (isize, isize),
    ) -> Self {
        MatrixMut { ptr, dtype, rows, cols, row_stride, col_stride, memory: PhantomData }
    }

    /// The address of the element at (`row`, `col`). Not necessarily aligned to its type.
    #[inline]
    pub fn element_ptr(&self, row: usize, col: usize) -> *mut u8 {
        let offset = row as isize * self.row_stride + col as isize * self.col_stride;
        self.ptr.wrapping_offset(offset * self.dtype.size() as isize)
    }
}
