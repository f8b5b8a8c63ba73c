//! The gradient of the bias: the gradients of the scores before the cap's slope, each added to a
//! workspace of floats where the bias has its number.

use jhalak_ptx::Comparison::Lt;
use jhalak_ptx::{AtomicOrder, B32, B64, F32, KernelBuilder, Pred, Scope};

use super::super::super::parameters::{Axis, Tensor};
use super::super::super::row::Row;
use super::Context;

/// A query's row of the workspace.
#[derive(Clone, Copy)]
pub(super) struct BiasRow(B64);

impl BiasRow {
    pub(super) fn new(k: &mut KernelBuilder, context: &Context<'_>, row: &Row) -> Self {
        let (inputs, tensor) = (&context.inputs, Tensor::DbiasSum);
        let base = inputs.base(k, tensor);
        let place = inputs.advance(k, base, context.block.batch, tensor, Axis::Batch);
        let place = inputs.advance(k, place, row.head, tensor, Axis::Head);
        BiasRow(inputs.advance(k, place, row.i, tensor, Axis::Row))
    }

    /// Adds the gradient of key `j`'s score where the condition holds. Of warps that share keys, one
    /// does.
    pub(super) fn add(
        self,
        k: &mut KernelBuilder,
        context: &Context<'_>,
        condition: Pred,
        j: B32,
        gradient: F32,
    ) {
        let class = context.class;
        let condition = if class.tile.warps == class.key_warps() {
            condition
        } else {
            let first = k.setp_u32(Lt, context.part, 1);
            k.and_pred(condition, first)
        };
        let place = context.inputs.advance(k, self.0, j, Tensor::DbiasSum, Axis::Column);
        k.when(condition, |k| k.red_add_f32(place, gradient, AtomicOrder::Relaxed, Scope::Gpu));
    }
}
