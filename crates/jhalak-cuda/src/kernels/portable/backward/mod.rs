//! Attention, backward: one block takes a tile of keys through all the queries that see them
//! (Dao, 2023, "FlashAttention-2", algorithm 2).
//!
//! Scores are computed transposed, keys along rows, so that the weights and the gradients of the
//! scores lie in registers as the products for dv and dk want them. Those products stay in registers
//! until the end; dq is added to a workspace, tile by tile, and so is the gradient of the bias.
//!
//! ```text
//! each head of the group, each tile of queries:
//!   wait for Q, dO ─ Sᵀ = K·Qᵀ ─ dPᵀ = V·dOᵀ ─ P, dS ─ dS to shared memory ─ dV += Pᵀ·dO ─
//!   dK += dSᵀ·Q ─ begin the next Q, dO ─ dQ += dS·K
//! ```

mod columns;
mod copies;
mod dbias;
mod dq;
mod epilogue;
mod gradients;
mod layout;
mod queries;
mod repair;
mod turns;

use jhalak_ptx::Comparison::{Gt, Lt};
use jhalak_ptx::{B32, B64, Error, KernelBuilder, Module, ModuleBuilder};

use super::super::backward_class::BackwardClass;
use super::super::class::Access;
use super::super::dropout::Dropout;
use super::super::parameters::{Axis, Inputs, Parameter, Tensor};
use super::super::row::Row;
use super::super::scores::Scores;
use super::super::sequence::{Block, Sequence};
use super::super::softmax::{Fragments, zeros};
use super::super::thread::Thread;
use super::super::visible::{Visible, alignment};
use columns::Columns;
use layout::{Layout, Tiles};
use queries::QueryRange;

pub use layout::backward_shared_bytes;

/// The name of the kernel in its module.
pub const BACKWARD: &str = "backward";

/// The module of a class. The grid is (tiles of keys · sequences, key heads).
///
/// # Errors
///
/// Whatever [`ModuleBuilder::build`] finds: sm_75 has no bf16.
pub fn backward(class: &BackwardClass) -> Result<Module, Error> {
    let mut module = ModuleBuilder::new(class.target);
    module.kernel(BACKWARD, |k| write(k, class));
    module.build()
}

/// What all parts of the kernel know.
struct Context<'c> {
    class: &'c BackwardClass,
    inputs: Inputs,
    thread: Thread,
    block: Block,
    sequence: Sequence,
    visible: Visible,
    scores: Scores,
    dropout: Option<Dropout>,
    tiles: Tiles,
    /// The warp's first key of a tile.
    warp_key: B32,
    /// Which part of the columns of dk and dv is the warp's.
    part: B32,
    /// How far the first tile of keys begins before key 0.
    shift: Option<B32>,
}

fn write(k: &mut KernelBuilder, class: &BackwardClass) {
    k.maxntid(class.tile.threads());
    let inputs = Inputs::declare(k, &class.parameters());
    let tiles = Layout::new(class).declare(k);
    let thread = Thread::new(k);
    // Early keys are seen by most queries: the longest work begins first.
    let ticket = class.ordered.then(|| turns::ticket(k, &inputs));
    let block = Block::of_keys(k, &inputs, ticket);
    let sequence = Sequence::new(k, class.lengths, &inputs, block.batch);
    let alignment = alignment(k, &inputs, &sequence);
    let dropout = class.dropout.then(|| Dropout::new(k, &inputs, block.batch, alignment));
    let shift = class.dropout.then(|| inputs.u32(k, Parameter::DropoutShift));
    let visible = Visible::new(k, class.bounds, &inputs, &sequence, shift);
    let scores = Scores::new(k, class.scores, &inputs, block.batch, alignment);
    let key_warps = class.key_warps();
    let (warp, part) = (k.rem_u32(thread.warp, key_warps), k.div_u32(thread.warp, key_warps));
    let warp_key = k.mul_lo_u32(warp, 16 * class.key_fragments() as u32);
    let context = Context {
        class,
        inputs,
        thread,
        block,
        sequence,
        visible,
        scores,
        dropout,
        tiles,
        warp_key,
        part,
        shift,
    };
    if class.lengths.packed && class.ordered {
        context.neighbouring_tiles(k);
    } else if class.lengths.packed {
        // The grid is made for a hint of the longest sequence.
        let tiles = context.inputs.u32(k, Parameter::RowTiles);
        let tile = k.mov_b32(block.tile);
        k.while_(
            |k| {
                let first = k.mul_lo_u32(tile, class.tile.keys);
                let first = context.unshifted(k, first);
                k.setp_s32(Lt, first, context.sequence.rows_k)
            },
            |k| {
                context.tile(k, tile);
                // The next tile goes where this one is still read.
                k.bar_sync_all();
                k.add_u32_to(tile, tile, tiles);
            },
        );
    } else {
        context.tile(k, block.tile);
    }
}

