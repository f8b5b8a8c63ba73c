//! Which tile of the output comes when. Blocks are persistent: each computes every so manieth tile.
//!
//! Tiles that are computed at the same time should share rows of a and columns of b, which then come
//! from the second cache. So tiles go in bands of [`BAND`] rows of tiles; within a band, down the
//! columns.

use jhalak_ptx::Comparison::Lt;
use jhalak_ptx::{B32, KernelBuilder, Param, Special};

/// Rows of tiles that are walked together: with as many columns, about what one wave of blocks holds.
const BAND: u32 = 16;

/// The grid of tiles, in rows and columns of tiles.
#[derive(Clone, Copy)]
pub(crate) struct Tiles {
    rows: B32,
    columns: B32,
}

impl Tiles {
    /// Reads the sizes.
    pub(crate) fn new(k: &mut KernelBuilder, rows: Param<B32>, columns: Param<B32>) -> Self {
        Tiles { rows: k.ld_param(rows), columns: k.ld_param(columns) }
    }

    /// Runs the body for each tile of this block, with the tile's row and column.
    pub(crate) fn for_each(
        &self,
        k: &mut KernelBuilder,
        body: impl FnOnce(&mut KernelBuilder, B32, B32),
    ) {
        let (tile, blocks) = (k.ctaid_x(), k.special(Special::NctaidX));
        let count = k.mul_lo_u32(self.rows, self.columns);
        k.while_(
            |k| k.setp_u32(Lt, tile, count),
            |k| {
                let (row, column) = self.place(k, tile);
                body(k, row, column);
                k.add_u32_to(tile, tile, blocks);
            },
        );
    }

    fn place(&self, k: &mut KernelBuilder, tile: B32) -> (B32, B32) {
        let in_band = k.mul_lo_u32(self.columns, BAND);
        let band = k.div_u32(tile, in_band);
        let first_row = k.mul_lo_u32(band, BAND);
        let rows_left = k.sub_u32(self.rows, first_row);
        let rows = k.min_u32(rows_left, BAND);
        let before = k.mul_lo_u32(band, in_band);
        let within = k.sub_u32(tile, before);
        let column = k.div_u32(within, rows);
        let above = k.mul_lo_u32(column, rows);
        let row = k.sub_u32(within, above);
        (k.add_u32(first_row, row), column)
    }
}
