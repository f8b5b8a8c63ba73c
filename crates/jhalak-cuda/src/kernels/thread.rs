//! Who a thread is, and which part of a matrix fragment it holds.
//!
//! ```text
//! lane l of a warp holds, of 16 × 8 floats:  rows l / 4 and l / 4 + 8, columns 2·(l % 4) and the next
//! ```

use jhalak_ptx::{B32, KernelBuilder};

/// A thread's places.
#[derive(Clone, Copy)]
pub(crate) struct Thread {
    /// In the block.
    pub(crate) index: B32,
    /// The warp in the block.
    pub(crate) warp: B32,
    /// In the warp.
    pub(crate) lane: B32,
    /// Its first row of a fragment.
    pub(crate) row: B32,
    /// Its first column of a fragment.
    pub(crate) column: B32,
}

impl Thread {
    pub(crate) fn new(k: &mut KernelBuilder) -> Self {
        let index = k.tid_x();
        let (warp, lane) = (k.shr_u32(index, 5), k.and_b32(index, 31));
        let (row, pair) = (k.shr_u32(lane, 2), k.and_b32(lane, 3));
        let column = k.shl_b32(pair, 1);
        Thread { index, warp, lane, row, column }
    }
}
