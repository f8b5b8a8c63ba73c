//! How a backward pass is cut: what is wanted, sizes of work space, parts and phases.

use std::ops::Range;

use jhalak_problem::{Backward, Problem};

use crate::isa::Isa;
use crate::units::Unit;

/// Rows per tile; with [`KEY_BLOCK`], a tile and what it meets stay in L2.
pub(super) const ROW_BLOCK: usize = 96;
/// Keys per tile.
pub(super) const KEY_BLOCK: usize = 128;
/// Elements from one row of a tile to the next: an odd number of cache lines, so that a column
/// does not fall into a few cache sets.
pub(super) const TILE_STRIDE: usize = KEY_BLOCK + 16;
/// Work space in flight, unless a single unit needs more.
pub(super) const WAVE_BYTES: usize = 64 << 20;
/// The most parts that queries or keys are cut into.
const PARTS: usize = 8;

/// The gradients that are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wants {
    pub(super) dq: bool,
    pub(super) dk: bool,
    pub(super) dv: bool,
    pub(super) dbias: bool,
}

impl Wants {
    pub(super) fn of(call: &Backward<'_>) -> Self {
        let targets = call.targets();
        Wants {
            dq: targets.dq.is_some(),
            dk: targets.dk.is_some(),
            dv: targets.dv.is_some(),
            dbias: targets.dbias.is_some(),
        }
    }

    /// Whether the scores' gradient is needed.
    pub(super) fn ds(self) -> bool {
        self.dq || self.dk || self.dbias
    }

    pub(super) fn any_tile(self) -> bool {
        self.ds() || self.dv
    }
}

/// Where a unit's work space starts, in elements of the arena. What is not wanted has length 0.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    /// K as panels [keys / NR][D][NR].
    pub(super) key_panels: usize,
    /// V as panels [keys / NR][Dv][NR].
    pub(super) value_panels: usize,
    /// K as panels [D / NR][keys of a block][NR], block by block.
    pub(super) key_columns: usize,
    /// Gradients as rows, padded: [rows][D], [keys][D], [keys][Dv].
    pub(super) dq: usize,
    pub(super) dk: usize,
    pub(super) dv: usize,
    /// lse and delta − dlse of each row.
    pub(super) lse: usize,
    pub(super) delta: usize,
    /// The end.
    pub(super) end: usize,
    /// The first of the unit's key blocks among all flags.
    pub(super) flags: usize,
}

impl Place {
    /// The place of `unit` behind `previous`.
    pub(super) fn after<I: Isa>(
        previous: &Place,
        problem: &Problem<'_>,
        unit: &Unit,
        wants: Wants,
        previous_flags: usize,
    ) -> Self {
        let (d, dv) = (problem.head_dim(), problem.head_dim_v());
        let (rows, keys) = (unit.rows(), unit.keys);
        let padded_keys = keys.next_multiple_of(I::NR);
        let mut next = previous.end;
        let mut take = |wanted: bool, len: usize| {
            let start = next;
            next += if wanted { len } else { 0 };
            start
        };
        let key_panels = take(wants.any_tile(), padded_keys * d);
        let value_panels = take(wants.ds(), padded_keys * dv);
        let key_columns = take(wants.dq, keys * d.next_multiple_of(I::NR));
        let dq_at = take(wants.dq, rows * I::pad(d));
        let dk_at = take(wants.dk, keys * I::pad(d));
        let dv_at = take(wants.dv, keys * I::pad(dv));
        let lse = take(true, rows);
        let delta = take(true, rows);
        Place {
            key_panels,
            value_panels,
            key_columns,
            dq: dq_at,
            dk: dk_at,
            dv: dv_at,
            lse,
            delta,
            // The next unit starts on a cache line.
            end: next.next_multiple_of(64),
            flags: previous_flags,
        }
    }
}

/// The parts that one unit's queries and keys are cut into.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    queries: usize,
    keys: usize,
}

impl Parts {
    /// Depends on the shape alone, never on the number of threads.
    pub(super) fn of(unit: &Unit) -> Self {
        let queries = unit.rows().div_ceil(ROW_BLOCK).min(unit.queries).min(PARTS);
        Parts { queries, keys: unit.keys.div_ceil(KEY_BLOCK).min(PARTS) }
    }

    pub(super) fn phases(self) -> usize {
        if self.keys == 0 { 0 } else { self.queries.max(self.keys) }
    }

    /// The tiles of a phase: (query part, key part), no part twice.
    pub(super) fn tiles(self, phase: usize) -> impl Iterator<Item = (usize, usize)> {
        let phases = self.phases();
        (0..self.keys)
            .filter(move |_| phase < phases)
            .map(move |keys| ((keys + phase) % phases, keys))
            .filter(move |&(queries, _)| queries < self.queries)
    }

    /// The queries of a part.
    pub(super) fn queries(self, unit: &Unit, part: usize) -> Range<usize> {
        cut(unit.queries, self.queries, part)
    }

    /// The key blocks of a part.
    pub(super) fn key_blocks(self, unit: &Unit, part: usize) -> Range<usize> {
        cut(unit.keys.div_ceil(KEY_BLOCK), self.keys, part)
    }
}

/// Part `part` of `parts` nearly equal ones of 0..n.
fn cut(n: usize, parts: usize, part: usize) -> Range<usize> {
    n * part / parts..n * (part + 1) / parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_cover_every_pair_of_parts_once_and_no_part_twice_at_once() {
        for (queries, keys) in [(1, 1), (1, 5), (5, 1), (3, 8), (8, 8), (8, 3)] {
            let parts = Parts { queries, keys };
            let mut seen = vec![0; queries * keys];
            for phase in 0..parts.phases() {
                let tiles: Vec<_> = parts.tiles(phase).collect();
                for (n, &(q, k)) in tiles.iter().enumerate() {
                    seen[q * keys + k] += 1;
                    assert!(tiles[..n].iter().all(|&(q2, k2)| q2 != q && k2 != k));
                }
            }
            assert!(seen.iter().all(|&count| count == 1));
        }
    }
}
