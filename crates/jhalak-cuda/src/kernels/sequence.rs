//! Which sequence and head a block works on, and how long the sequence is.
//!
//! The grid is (tiles of rows · sequences, heads). Packed sequences have one more, which holds the
//! rows after the last: they belong to nobody, and get 0 and −∞.

use jhalak_ptx::Comparison::{Eq, Ge};
use jhalak_ptx::{B32, B64, KernelBuilder, Special};

use super::class::{ForwardClass, Lengths};
use super::parameters::{Axis, Inputs, Parameter, Tensor};
use super::row::Row;

/// A block's place in the grid.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    /// The sequence.
    pub(crate) batch: B32,
    /// The tile of rows, counted from 0; packed sequences may have more tiles than the grid.
    pub(crate) tile: B32,
    /// The first query head, and its key head.
    pub(crate) head: B32,
    pub(crate) head_k: B32,
    /// Query heads of a key head.
    pub(crate) group: B32,
    /// The part of the keys, and how many there are, if they are split.
    pub(crate) part: Option<[B32; 2]>,
}

impl Block {
    pub(crate) fn new(k: &mut KernelBuilder, class: &ForwardClass, inputs: &Inputs) -> Self {
        let (block, mut head) = (k.ctaid_x(), k.special(Special::CtaidY));
        let mut part = None;
        if class.split {
            let parts = inputs.u32(k, Parameter::Parts);
            part = Some([k.rem_u32(head, parts), parts]);
            head = k.div_u32(head, parts);
        }
        let tiles = inputs.u32(k, Parameter::RowTiles);
        let (batch, mut tile) = (k.div_u32(block, tiles), k.rem_u32(block, tiles));
        if class.bounds.upper {
            // Late rows see the most keys: the longest work begins first.
            let last = k.sub_u32(tiles, 1);
            tile = k.sub_u32(last, tile);
        }
        let group = inputs.u32(k, Parameter::Group);
        let (head, head_k) = if class.grouped {
            (k.mul_lo_u32(head, group), head)
        } else {
            (head, k.div_u32(head, group))
        };
        Block { batch, tile, head, head_k, group, part }
    }

    /// Of a grid over tiles of keys and key heads. With a ticket, the number of blocks that came
    /// before, late keys come first.
    pub(crate) fn of_keys(k: &mut KernelBuilder, inputs: &Inputs, ticket: Option<B32>) -> Self {
        let (mut block, mut head_k) = (k.ctaid_x(), k.special(Special::CtaidY));
        if let Some(ticket) = ticket {
            let across = k.special(Special::NctaidX);
            (block, head_k) = (k.rem_u32(ticket, across), k.div_u32(ticket, across));
        }
        let tiles = inputs.u32(k, Parameter::RowTiles);
        let (batch, mut tile) = (k.div_u32(block, tiles), k.rem_u32(block, tiles));
        if ticket.is_some() {
            let last = k.sub_u32(tiles, 1);
            tile = k.sub_u32(last, tile);
        }
        let group = inputs.u32(k, Parameter::Group);
        let head = k.mul_lo_u32(head_k, group);
        Block { batch, tile, head, head_k, group, part: None }
    }
}

/// Where a sequence lies and how much of it is used. Everything that comes from memory is clamped:
/// wrong numbers never lead outside the tensors.
#[derive(Clone, Copy)]
pub(crate) struct Sequence {
    /// The sequence's index in dense tensors.
    pub(crate) storage: B32,
    /// The first row of q, and of k and v.
    pub(crate) start_q: B32,
    pub(crate) start_k: B32,
    /// Rows of q, and of k and v, that belong to it.
    pub(crate) rows_q: B32,
    pub(crate) rows_k: B32,
    /// Queries and keys in use.
    pub(crate) used_q: B32,
    pub(crate) used_k: B32,
}

impl Sequence {
    pub(crate) fn new(
        k: &mut KernelBuilder,
        lengths: Lengths,
        inputs: &Inputs,
        batch: B32,
    ) -> Self {
        let (q, keys) =
            (Side::queries(k, lengths, inputs, batch), Side::keys(k, lengths, inputs, batch));
        Sequence {
            storage: q.storage,
            start_q: q.start,
            start_k: keys.start,
            rows_q: q.rows,
            rows_k: keys.rows,
            used_q: q.used,
            used_k: keys.used,
        }
    }
}

