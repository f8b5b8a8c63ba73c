//! Addresses and strides of a call's tensors, by the names of kernels.

use jhalak_problem::{Forward, ProblemTensors, TensorView};

use crate::kernels::{Axis, Tensor};

/// The tensors of a forward call.
#[derive(Clone, Copy)]
pub(super) struct Tensors<'a> {
    packed: bool,
    inputs: ProblemTensors<'a>,
    out: TensorView<'a>,
    lse: TensorView<'a>,
}

impl<'a> Tensors<'a> {
    pub(super) fn new(call: &'a Forward<'a>) -> Self {
        let problem = call.problem();
        Tensors {
            packed: problem.is_packed(),
            inputs: problem.tensors(),
            out: call.out_view(),
            lse: call.lse_view(),
        }
    }

    /// A tensor, if the call has it.
    fn view(&self, tensor: Tensor) -> Option<TensorView<'a>> {
        let ProblemTensors { q, k, v, bias, mask, alibi_slopes, sinks, lengths } = self.inputs;
        match tensor {
            Tensor::Q => Some(q),
            Tensor::K => Some(k),
            Tensor::V => Some(v),
            Tensor::Out => Some(self.out),
            Tensor::Lse => Some(self.lse),
            Tensor::Bias => bias,
            Tensor::Mask => mask,
            Tensor::Alibi => alibi_slopes,
            Tensor::Sinks => sinks,
            Tensor::CuQ => lengths.cu_seqlens_q,
            Tensor::CuK => lengths.cu_seqlens_k,
            Tensor::UsedQ => lengths.seqused_q,
            Tensor::UsedK => lengths.seqused_k,
        }
    }

    /// The address of a tensor's first element.
    pub(super) fn address(&self, tensor: Tensor) -> u64 {
        self.view(tensor).map_or(0, |view| view.as_ptr().addr() as u64)
    }

    /// A tensor's stride in bytes; 0 where it has no such dimension, or one of size 1.
    pub(super) fn stride(&self, tensor: Tensor, axis: Axis) -> i64 {
        let Some(view) = self.view(tensor) else { return 0 };
        let rank = view.shape().len();
        let dimension = match tensor {
            Tensor::Q | Tensor::K | Tensor::V | Tensor::Out => from_end(rank, rows_dimension(axis)),
            Tensor::Lse => from_end(rank, lse_dimension(axis)),
            Tensor::Bias | Tensor::Mask => Some(score_dimension(axis)),
            Tensor::Alibi => from_end(rank, if axis == Axis::Head { 1 } else { 2 }),
            Tensor::Sinks | Tensor::CuQ | Tensor::CuK | Tensor::UsedQ | Tensor::UsedK => Some(0),
        };
        let packed_batch = self.packed && axis == Axis::Batch && has_packed_rows(tensor);
        match dimension {
            Some(d) if !packed_batch => view.strides()[d] as i64 * view.dtype().size() as i64,
            _ => 0,
        }
    }

    /// Whether rows of q, k, v and out can be reached 16 bytes at once.
    pub(super) fn take_vectors(&self) -> bool {
        [Tensor::Q, Tensor::K, Tensor::V, Tensor::Out].into_iter().all(|tensor| {
            let Some(view) = self.view(tensor) else { return true };
            let size = view.dtype().size() as i64;
            let columns = view.shape()[view.shape().len() - 1] as i64;
            let contiguous = columns == 1 || self.stride(tensor, Axis::Column) == size;
            let aligned = |bytes: i64| bytes % 16 == 0;
            contiguous
                && aligned(columns * size)
                && aligned(self.address(tensor).cast_signed())
                && [Axis::Batch, Axis::Head, Axis::Row]
                    .into_iter()
                    .all(|axis| aligned(self.stride(tensor, axis)))
        })
    }

    /// The size of a dimension of bias and mask; the largest number where all are broadcast.
    pub(super) fn score_size(&self, axis: Axis) -> u32 {
        let d = score_dimension(axis);
        let sizes = [Tensor::Bias, Tensor::Mask].into_iter().filter_map(|t| self.view(t));
        let own = sizes.map(|view| view.shape()[d]).filter(|&size| size != 1).min();
        own.map_or(i32::MAX.unsigned_abs(), |size| size.min(1 << 30) as u32)
    }
}

/// Whether a tensor lacks a batch where sequences are packed.
fn has_packed_rows(tensor: Tensor) -> bool {
    matches!(tensor, Tensor::Q | Tensor::K | Tensor::V | Tensor::Out | Tensor::Lse)
}

/// The dimension that is the `n`th from the end, counted from 1.
fn from_end(rank: usize, n: usize) -> Option<usize> {
    rank.checked_sub(n)
}

/// Of [B, S, H, D], from the end.
fn rows_dimension(axis: Axis) -> usize {
    match axis {
        Axis::Column => 1,
        Axis::Head => 2,
        Axis::Row => 3,
        Axis::Batch => 4,
    }
}

/// Of [B, H, S], from the end.
fn lse_dimension(axis: Axis) -> usize {
    match axis {
        Axis::Column | Axis::Row => 1,
        Axis::Head => 2,
        Axis::Batch => 3,
    }
}

/// Of [B, H, Sq, Sk].
fn score_dimension(axis: Axis) -> usize {
    match axis {
        Axis::Batch => 0,
        Axis::Head => 1,
        Axis::Row => 2,
        Axis::Column => 3,
    }
}
