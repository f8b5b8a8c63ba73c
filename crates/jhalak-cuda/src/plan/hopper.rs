//! Which calls the kernels for Hopper cover.

use jhalak_problem::Problem;

use super::limits::Limits;
use super::path::Reason;
use super::tensors::Tensors;
use super::tuning;
use crate::kernels::hopper::HopperClass;
use crate::kernels::{Access, Element, ForwardClass, Tensor};
use jhalak_ptx::Target;

/// Fewer queries leave more than half of a warpgroup without work.
const LEAST_QUERIES: usize = 64;

/// The kernel for Hopper that computes what this one does.
///
/// # Errors
/// Why there is none.
pub(super) fn class(
    problem: &Problem<'_>,
    limits: Limits,
    tensors: &Tensors,
    portable: &ForwardClass,
) -> Result<HopperClass, Reason> {
    limits.hopper?;
    let scores = portable.scores;
    let (max_q, max_k) = problem.max_seqlens();
    let refuse = |covered: bool, reason| if covered { Ok(()) } else { Err(reason) };
    refuse(portable.element != Element::F32, Reason::DType)?;
    refuse(scores.bias.is_none() && !scores.mask && !portable.dropout, Reason::Options)?;
    refuse(max_q >= LEAST_QUERIES && !portable.split, Reason::FewQueries)?;
    let rows_k = problem.tensors().k.shape()[if problem.is_packed() { 0 } else { 1 }];
    refuse(rows_k > 0, Reason::NoKeys)?;
    let vectors = portable.access == Access::Vectors;
    let boxes = tensors.take_boxes(&[Tensor::Q, Tensor::K, Tensor::V, Tensor::Out]);
    refuse(vectors && boxes, Reason::Layout)?;
    let dims = [portable.head_dim, portable.head_dim_v];
    let (tile, tuning) = tuning::hopper(dims, portable.bounds.upper, max_k);
    let target = Target::Sm90a;
    let attention = ForwardClass { target, tile, grouped: false, ..*portable };
    Ok(HopperClass { attention, tuning })
}
