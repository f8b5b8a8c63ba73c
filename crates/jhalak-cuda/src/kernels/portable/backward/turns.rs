//! Turns: blocks add to a tile of dq one after the other, so that sums are the same every time.
//!
//! A tile's turns go from late keys to early ones. With a causal mask all blocks then begin in step:
//! each has its diagonal tile to itself, and whoever follows it there is one tile behind.
//!
//! ```text
//! tile of queries:   0  1  2  3        a block waits for the one to the right of it ─ the next keys ─
//! keys of block 0:   ●  ●  ●  ●        if that one sees the tile too
//! keys of block 1:      ●  ●  ●
//! keys of block 2:         ●  ●
//! ```
//!
//! Blocks take their tiles of keys in the order in which they begin to run, so that whoever is waited
//! for has begun.

use jhalak_ptx::Comparison::{Eq, Ge, Lt, Ne};
use jhalak_ptx::{
    Access, AtomicOperator, AtomicOrder, B32, B64, Connective, KernelBuilder, Order, Pred, Scope,
};

use super::super::super::parameters::{Inputs, Parameter, Tensor};
use super::Context;
use super::queries::QueryRange;

/// Polls after which a block goes on all the same, some seconds: lists of sequences that overlap,
/// which nobody should give, must not stop the GPU.
const PATIENCE: u32 = 1 << 22;

/// The number of blocks that began before this one.
pub(super) fn ticket(k: &mut KernelBuilder, inputs: &Inputs) -> B32 {
    let place = k.static_shared("ticket", 4, 4);
    let place = k.shared_address(place);
    let thread = k.tid_x();
    let first = k.setp_u32(Eq, thread, 0);
    k.if_(first, |k| {
        let counter = inputs.base(k, Tensor::Turns);
        let (order, scope) = (AtomicOrder::Relaxed, Scope::Gpu);
        let ticket = k.atom_u32(AtomicOperator::Add, counter, 1, order, scope);
        k.st(place, ticket);
    });
    k.bar_sync_all();
    k.ld(place)
}

/// A block's turns with one tile of keys.
pub(super) struct Turns {
    first_thread: Pred,
    /// What says that it is the block's turn, and that it is over.
    turn: B32,
    over: B32,
    /// The tiles of queries that the next keys see too.
    next: QueryRange,
    /// Where the turns of the sequence begin, for head 0.
    sequence: B64,
    /// Where the last turn is to be ended; 0 if nowhere.
    last: B64,
}

impl Turns {
    /// Of the tile of keys that begins with `first`.
    pub(super) fn new(k: &mut KernelBuilder, context: &Context<'_>, first: B32) -> Self {
        let (tile, sequence) = (context.class.tile, &context.sequence);
        let next = k.add_u32(first, tile.keys);
        let over = k.div_u32(next, tile.keys);
        let skipped = if context.class.lengths.packed {
            let rows = k.div_u32(sequence.start_q, tile.rows);
            k.add_u32(rows, context.block.batch)
        } else {
            let heads = context.inputs.u32(k, Parameter::HeadsQ);
            let tiles = context.inputs.u32(k, Parameter::QueryTiles);
            let heads = k.mul_lo_u32(sequence.storage, heads);
            k.mul_lo_u32(heads, tiles)
        };
        // The first number is that of tickets.
        let skipped = k.add_u32(skipped, 1);
        let base = context.inputs.base(k, Tensor::Turns);
        Turns {
            first_thread: k.setp_u32(Eq, context.thread.index, 0),
            turn: k.add_u32(over, 1),
            over,
            next: QueryRange::new(k, context, next),
            sequence: k.mad_wide_u32(skipped, 4, base),
            last: k.mov_b64(0),
        }
    }

    /// Ends the last turn, to whose tile all threads have added, and waits for that of another tile
    /// of queries. A barrier of the block must follow before anybody adds.
    pub(super) fn begin(&self, k: &mut KernelBuilder, context: &Context<'_>, head: B32, tile: B32) {
        k.if_(self.first_thread, |k| {
            self.end_last(k);
            let tiles = context.inputs.u32(k, Parameter::QueryTiles);
            let index = k.mad_lo_u32(head, tiles, tile);
            let place = k.mad_wide_u32(index, 4, self.sequence);
            let shared = k.setp_u32(Ge, tile, self.next.begin);
            let shared = k.setp_u32_with(Lt, tile, self.next.end, Connective::And, shared);
            let shared = k.and_pred(shared, self.next.any);
            k.if_(shared, |k| self.wait(k, place));
            k.mov_b64_to(self.last, place);
        });
    }

    /// Ends the last turn, once all threads have added to it.
    pub(super) fn end(&self, k: &mut KernelBuilder) {
        k.bar_sync_all();
        k.if_(self.first_thread, |k| self.end_last(k));
    }

    fn end_last(&self, k: &mut KernelBuilder) {
        let any = k.setp_u64(Ne, self.last, 0);
        k.when(any, |k| {
            let release = Access::new(Order::Release(Scope::Gpu));
            k.st_with(self.last, [self.over], release);
        });
    }

    fn wait(&self, k: &mut KernelBuilder, place: B64) {
        let polls = k.mov_b32(0);
        k.do_while(|k| {
            let turn: B32 = k.register();
            k.ld_with([turn], place, Access::new(Order::Acquire(Scope::Gpu)));
            k.add_u32_to(polls, polls, 1);
            let early = k.setp_u32(Ne, turn, self.turn);
            k.setp_u32_with(Lt, polls, PATIENCE, Connective::And, early)
        });
    }
}
