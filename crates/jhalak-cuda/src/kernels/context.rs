//! What a forward kernel knows of the sequence and head that it works on.

use jhalak_ptx::Comparison::{Eq, Lt};
use jhalak_ptx::{B32, B64, Connective, F32, KernelBuilder, Pred};

use super::class::{Access, ForwardClass};
use super::dropout::Dropout;
use super::element::Element;
use super::parameters::{Axis, Inputs, Tensor};
use super::row::Row;
use super::scores::Scores;
use super::sequence::{Block, Sequence};
use super::thread::Thread;
use super::visible::Visible;

/// What all parts of a forward kernel know.
pub(crate) struct Context<'c> {
    pub(crate) class: &'c ForwardClass,
    pub(crate) inputs: Inputs,
    pub(crate) thread: Thread,
    pub(crate) block: Block,
    pub(crate) sequence: Sequence,
    pub(crate) visible: Visible,
    pub(crate) scores: Scores,
    pub(crate) dropout: Option<Dropout>,
    /// Where the tiles of q, k and v begin in shared memory.
    pub(crate) tiles: [B32; 3],
    /// How far the first tile of keys begins before key 0.
    pub(crate) shift: Option<B32>,
}

impl Context<'_> {
    /// Where a row of a tensor of rows begins.
    pub(crate) fn row_address(
        &self,
        k: &mut KernelBuilder,
        tensor: Tensor,
        start: B32,
        row: &Row,
    ) -> B64 {
        let address = self.sequence.row_address(k, &self.inputs, tensor, start, row);
        match self.block.part {
            Some([part, _]) if matches!(tensor, Tensor::Out | Tensor::Lse) => {
                self.inputs.advance(k, address, part, tensor, Axis::Part)
            }
            _ => address,
        }
    }

    /// The stride between the columns of a tensor of rows, where it is not the element's size.
    pub(crate) fn column(&self, k: &mut KernelBuilder, tensor: Tensor) -> Option<B64> {
        let given = self.class.access == Access::Elements;
        given.then(|| self.inputs.stride(k, tensor, Axis::Column))
    }

    /// Where a column of a row is, in a tensor of elements of this type.
    pub(crate) fn place(
        &self,
        k: &mut KernelBuilder,
        tensor: Tensor,
        element: Element,
        row: B64,
        column: B32,
    ) -> B64 {
        match self.column(k, tensor) {
            None => k.mad_wide_u32(column, element.bytes(), row),
            Some(stride) => {
                let column = k.cvt_u64_u32(column);
                k.mad_lo_u64(column, stride, row)
            }
        }
    }

    /// Stores a column of a row of out.
    pub(crate) fn store_out(&self, k: &mut KernelBuilder, row: &Row, column: B32, value: F32) {
        let element = self.class.out;
        let place = self.row_address(k, Tensor::Out, self.sequence.start_q, row);
        let place = self.place(k, Tensor::Out, element, place, column);
        element.store(k, place, value);
    }

    /// A key's index in the sequence; below 0 for those that the first tile begins before it.
    pub(crate) fn unshifted(&self, k: &mut KernelBuilder, key: B32) -> B32 {
        match self.shift {
            Some(shift) => k.sub_u32(key, shift),
            None => key,
        }
    }

    /// Whether a row is stored: it belongs to the sequence.
    pub(crate) fn is_stored(&self, k: &mut KernelBuilder, row: &Row) -> Pred {
        k.setp_u32(Lt, row.i, self.sequence.rows_q)
    }

    /// Writes a row's lse, from the lane that has its first column.
    pub(crate) fn store_lse(&self, k: &mut KernelBuilder, row: &Row, lse: F32) {
        let stored = self.is_stored(k, row);
        let first = k.setp_u32_with(Eq, self.thread.column, 0, Connective::And, stored);
        let place = self.row_address(k, Tensor::Lse, self.sequence.start_q, row);
        k.when(first, |k| k.st(place, lse));
    }
}
