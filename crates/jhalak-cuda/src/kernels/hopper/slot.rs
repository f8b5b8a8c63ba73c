//! Where the results of a warpgroup wait to leave: 64 rows in panels, as the copy engine reads them.

use jhalak_ptx::{B32, KernelBuilder};

use super::forward::Kernel;
use super::memory::{ROW_BYTES, tile_bytes};
use super::ring::Position;

/// Rows of a warpgroup.
pub(super) const ROWS: u32 = 64;

/// A warpgroup's rows in shared memory.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub(super) rows: B32,
    /// From one panel to the next.
    pub(super) panel_bytes: u32,
}

impl Slot {
    /// Where the warpgroup's queries were.
    pub(super) fn of_queries(
        k: &mut KernelBuilder,
        kernel: &Kernel<'_>,
        at: Position,
        index: B32,
    ) -> Self {
        let [_, _, q_bytes] = tile_bytes(kernel.class);
        let tile = k.mad_lo_u32(at.tile, q_bytes, kernel.memory.q);
        let rows = k.mad_lo_u32(index, ROWS * ROW_BYTES, tile);
        Slot { rows, panel_bytes: kernel.class.attention.tile.rows * ROW_BYTES }
    }

    /// At this address.
    pub(super) fn of_values(rows: B32) -> Self {
        Slot { rows, panel_bytes: ROWS * ROW_BYTES }
    }

    /// Where the results of a warpgroup go, whose tiles of V go on at `at`: the `index`th tile of V
    /// from there, once nobody reads it any more.
    pub(super) fn when_free(
        k: &mut KernelBuilder,
        kernel: &Kernel<'_>,
        at: Position,
        index: B32,
    ) -> Self {
        let [_, v_bytes, _] = tile_bytes(kernel.class);
        let tile = kernel.memory.v_ring.wait_free(k, at, index);
        Slot::of_values(k.mad_lo_u32(tile, v_bytes, kernel.memory.v))
    }

    /// Where 8 columns of a row are: the `chunk`th.
    pub(super) fn chunk(self, k: &mut KernelBuilder, row: B32, chunk: B32) -> B32 {
        let panel = k.shr_u32(chunk, 3);
        let place = k.mad_lo_u32(panel, self.panel_bytes, self.rows);
        let place = k.mad_lo_u32(row, ROW_BYTES, place);
        let chunk = k.and_b32(chunk, 7);
        let in_pattern = k.and_b32(row, 7);
        let chunk = k.xor_b32(chunk, in_pattern);
        k.mad_lo_u32(chunk, 16, place)
    }
}
