//! A block's shared memory.

use jhalak_ptx::{B32, KernelBuilder};

use super::super::super::backward_class::BackwardClass;
use super::super::copy::pitch;

/// Bytes of the two numbers of a query.
pub(super) const NUMBERS: u32 = 8;

/// Bytes of each tile, in the order of [`Tiles`].
pub(super) struct Layout([u32; 6]);

/// Where the tiles begin.
pub(super) struct Tiles {
    pub(super) keys: B32,
    pub(super) v: B32,
    pub(super) q: B32,
    pub(super) dout: B32,
    /// The gradient of the scores: a row for each key, a column for each query.
    pub(super) ds: B32,
    /// Two numbers of each query: −lse and −delta.
    pub(super) numbers: B32,
}

impl Layout {
    pub(super) fn new(class: &BackwardClass) -> Self {
        let BackwardClass { element, head_dim, head_dim_v, tile, .. } = *class;
        let [row, row_v] = [head_dim, head_dim_v].map(|dim| pitch(element, dim));
        Layout([
            tile.keys * row,
            tile.keys * row_v,
            tile.rows * row,
            tile.rows * row_v,
            if class.dq { tile.keys * pitch(element, tile.rows) } else { 0 },
            tile.rows * NUMBERS,
        ])
    }

    pub(super) fn declare(&self, k: &mut KernelBuilder) -> Tiles {
        let shared = k.dynamic_shared("tiles", self.bytes(), 16);
        let mut next = k.shared_address(shared);
        let [keys, v, q, dout, ds, numbers] = self.0.map(|bytes| {
            let tile = next;
            next = k.add_u32(tile, bytes);
            tile
        });
        Tiles { keys, v, q, dout, ds, numbers }
    }

    fn bytes(&self) -> u32 {
        self.0.iter().sum()
    }
}

/// Shared memory of a block of a backward kernel, in bytes.
pub fn backward_shared_bytes(class: &BackwardClass) -> u32 {
    Layout::new(class).bytes()
}
