//! [`Unit`]: one sequence and key head, with all the query heads that read it.

use std::ops::Range;

use jhalak_problem::{Error, Problem, Result};

/// The work that shares one set of keys and values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit {
    pub(crate) b: usize,
    pub(crate) head_k: usize,
    /// Query heads per key head.
    pub(crate) group: usize,
    /// Sq in use.
    pub(crate) queries: usize,
    /// Sk in use.
    pub(crate) keys: usize,
}

/// All units of a call that have queries.
///
/// # Errors
/// Out of memory, where there are more of them than fit.
pub(crate) fn units(problem: &Problem<'_>) -> Result<Vec<Unit>> {
    let group = problem.group();
    let mut units = Vec::new();
    let (longest, _) = problem.max_seqlens();
    if group == 0 || longest == 0 {
        return Ok(units);
    }
    for b in 0..problem.batch() {
        let sequence = problem.sequence(b);
        let (queries, keys) = (sequence.seqlen_q(), sequence.seqlen_k());
        if queries == 0 {
            continue;
        }
        let bytes = problem.heads_k().saturating_mul(size_of::<Unit>());
        units
            .try_reserve(problem.heads_k())
            .map_err(|_| Error::OutOfMemory { what: "the list of work", bytes })?;
        units.extend((0..problem.heads_k()).map(|head_k| Unit { b, head_k, group, queries, keys }));
    }
    Ok(units)
}

impl Unit {
    /// Queries of all heads: row r is query r / group of head r mod group.
    pub(crate) fn rows(&self) -> usize {
        self.queries * self.group
    }

    /// The query of a row.
    pub(crate) fn query(&self, row: usize) -> usize {
        row / self.group
    }

    /// The query head of a row.
    pub(crate) fn head_q(&self, row: usize) -> usize {
        self.head_k * self.group + row % self.group
    }

    /// The rows of a range, head by head.
    pub(crate) fn rows_by_head(
        &self,
        rows: Range<usize>,
    ) -> impl Iterator<Item = (usize, impl Iterator<Item = usize>)> {
        let group = self.group;
        (rows.start..rows.end.min(rows.start + group))
            .map(move |first| (self.head_q(first), (first..rows.end).step_by(group)))
    }

    /// The queries of a range of rows that is not empty.
    pub(crate) fn queries_of(&self, rows: Range<usize>) -> Range<usize> {
        self.query(rows.start)..self.query(rows.end - 1) + 1
    }

    /// The keys of block `block` of `size` keys.
    pub(crate) fn key_block(&self, block: usize, size: usize) -> Range<usize> {
        let first = block * size;
        first..self.keys.min(first + size)
    }
}

/// How much work a wave of units may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaveLimit {
    /// Bytes of work space, unless a single unit needs more.
    pub(crate) bytes: usize,
    /// With this many rows there is work for all threads, and the wave ends: the smaller it is, the
    /// more of its packed operands stay in the caches.
    pub(crate) rows: usize,
}

/// Cuts `units` into runs within the limit.
pub(crate) fn waves(
    units: &[Unit],
    bytes: impl Fn(&Unit) -> usize,
    limit: WaveLimit,
) -> Vec<Range<usize>> {
    let mut waves: Vec<Range<usize>> = Vec::new();
    let (mut filled, mut rows) = (0, 0);
    for (n, unit) in units.iter().enumerate() {
        let more = bytes(unit);
        match waves.last_mut() {
            Some(wave) if filled + more <= limit.bytes && rows < limit.rows => {
                wave.end = n + 1;
                filled += more;
                rows += unit.rows();
            }
            _ => {
                waves.push(n..n + 1);
                (filled, rows) = (more, unit.rows());
            }
        }
    }
    waves
}
