//! The rows that a block goes over: queries of one head of one sequence, used or not.
//!
//! The grid is (tiles of rows · sequences, heads), as that of the forward pass. A block whose
//! sequence has more tiles than the grid takes every so manieth of them.

use jhalak_ptx::Comparison::Lt;
use jhalak_ptx::{B32, B64, KernelBuilder, Pred, Special};

use super::super::class::{Lengths, tensor_parameters};
use super::super::parameters::{Axis, Inputs, Parameter, Tensor};
use super::super::sequence::Side;
use super::lanes::RowPlace;

/// The parameters of rows: those of lengths and of the grid.
pub(crate) fn parameters(lengths: Lengths) -> Vec<Parameter> {
    let mut list = vec![Parameter::RowsQ, Parameter::RowTiles];
    let index = |tensor| tensor_parameters(tensor, [Some(Axis::Row), None, None, None]);
    if lengths.packed {
        list.push(Parameter::Batch);
        list.extend(index(Tensor::CuQ));
    }
    if lengths.used_q {
        list.extend(index(Tensor::UsedQ));
    }
    list
}

/// A block's rows.
pub(crate) struct BlockRows {
    pub(crate) inputs: Inputs,
    pub(crate) head: B32,
    queries: Side,
    /// The first tile of rows.
    tile: B32,
    /// Tiles of a sequence, along the grid.
    tiles: B32,
}

/// A thread's row.
#[derive(Clone, Copy)]
pub(crate) struct BlockRow {
    /// Its index in its sequence.
    i: B32,
    /// Whether the sequence has it.
    pub(crate) exists: Pred,
    /// Whether the sequence uses it.
    pub(crate) used: Pred,
}

impl BlockRows {
    pub(crate) fn new(k: &mut KernelBuilder, lengths: Lengths, inputs: Inputs) -> Self {
        let block = k.ctaid_x();
        let tiles = inputs.u32(k, Parameter::RowTiles);
        let (batch, tile) = (k.div_u32(block, tiles), k.rem_u32(block, tiles));
        let queries = Side::queries(k, lengths, &inputs, batch);
        BlockRows { head: k.special(Special::CtaidY), queries, tile, tiles, inputs }
    }

    /// Runs the body for `at_once` rows at a time, until all tiles of the block are done; `row` is
    /// the thread's, of these. All threads run it together, also those without a row.
    pub(crate) fn for_each(
        &self,
        k: &mut KernelBuilder,
        at_once: u32,
        row: B32,
        body: impl FnOnce(&mut KernelBuilder, BlockRow),
    ) {
        let step = k.mul_lo_u32(self.tiles, at_once);
        let first = k.mul_lo_u32(self.tile, at_once);
        k.while_(
            |k| k.setp_u32(Lt, first, self.queries.rows),
            |k| {
                let i = k.add_u32(first, row);
                let exists = k.setp_u32(Lt, i, self.queries.rows);
                let used = k.setp_u32(Lt, i, self.queries.used);
                body(k, BlockRow { i, exists, used });
                k.add_u32_to(first, first, step);
            },
        );
    }

    /// Where a row of a tensor is.
    pub(crate) fn address(&self, k: &mut KernelBuilder, tensor: Tensor, row: BlockRow) -> B64 {
        let base = self.inputs.base(k, tensor);
        let base = self.inputs.advance(k, base, self.queries.storage, tensor, Axis::Batch);
        let base = self.inputs.advance(k, base, self.head, tensor, Axis::Head);
        let index = k.add_u32(self.queries.start, row.i);
        self.inputs.advance(k, base, index, tensor, Axis::Row)
    }

    /// Where the columns of a row are.
    pub(crate) fn place(&self, k: &mut KernelBuilder, tensor: Tensor, row: BlockRow) -> RowPlace {
        let given = self.inputs.has(Parameter::Stride(tensor, Axis::Column));
        let column = given.then(|| self.inputs.stride(k, tensor, Axis::Column));
        RowPlace { first: self.address(k, tensor, row), column }
    }
}
