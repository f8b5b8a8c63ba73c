//! [`ProblemTensors`]: the tensors of a call as they were given, for engines that reach them by
//! address.

use crate::attention::Attention;
use crate::tensor::TensorView;

/// The tensors of a call. Shapes are checked, also against each other.
#[derive(Clone, Copy, Debug)]
pub struct ProblemTensors<'a> {
    /// [B, Sq, Hq, D] or [total_q, Hq, D].
    pub q: TensorView<'a>,
    /// [B, Sk, Hk, D] or [total_k, Hk, D].
    pub k: TensorView<'a>,
    /// [B, Sk, Hk, Dv] or [total_k, Hk, Dv].
    pub v: TensorView<'a>,
    /// [B, Hq, Sq, Sk], 1 where it is broadcast.
    pub bias: Option<TensorView<'a>>,
    /// [B, Hq, Sq, Sk], 1 where it is broadcast.
    pub mask: Option<TensorView<'a>>,
    /// `[Hq]` or [B, Hq].
    pub alibi_slopes: Option<TensorView<'a>>,
    /// `[Hq]`.
    pub sinks: Option<TensorView<'a>>,
    /// Whose lengths differ.
    pub lengths: LengthViews<'a>,
}

/// Where packed sequences begin, and how much of each sequence is used: i32 or i64.
#[derive(Clone, Copy, Debug)]
pub struct LengthViews<'a> {
    /// [B + 1].
    pub cu_seqlens_q: Option<TensorView<'a>>,
    /// [B + 1].
    pub cu_seqlens_k: Option<TensorView<'a>>,
    /// `[B]`.
    pub seqused_q: Option<TensorView<'a>>,
    /// `[B]`.
    pub seqused_k: Option<TensorView<'a>>,
}

impl<'a> LengthViews<'a> {
    pub(super) fn of(attention: &Attention<'a>) -> Self {
        LengthViews {
            cu_seqlens_q: attention.cu_seqlens_q,
            cu_seqlens_k: attention.cu_seqlens_k,
            seqused_q: attention.seqused_q,
            seqused_k: attention.seqused_k,
        }
    }
}