/// The queries of a sequence, or its keys.
#[derive(Clone, Copy)]
pub(crate) struct Side {
    /// The sequence's index in dense tensors.
    pub(crate) storage: B32,
    /// The first row.
    pub(crate) start: B32,
    /// Rows that belong to it.
    pub(crate) rows: B32,
    /// Rows in use.
    pub(crate) used: B32,
}

/// What a side's numbers are called.
struct Names {
    rows: Parameter,
    starts: Tensor,
    used: Tensor,
}

impl Side {
    /// The queries of sequence `batch`.
    pub(crate) fn queries(
        k: &mut KernelBuilder,
        lengths: Lengths,
        inputs: &Inputs,
        batch: B32,
    ) -> Self {
        let names = Names { rows: Parameter::RowsQ, starts: Tensor::CuQ, used: Tensor::UsedQ };
        Side::new(k, lengths.packed, lengths.used_q, inputs, batch, &names)
    }

    fn keys(k: &mut KernelBuilder, lengths: Lengths, inputs: &Inputs, batch: B32) -> Self {
        let names = Names { rows: Parameter::RowsK, starts: Tensor::CuK, used: Tensor::UsedK };
        Side::new(k, lengths.packed, lengths.used_k, inputs, batch, &names)
    }

    fn new(
        k: &mut KernelBuilder,
        packed: bool,
        used_given: bool,
        inputs: &Inputs,
        batch: B32,
        names: &Names,
    ) -> Self {
        let all = inputs.u32(k, names.rows);
        let mut side = Side { storage: batch, start: k.mov_b32(0), rows: all, used: all };
        let mut given = batch;
        if packed {
            side.storage = k.mov_b32(0);
            let count = inputs.u32(k, Parameter::Batch);
            let spare = k.setp_u32(Ge, batch, count);
            // The spare sequence reads the last entry, and what lies after it up to the end.
            let (start, end) = range(k, inputs, names.starts, batch, spare, all);
            side.start = start;
            side.rows = k.sub_u32(end, start);
            side.used = k.selp_b32(0, side.rows, spare);
            let last = k.sub_u32(count, 1);
            given = k.min_s32(batch, last);
            given = k.max_s32(given, 0);
        }
        if used_given {
            side.used = used(k, inputs, names.used, given, side.used);
        }
        side
    }
}

impl Sequence {
    /// Where a row of a tensor of rows begins; `start` is the sequence's first one.
    pub(crate) fn row_address(
        &self,
        k: &mut KernelBuilder,
        inputs: &Inputs,
        tensor: Tensor,
        start: B32,
        row: &Row,
    ) -> B64 {
        let base = inputs.base(k, tensor);
        let base = inputs.advance(k, base, self.storage, tensor, Axis::Batch);
        let base = inputs.advance(k, base, row.head, tensor, Axis::Head);
        let index = k.add_u32(start, row.i);
        inputs.advance(k, base, index, tensor, Axis::Row)
    }
}

/// Entries `index` and the next of a list of begins, each within 0..=all; or `index` and `all`.
fn range(
    k: &mut KernelBuilder,
    inputs: &Inputs,
    list: Tensor,
    index: B32,
    spare: jhalak_ptx::Pred,
    all: B32,
) -> (B32, B32) {
    let start = entry(k, inputs, list, index);
    let start = clamped(k, start, all);
    let end = k.mov_b32(all);
    k.if_(!spare, |k| {
        let next = k.add_u32(index, 1);
        let next = entry(k, inputs, list, next);
        let next = clamped(k, next, all);
        k.max_s32_to(end, next, start);
    });
    (start, end)
}

/// The used length of a sequence of `rows` rows.
fn used(k: &mut KernelBuilder, inputs: &Inputs, list: Tensor, index: B32, rows: B32) -> B32 {
    // A batch of no sequence has only the spare one, which uses nothing.
    let used = k.mov_b32(0);
    let empty = k.setp_u32(Eq, rows, 0);
    k.if_(!empty, |k| {
        let given = entry(k, inputs, list, index);
        let given = clamped(k, given, rows);
        k.mov_b32_to(used, given);
    });
    used
}

/// An entry of a list of i32 or i64; of the latter the low half, which is all that counts.
fn entry(k: &mut KernelBuilder, inputs: &Inputs, list: Tensor, index: B32) -> B32 {
    let base: B64 = inputs.base(k, list);
    let place = inputs.advance(k, base, index, list, Axis::Row);
    k.ld(place)
}

fn clamped(k: &mut KernelBuilder, value: B32, most: B32) -> B32 {
    let value = k.max_s32(value, 0);
    k.min_s32(value, most)
}
