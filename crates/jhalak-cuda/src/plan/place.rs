//! Where a tensor lies: its address, and its sizes and strides by the names of kernels.

use jhalak_problem::TensorView;

use crate::kernels::Axis;

/// The axes of q, k, v, out and their gradients.
pub(super) const ROWS: &[Axis] = &[Axis::Batch, Axis::Row, Axis::Head, Axis::Column];
/// The axes of lse, and of what else has one number for each row.
pub(super) const NUMBERS: &[Axis] = &[Axis::Batch, Axis::Head, Axis::Row];
/// The axes of bias and mask, and of workspaces of rows.
pub(super) const SCORES: &[Axis] = &[Axis::Batch, Axis::Head, Axis::Row, Axis::Column];
/// The axes of what has one number for each head, or for each of a sequence.
pub(super) const HEADS: &[Axis] = &[Axis::Batch, Axis::Head];
/// The axis of a list.
pub(super) const LIST: &[Axis] = &[Axis::Row];

/// A tensor's place.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) address: u64,
    /// Bytes of an element.
    element: i64,
    /// Of each axis: its size, and the bytes from one element to the next.
    axes: Vec<(Axis, usize, i64)>,
}

impl Place {
    /// A view whose dimensions are the last of these axes.
    pub(super) fn of(view: &TensorView<'_>, axes: &[Axis]) -> Self {
        let element = view.dtype().size() as i64;
        let axes = &axes[axes.len() - view.shape().len()..];
        let dimensions = view.shape().iter().zip(view.strides());
        let axes = axes
            .iter()
            .zip(dimensions)
            .map(|(&axis, (&size, &stride))| (axis, size, stride as i64 * element))
            .collect();
        Place { address: view.as_ptr().addr() as u64, element, axes }
    }

    /// Floats in row-major order, with a shape of the last of these axes. Where a size is 1 the
    /// stride is 0, as that of a dimension that is broadcast.
    pub(super) fn of_floats(address: u64, shape: &[usize], axes: &[Axis]) -> Self {
        let mut stride = 4;
        let mut list = Vec::new();
        for (&axis, &size) in axes.iter().rev().zip(shape.iter().rev()) {
            list.push((axis, size, if size == 1 { 0 } else { stride }));
            stride *= size as i64;
        }
        Place { address, element: 4, axes: list }
    }

    /// The size of an axis; 1 where the tensor lacks it.
    pub(super) fn size(&self, axis: Axis) -> usize {
        self.axis(axis).map_or(1, |(_, size, _)| size)
    }

    /// The stride of an axis in bytes; 0 where the tensor lacks it.
    pub(super) fn stride(&self, axis: Axis) -> i64 {
        self.axis(axis).map_or(0, |(_, _, stride)| stride)
    }

    /// Whether rows can be reached 16 bytes at once.
    pub(super) fn takes_vectors(&self) -> bool {
        let aligned = |bytes: i64| bytes % 16 == 0;
        let columns = self.size(Axis::Column) as i64;
        let contiguous = columns == 1 || self.stride(Axis::Column) == self.element;
        let others = self.axes.iter().filter(|(axis, ..)| *axis != Axis::Column);
        contiguous
            && aligned(columns * self.element)
            && aligned(self.address.cast_signed())
            && others.into_iter().all(|&(_, _, stride)| aligned(stride))
    }

    /// Whether the copy engine can copy boxes of it (CUDA driver API, `cuTensorMapEncodeTiled`):
    /// rows of 16-byte pieces, which do not lie on one another.
    pub(super) fn takes_boxes(&self) -> bool {
        let others = self.axes.iter().filter(|(axis, ..)| *axis != Axis::Column);
        self.takes_vectors()
            && self.axes.iter().all(|&(_, size, _)| size > 0)
            && others
                .into_iter()
                .all(|&(_, size, stride)| size == 1 || (1..1 << 40).contains(&stride))
    }

    /// The bytes of an element.
    pub(super) fn element_bytes(&self) -> i64 {
        self.element
    }

    fn axis(&self, axis: Axis) -> Option<(Axis, usize, i64)> {
        self.axes.iter().find(|(other, ..)| *other == axis).copied()
    }
}
