//! Where the rows of one sequence and head lie in a tensor.

use super::dim;
use crate::matrix::{Matrix, MatrixMut};
use crate::tensor::{TensorView, TensorViewMut};

/// The part of a score-shaped tensor that belongs to sequence `b` and head `h`: `rows` x `cols`.
pub(super) fn scores_of<'a>(
    view: &TensorView<'a>,
    b: usize,
    h: usize,
    (rows, cols): (usize, usize),
) -> Matrix<'a> {
    let pick = |d: usize, i: usize| if view.shape()[d] == 1 { 0 } else { i };
    let strides = view.strides();
    let ptr = if view.numel() == 0 {
        view.as_ptr().cast()
    } else {
        view.element_ptr(&[pick(0, b), pick(1, h), 0, 0])
    };
    Matrix::new(ptr, view.dtype(), view.device(), (rows, cols), (strides[2], strides[3]))
}

/// Rows `first..first + rows` of one head of a [storage, row, head, column] tensor.
pub(super) fn rows_of<'a>(
    view: &TensorView<'a>,
    packed: bool,
    storage: usize,
    first: usize,
    rows: usize,
    head: usize,
) -> Matrix<'a> {
    let strides = &view.strides()[usize::from(!packed)..];
    let cols = dim(view, 3);
    let ptr = if rows == 0 {
        view.as_ptr().cast()
    } else if packed {
        view.element_ptr(&[first, head, 0])
    } else {
        view.element_ptr(&[storage, first, head, 0])
    };
    Matrix::new(ptr, view.dtype(), view.device(), (rows, cols), (strides[0], strides[2]))
}

/// As [`rows_of`], of an output.
pub(super) fn rows_of_mut<'s>(
    view: &'s TensorViewMut<'_>,
    packed: bool,
    storage: usize,
    first: usize,
    rows: usize,
    head: usize,
) -> MatrixMut<'s> {
    let strides = &view.strides()[usize::from(!packed)..];
    let cols = view.shape()[view.shape().len() - 1];
    let ptr = if rows == 0 {
        std::ptr::null_mut()
    } else if packed {
        view.element_ptr(&[first, head, 0])
    } else {
        view.element_ptr(&[storage, first, head, 0])
    };
    MatrixMut::new(ptr, view.dtype(), (rows, cols), (strides[0], strides[2]))
}