impl Context<'_> {
    /// Where a row of a tensor of rows begins.
    fn row_address(&self, k: &mut KernelBuilder, tensor: Tensor, start: B32, row: &Row) -> B64 {
        let base = self.inputs.base(k, tensor);
        let base = self.inputs.advance(k, base, self.sequence.storage, tensor, Axis::Batch);
        let base = self.inputs.advance(k, base, row.head, tensor, Axis::Head);
        let index = k.add_u32(start, row.i);
        self.inputs.advance(k, base, index, tensor, Axis::Row)
    }

    /// The stride between the columns of a tensor of rows, where it is not the element's size.
    fn column(&self, k: &mut KernelBuilder, tensor: Tensor) -> Option<B64> {
        let given = self.class.access_of(tensor) == Access::Elements;
        given.then(|| self.inputs.stride(k, tensor, Axis::Column))
    }

    /// Where an element of a row of a tensor is.
    fn column_address(
        &self,
        k: &mut KernelBuilder,
        tensor: Tensor,
        bytes: u32,
        row: B64,
        column: B32,
    ) -> B64 {
        match self.column(k, tensor) {
            None => k.mad_wide_u32(column, bytes, row),
            Some(stride) => {
                let column = k.cvt_u64_u32(column);
                k.mad_lo_u64(column, stride, row)
            }
        }
    }

    /// The thread's first key of the tile that begins with `first`, counted from the first tile.
    fn thread_key(&self, k: &mut KernelBuilder, first: B32) -> B32 {
        let key = k.add_u32(first, self.warp_key);
        k.add_u32(key, self.thread.row)
    }

    /// A key's index in the sequence; below 0 for those that the first tile begins before it.
    fn unshifted(&self, k: &mut KernelBuilder, key: B32) -> B32 {
        match self.shift {
            Some(shift) => k.sub_u32(key, shift),
            None => key,
        }
    }

    /// The block's share of a packed sequence's tiles, late ones first. A share is more than one
    /// tile where the hint of the longest sequence was wrong; neighbours then wait for nobody who
    /// begins later.
    fn neighbouring_tiles(&self, k: &mut KernelBuilder) {
        let tiles = self.inputs.u32(k, Parameter::RowTiles);
        let keys = match self.shift {
            Some(shift) => k.add_u32(self.sequence.rows_k, shift),
            None => self.sequence.rows_k,
        };
        let all = k.add_u32(keys, self.class.tile.keys - 1);
        let all = k.div_u32(all, self.class.tile.keys);
        let share = k.add_u32(all, tiles);
        let share = k.sub_u32(share, 1);
        let share = k.div_u32(share, tiles);
        let begin = k.mul_lo_u32(self.block.tile, share);
        let end = k.add_u32(begin, share);
        let tile = k.min_u32(end, all);
        k.while_(
            |k| k.setp_u32(Gt, tile, begin),
            |k| {
                k.sub_u32_to(tile, tile, 1);
                self.tile(k, tile);
                // The next tile goes where this one is still read.
                k.bar_sync_all();
            },
        );
    }

    fn tile(&self, k: &mut KernelBuilder, tile: B32) {
        let class = self.class;
        let first = k.mul_lo_u32(tile, class.tile.keys);
        let sums = KeyGradients::new(k, self);
        let range = QueryRange::new(k, self, first);
        k.if_(range.any, |k| self.queries(k, first, &range, &sums));
        epilogue::write(k, self, first, &sums);
    }
}

/// The sums of a warp's keys, as far as they are asked for.
struct KeyGradients {
    dk: Option<(Columns, Fragments)>,
    dv: Option<(Columns, Fragments)>,
}

impl KeyGradients {
    fn new(k: &mut KernelBuilder, context: &Context<'_>) -> Self {
        let class = context.class;
        let parts = class.tile.warps / class.key_warps();
        let mut sums = |given: bool, head_dim| {
            given.then(|| {
                let columns = Columns::new(k, class.element, head_dim, parts, context.part);
                let sums = zeros(k, class.key_fragments(), columns.fragments());
                (columns, sums)
            })
        };
        let dk = sums(class.dk.is_some(), class.head_dim);
        KeyGradients { dk, dv: sums(class.dv.is_some(), class.head_dim_v) }
    }
}
