//! Bringing keys and values, and then queries with what belongs to them.

use jhalak_ptx::Comparison::{Lt, Neu};
use jhalak_ptx::{B32, B64, Connective, F32, KernelBuilder};

use super::super::super::element::Element;
use super::super::super::guarded::load_float;
use super::super::super::parameters::{Axis, Tensor};
use super::super::super::row::Row;
use super::super::copy::TileCopy;
use super::Context;
use super::layout::NUMBERS;

const LOG2_E: f32 = std::f32::consts::LOG2_E;

/// A thread's copies.
pub(super) struct Copies {
    keys: TileCopy,
    v: TileCopy,
    q: TileCopy,
    dout: TileCopy,
    /// −lse and −delta of the thread's query of a tile, on their way to shared memory.
    numbers: [F32; 2],
}

impl Copies {
    pub(super) fn new(k: &mut KernelBuilder, context: &Context<'_>) -> Self {
        let (class, tiles) = (context.class, &context.tiles);
        let tile = class.tile;
        let mut copy = |tensor, rows, head_dim, place| {
            let column = context.column(k, tensor);
            let size = (rows, head_dim);
            TileCopy::new(k, &context.thread, tile.threads(), class.element, size, place, column)
        };
        let keys = copy(Tensor::K, tile.keys, class.head_dim, tiles.keys);
        let v = copy(Tensor::V, tile.keys, class.head_dim_v, tiles.v);
        let q = copy(Tensor::Q, tile.rows, class.head_dim, tiles.q);
        let dout = copy(Tensor::Dout, tile.rows, class.head_dim_v, tiles.dout).of(class.dout);
        Copies { keys, v, q, dout, numbers: k.registers() }
    }

    /// Copies the keys from `first` on, counted from the first tile, and their values.
    pub(super) fn begin_keys(&self, k: &mut KernelBuilder, context: &Context<'_>, first: B32) {
        let sequence = &context.sequence;
        let first = context.unshifted(k, first);
        let head = context.block.head_k;
        let limits = (sequence.start_k, sequence.used_k);
        copy_rows(k, context, &self.keys, Tensor::K, head, first, limits);
        if context.class.needs_scores() {
            copy_rows(k, context, &self.v, Tensor::V, head, first, limits);
        }
    }

    /// Begins to copy queries of a head, from `first` on.
    pub(super) fn begin(
        &self,
        k: &mut KernelBuilder,
        context: &Context<'_>,
        head: B32,
        first: B32,
    ) {
        let sequence = &context.sequence;
        let limits = (sequence.start_q, sequence.used_q);
        copy_rows(k, context, &self.q, Tensor::Q, head, first, limits);
        copy_rows(k, context, &self.dout, Tensor::Dout, head, first, limits);
        self.load_numbers(k, context, head, first);
    }

    /// Finishes the copies that were begun: after a barrier of the block, all is there.
    pub(super) fn finish(&self, k: &mut KernelBuilder, context: &Context<'_>) {
        if self.q.is_asynchronous() || self.dout.is_asynchronous() {
            k.cp_async_wait_group(0);
        }
        let mine = k.setp_u32(Lt, context.thread.index, context.class.tile.rows);
        let place = k.mad_lo_u32(context.thread.index, NUMBERS, context.tiles.numbers);
        k.when(mine, |k| k.st_vector(place, self.numbers));
    }

    /// −lse, as a power of two's exponent if scores are folded into it, and −delta. A query that
    /// sees nothing has weights of 0, as if its lse were ∞.
    fn load_numbers(&self, k: &mut KernelBuilder, context: &Context<'_>, head: B32, first: B32) {
        let class = context.class;
        let row = Row { i: k.add_u32(first, context.thread.index), head };
        let inside = k.setp_u32(Lt, row.i, context.sequence.used_q);
        let mine =
            k.setp_u32_with(Lt, context.thread.index, class.tile.rows, Connective::And, inside);
        let [lse, delta] = [Tensor::Lse, Tensor::Delta].map(|tensor| {
            let place = context.row_address(k, tensor, context.sequence.start_q, &row);
            load_float(k, Element::F32, mine, place)
        });
        let sees = k.setp_f32_with(Neu, lse, f32::NEG_INFINITY, Connective::And, mine);
        let lse = if class.scores.folded { k.mul_f32(lse, LOG2_E) } else { lse };
        for (number, value, nothing) in
            [(self.numbers[0], lse, f32::NEG_INFINITY), (self.numbers[1], delta, 0.0)]
        {
            let minus = k.neg_f32(value);
            k.selp_f32_to(number, minus, nothing, sees);
        }
    }
}

/// Copies rows of a head, from row `first` on, of a sequence that begins at row `start` and uses
/// `used`. What is not asynchronous is finished at once: it would hold registers.
fn copy_rows(
    k: &mut KernelBuilder,
    context: &Context<'_>,
    copy: &TileCopy,
    tensor: Tensor,
    head: B32,
    first: B32,
    (start, used): (B32, B32),
) {
    let row = Row { i: k.add_u32(first, copy.row), head };
    let address = context.row_address(k, tensor, start, &row);
    let stride = context.inputs.stride(k, tensor, Axis::Row);
    let step: B64 = k.mul_lo_u64(stride, u64::from(copy.rows_at_once()));
    let sources = copy.strided(k, address, step, row.i, used);
    copy.begin(k, &sources);
    if !copy.is_asynchronous() {
        copy.finish(k);
    }
}
