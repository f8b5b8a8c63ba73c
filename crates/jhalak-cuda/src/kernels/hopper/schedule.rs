//! Which tile of rows comes when. Blocks stay: each takes every so manieth unit of work.
//!
//! A unit is a tile of rows of one head. Where late rows see more keys than early ones, it is two of
//! them, the nth from the end and the nth from the begin, so that all units are about as long. Units
//! of a head follow one another: its keys and values are read from memory once.

use jhalak_ptx::Comparison::{Lt, Ne};
use jhalak_ptx::{B32, KernelBuilder, Special};

use super::super::parameters::Parameter;
use super::super::sequence::Sequence;
use super::forward::Kernel;

/// A tile of rows.
pub(super) struct RowTile {
    /// The first query.
    pub(super) first: B32,
    /// The query head.
    pub(super) head: B32,
    /// The sequence's number.
    pub(super) batch: B32,
    pub(super) sequence: Sequence,
}

/// Tiles of a unit, counted from the first of a sequence.
struct Unit {
    late: B32,
    early: B32,
}

/// Runs the body for each tile of this block.
pub(super) fn for_each(
    k: &mut KernelBuilder,
    kernel: &Kernel<'_>,
    body: impl FnOnce(&mut KernelBuilder, &RowTile),
) {
    let (class, inputs) = (&kernel.class.attention, &kernel.inputs);
    let [tiles, heads, units] =
        [Parameter::RowTiles, Parameter::HeadsQ, Parameter::Units].map(|p| inputs.u32(k, p));
    let (unit, blocks) = (k.ctaid_x(), k.special(Special::NctaidX));
    let unit = k.mov_b32(unit);
    let mut units_of_head = tiles;
    if class.bounds.upper {
        let more = k.add_u32(tiles, 1);
        units_of_head = k.shr_u32(more, 1);
    }
    k.while_(
        |k| k.setp_u32(Lt, unit, units),
        |k| {
            let index = k.div_u32(unit, units_of_head);
            let before = k.mul_lo_u32(index, units_of_head);
            let early = k.sub_u32(unit, before);
            let batch = k.div_u32(index, heads);
            let before = k.mul_lo_u32(batch, heads);
            let head = k.sub_u32(index, before);
            let mut late = early;
            if class.bounds.upper {
                let last = k.sub_u32(tiles, 1);
                late = k.sub_u32(last, early);
            }
            let sequence = Sequence::new(k, class.lengths, inputs, batch);
            let tile = RowTile { first: k.register(), head, batch, sequence };
            unit_tiles(k, kernel, &Unit { late, early }, tiles, &tile, body);
            k.add_u32_to(unit, unit, blocks);
        },
    );
}

/// The tiles of a unit; of packed sequences, whose lengths the grid does not know, also those that
/// are whole numbers of `tiles` further.
fn unit_tiles(
    k: &mut KernelBuilder,
    kernel: &Kernel<'_>,
    unit: &Unit,
    tiles: B32,
    tile: &RowTile,
    body: impl FnOnce(&mut KernelBuilder, &RowTile),
) {
    let class = &kernel.class.attention;
    let rows = class.tile.rows;
    if !class.lengths.packed {
        let zero = k.mov_b32(0);
        return pair(k, class.bounds.upper, unit, zero, |k, index| {
            k.mul_lo_u32_to(tile.first, index, rows);
            body(k, tile);
        });
    }
    let base = k.mov_b32(0);
    k.do_while(|k| {
        pair(k, class.bounds.upper, unit, base, |k, index| {
            k.mul_lo_u32_to(tile.first, index, rows);
            let inside = k.setp_u32(Lt, tile.first, tile.sequence.rows_q);
            k.if_(inside, |k| body(k, tile));
        });
        k.add_u32_to(base, base, tiles);
        let first = k.mul_lo_u32(base, rows);
        k.setp_u32(Lt, first, tile.sequence.rows_q)
    });
}

/// The late tile of a unit and then, if it is another one, the early.
fn pair(
    k: &mut KernelBuilder,
    two: bool,
    unit: &Unit,
    base: B32,
    body: impl FnOnce(&mut KernelBuilder, B32),
) {
    let [late, early] = [unit.late, unit.early].map(|tile| k.add_u32(base, tile));
    if !two {
        return body(k, late);
    }
    let index = k.mov_b32(late);
    k.do_while(|k| {
        body(k, index);
        let again = k.setp_u32(Ne, index, early);
        k.mov_b32_to(index, early);
        again
    });
}
