//! The places of a call's tensors, by the names of kernels.

use jhalak_problem::{Problem, TensorView};

use super::boxes::TensorBox;
use super::place::{HEADS, LIST, NUMBERS, Place, ROWS, SCORES};
use crate::kernels::{Axis, Tensor};

/// The tensors that a kernel may ask for.
#[derive(Clone, Debug)]
pub(super) struct Tensors(Vec<(Tensor, Place)>);

impl Tensors {
    /// The inputs of a problem.
    pub(super) fn of_problem(problem: &Problem<'_>) -> Self {
        let inputs = problem.tensors();
        let lengths = inputs.lengths;
        Tensors(Vec::new())
            .with_rows(Tensor::Q, Some(inputs.q))
            .with_rows(Tensor::K, Some(inputs.k))
            .with_rows(Tensor::V, Some(inputs.v))
            .with(Tensor::Bias, inputs.bias, SCORES)
            .with(Tensor::Mask, inputs.mask, SCORES)
            .with(Tensor::Alibi, inputs.alibi_slopes, HEADS)
            .with(Tensor::Sinks, inputs.sinks, HEADS)
            .with(Tensor::CuQ, lengths.cu_seqlens_q, LIST)
            .with(Tensor::CuK, lengths.cu_seqlens_k, LIST)
            .with(Tensor::UsedQ, lengths.seqused_q, LIST)
            .with(Tensor::UsedK, lengths.seqused_k, LIST)
    }

    /// None.
    pub(super) fn none() -> Self {
        Tensors(Vec::new())
    }

    /// These and one of rows, if it is given.
    pub(super) fn with_rows(self, tensor: Tensor, view: Option<TensorView<'_>>) -> Self {
        self.with(tensor, view, ROWS)
    }

    /// These and one with a number for each row, if it is given.
    pub(super) fn with_numbers(self, tensor: Tensor, view: Option<TensorView<'_>>) -> Self {
        self.with(tensor, view, NUMBERS)
    }

    /// These and one with a number for each score, if it is given.
    pub(super) fn with_scores(self, tensor: Tensor, view: Option<TensorView<'_>>) -> Self {
        self.with(tensor, view, SCORES)
    }

    /// These and one with a number for each head, if it is given.
    pub(super) fn with_heads(self, tensor: Tensor, view: Option<TensorView<'_>>) -> Self {
        self.with(tensor, view, HEADS)
    }

    /// These and one at a place.
    pub(super) fn with_place(mut self, tensor: Tensor, place: Place) -> Self {
        self.0.push((tensor, place));
        self
    }

    fn with(self, tensor: Tensor, view: Option<TensorView<'_>>, axes: &[Axis]) -> Self {
        match view {
            Some(view) => self.with_place(tensor, Place::of(&view, axes)),
            None => self,
        }
    }

    fn place(&self, tensor: Tensor) -> Option<&Place> {
        self.0.iter().find(|(other, _)| *other == tensor).map(|(_, place)| place)
    }

    /// The address of a tensor's first element.
    pub(super) fn address(&self, tensor: Tensor) -> u64 {
        self.place(tensor).map_or(0, |place| place.address)
    }

    /// A tensor's stride in bytes; 0 where it has no such dimension, or one of size 1.
    pub(super) fn stride(&self, tensor: Tensor, axis: Axis) -> i64 {
        self.place(tensor).map_or(0, |place| place.stride(axis))
    }

    /// Whether rows of all these can be reached 16 bytes at once.
    pub(super) fn take_vectors(&self, tensors: &[Tensor]) -> bool {
        tensors.iter().filter_map(|&tensor| self.place(tensor)).all(Place::takes_vectors)
    }

    /// Whether the copy engine can copy all these.
    pub(super) fn take_boxes(&self, tensors: &[Tensor]) -> bool {
        tensors.iter().filter_map(|&tensor| self.place(tensor)).all(Place::takes_boxes)
    }

    /// A tensor of rows in boxes of so many rows.
    pub(super) fn boxes(&self, tensor: Tensor, rows: u32) -> TensorBox {
        let place = self.place(tensor).expect("a call has all tensors of rows");
        TensorBox::new(place, rows)
    }

    /// The size of a dimension of bias and mask; the largest number where all are broadcast.
    pub(super) fn score_size(&self, axis: Axis) -> u32 {
        let places = [Tensor::Bias, Tensor::Mask].into_iter().filter_map(|t| self.place(t));
        let own = places.map(|place| place.size(axis)).filter(|&size| size != 1).min();
        own.map_or(i32::MAX.unsigned_abs(), |size| size.min(1 << 30) as u32)
    }
}
