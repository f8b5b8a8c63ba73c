//! Which tile of rows comes when. Blocks stay: each takes every so manieth unit of work.
//!
//! A unit is a tile of rows of one head, and units of a head follow one another: its keys and values
//! are read from memory once. Where late rows see more keys than early ones, a unit is two tiles, the
//! nth from the end and the nth from the begin, so that all are about as long. The tiles of the last
//! heads are units of their own there, long ones first, so that all blocks end together:
//!
//! ```text
//! block       0  1  2  3
//! pairs       0  1  2  3  4  5 …   in turn
//! tiles       0  1  2  3           and back: what is long now is short next
//!             7  6  5  4
//! ```

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

/// Where a unit is: its head, counted over all sequences, and its tiles, or its only one twice.
struct Place {
    head: B32,
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
    let step = k.mov_b32(blocks);
    k.while_(
        |k| k.setp_u32(Lt, unit, units),
        |k| {
            let place = if class.bounds.upper {
                let paired = inputs.u32(k, Parameter::PairedHeads);
                paired_or_alone(k, unit, step, [tiles, units, paired])
            } else {
                let head = k.div_u32(unit, tiles);
                let before = k.mul_lo_u32(head, tiles);
                let tile = k.sub_u32(unit, before);
                Place { head, late: tile, early: tile }
            };
            let batch = k.div_u32(place.head, heads);
            let before = k.mul_lo_u32(batch, heads);
            let head = k.sub_u32(place.head, before);
            let sequence = Sequence::new(k, class.lengths, inputs, batch);
            let tile = RowTile { first: k.register(), head, batch, sequence };
            unit_tiles(k, kernel, &place, tiles, &tile, body);
            k.add_u32_to(unit, unit, step);
        },
    );
}

/// Where a unit is if its head is one of the first `paired`, or of the others. The step to the block's
/// next unit is what it was, or alternates.
fn paired_or_alone(
    k: &mut KernelBuilder,
    unit: B32,
    step: B32,
    [tiles, units, paired]: [B32; 3],
) -> Place {
    let pairs = k.add_u32(tiles, 1);
    let pairs = k.shr_u32(pairs, 1);
    let last = k.sub_u32(tiles, 1);
    let begin = k.mul_lo_u32(paired, pairs);
    let place = Place { head: k.register(), late: k.register(), early: k.register() };
    let in_pairs = k.setp_u32(Lt, unit, begin);
    k.if_else(
        in_pairs,
        |k| {
            k.div_u32_to(place.head, unit, pairs);
            let before = k.mul_lo_u32(place.head, pairs);
            k.sub_u32_to(place.early, unit, before);
            k.sub_u32_to(place.late, last, place.early);
        },
        |k| {
            let index = k.sub_u32(unit, begin);
            let heads = k.sub_u32(units, begin);
            let heads = k.div_u32(heads, tiles);
            let row = k.div_u32(index, heads);
            let before = k.mul_lo_u32(row, heads);
            let head = k.sub_u32(index, before);
            k.add_u32_to(place.head, head, paired);
            k.sub_u32_to(place.late, last, row);
            k.mov_b32_to(place.early, place.late);
            // From the nth of a round to the nth from the end of the next, and from there back.
            let blocks = k.special(Special::NctaidX);
            let two_rounds = k.shl_b32(blocks, 1);
            let twice = k.shl_b32(index, 1);
            let first = k.sub_u32(two_rounds, twice);
            let first = k.sub_u32(first, 1);
            let other = k.sub_u32(two_rounds, step);
            let is_first = k.setp_u32(Lt, index, blocks);
            k.selp_b32_to(step, first, other, is_first);
        },
    );
    place
}

/// The tiles of a unit; of packed sequences, whose lengths the grid does not know, also those that
/// are whole numbers of `tiles` further.
fn unit_tiles(
    k: &mut KernelBuilder,
    kernel: &Kernel<'_>,
    place: &Place,
    tiles: B32,
    tile: &RowTile,
    body: impl FnOnce(&mut KernelBuilder, &RowTile),
) {
    let class = &kernel.class.attention;
    let rows = class.tile.rows;
    if !class.lengths.packed {
        let zero = k.mov_b32(0);
        return pair(k, class.bounds.upper, place, zero, |k, index| {
            k.mul_lo_u32_to(tile.first, index, rows);
            body(k, tile);
        });
    }
    let base = k.mov_b32(0);
    k.do_while(|k| {
        pair(k, class.bounds.upper, place, base, |k, index| {
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
    place: &Place,
    base: B32,
    body: impl FnOnce(&mut KernelBuilder, B32),
) {
    let [late, early] = [place.late, place.early].map(|tile| k.add_u32(base, tile));
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
