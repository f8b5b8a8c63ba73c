//! Few queries against many keys (decoding): each key and value is read once, from where it lies,
//! and nothing is packed.
//!
//! ```text
//! in parallel over bundles of heads and chunks of their keys:
//!     for each block of keys:   S = Q·Kᵀ of all heads, masked
//!                               look for NaN and infinities in V of all heads
//!                               for each head:  P = softmax step on S,  O = α·O + P·V
//! in parallel over (sequence, key head):   merge the chunks, out = O / l,  lse = m + ln l
//! ```
//!
//! All query heads that read a key head are rows of the same tile, so grouped-query attention reads
//! keys and values once. Heads that lie next to each other are read together, since memory is
//! fastest in order. Rows that cannot be read a vector at a time are copied first. Long contexts are cut into chunks, so that one head has work for many threads
//! (flash-decoding: Dao et al., 2023). The cut depends on the lengths only, never on the threads.

use std::ops::Range;

use jhalak_problem::{Forward, Matrix, Problem, Result, TileClass};

use crate::arithmetic::TileShape;
use crate::executor::Team;
use crate::isa::{Float, Isa};
use crate::memory::{Buffer, Pool};
use crate::pack::{load_rows, load_side_by_side};
use crate::rows::{self, Store};
use crate::scores::{Rules, Tile};
use crate::softcap::Softcap;
use crate::tile::in_place::{Outputs, Rows, Scores, all_finite};
use crate::tile::softmax::{SoftmaxRows, SoftmaxStep};
use crate::units::{Unit, WaveLimit, waves};

/// Units with more rows than this go through packed operands.
const MAX_ROWS: usize = 64;
/// So do units with fewer keys per row: their operands fit the caches either way.
const KEYS_PER_ROW: usize = 8;
/// Keys per tile.
const KEY_BLOCK: usize = 32;
/// Keys or values of a bundle's block, unless a single head has more: they stay in L2.
const BUNDLE_BYTES: usize = 128 << 10;
/// The fewest keys of a chunk, and the most chunks.
const CHUNK: usize = 1024;
const MAX_CHUNKS: usize = 64;
/// Partial results in flight, unless a single unit has more.
const WAVE_BYTES: usize = 16 << 20;

/// What all tasks of a call share.
pub(crate) struct Streamed<'c, I: Isa> {
    isa: I,
    call: &'c Forward<'c>,
    rules: Rules<'c, I::Elem>,
    units: Vec<Unit>,
    waves: Vec<Range<usize>>,
    /// Maximum, sum and output of each row of each chunk.
    partial: Buffer<I::Elem>,
    scratch: Pool<Scratch<I::Elem>>,
}

/// One task's work space.
struct Scratch<E> {
    /// Of each head of a bundle: its queries, and its tile of scores, which become weights.
    queries: Buffer<E>,
    scores: Buffer<E>,
    /// One head's scores before they became weights, where these are needed beside them.
    raw_scores: Buffer<E>,
    /// A block of k or v, head by head, where it cannot be read in place.
    block: Buffer<E>,
    alpha: Buffer<E>,
    /// A row of bias or mask.
    row: Buffer<E>,
    kept: Buffer<bool>,
}

/// Heads of one sequence, next to each other, that a task reads together.
struct Bundle<'u> {
    units: &'u [Unit],
    /// Where the partial results of the first head begin.
    start: usize,
}

/// Whether a unit is computed here.
pub(crate) fn suits(unit: &Unit) -> bool {
    unit.rows() <= MAX_ROWS && unit.keys >= KEYS_PER_ROW * unit.rows()
}

/// The keys of a unit that some query sees, cut into chunks.
#[derive(Clone)]
struct Chunks {
    seen: Range<usize>,
    size: usize,
}

impl Chunks {
    fn of(problem: &Problem<'_>, unit: &Unit) -> Self {
        let seen = problem.visibility(unit.b).keys_of(0..unit.queries);
        let size = seen.len().div_ceil(MAX_CHUNKS).next_multiple_of(KEY_BLOCK).max(CHUNK);
        Chunks { seen, size }
    }

    /// At least one: a unit without keys has results too.
    fn count(&self) -> usize {
        self.seen.len().div_ceil(self.size).max(1)
    }

    fn keys(&self, chunk: usize) -> Range<usize> {
        let first = self.seen.start + chunk * self.size;
        first..self.seen.end.min(first + self.size)
    }
}

impl<'c, I: Isa<Elem: Softcap>> Streamed<'c, I> {
    /// Work space for these units, which all [suit](suits).
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn new(isa: I, call: &'c Forward<'c>, units: Vec<Unit>, team: Team) -> Result<Self> {
        let problem = call.problem();
        let bytes = |unit: &Unit| parts_len::<I>(problem, unit) * size_of::<I::Elem>();
        let limit = WaveLimit { bytes: WAVE_BYTES, rows: usize::MAX };
        let waves = waves(&units, bytes, limit);
        let (mut most, mut tasks, mut rows, mut heads) = (0, 0, 0, 0);
        for wave in &waves {
            let wave = &units[wave.clone()];
            most = most.max(wave.iter().map(|unit| parts_len::<I>(problem, unit)).sum());
            let bundles = bundles::<I>(problem, wave);
            tasks = tasks.max(task_list(problem, &bundles).len());
            rows = wave.iter().map(Unit::rows).fold(rows, usize::max);
            heads = bundles.iter().map(|bundle| bundle.units.len()).fold(heads, usize::max);
        }
        let threads = team.threads().min(tasks);
        Ok(Streamed {
            isa,
            call,
            rules: Rules::new(problem),
            partial: Buffer::zeroed(most)?,
            scratch: Pool::new(threads, || Scratch::new::<I>(problem, rows, heads))?,
            waves,
            units,
        })
    }

    /// Computes out and lse of all units.
    pub(crate) fn run(&self, team: Team) {
        let problem = self.call.problem();
        for wave in &self.waves {
            let bundles = bundles::<I>(problem, &self.units[wave.clone()]);
            let tasks = task_list(problem, &bundles);
            team.run(tasks.len(), |task| {
                let (n, chunk) = tasks[task];
                self.scratch.with(|scratch| self.attend(&bundles[n], chunk, scratch));
            });
            team.run(bundles.len(), |n| {
                let Bundle { units, start } = bundles[n];
                for (n, unit) in units.iter().enumerate() {
                    self.finish(unit, start + n * parts_len::<I>(problem, unit));
                }
            });
        }
    }

    /// Computes one chunk of all heads of a bundle.
    fn attend(&self, bundle: &Bundle<'_>, chunk: usize, scratch: &mut Scratch<I::Elem>) {
        let problem = self.call.problem();
        let units = bundle.units;
        let unit = &units[0];
        for (n, unit) in units.iter().enumerate() {
            self.load_queries(unit, n, scratch);
            let (max, sums) = self.part(bundle, n, chunk).split_at_mut(unit.rows());
            max.fill(I::Elem::NEG_INFINITY);
            sums.fill(I::Elem::ZERO);
        }
        let (k, v): (Vec<_>, Vec<_>) =
            units.iter().map(|u| (problem.k(u.b, u.head_k), problem.v(u.b, u.head_k))).unzip();
        let mut heads = Vec::with_capacity(units.len());
        let visibility = problem.visibility(unit.b);
        let seen = Chunks::of(problem, unit).keys(chunk);
        for first in seen.clone().step_by(KEY_BLOCK) {
            let keys = first..seen.end.min(first + KEY_BLOCK);
            let class = visibility.tile(0..unit.queries, keys.clone());
            if class == TileClass::Empty {
                continue;
            }
            let shape =
                TileShape { rows: unit.rows(), cols: I::pad(keys.len()), stride: KEY_BLOCK };
            let tile = |n| Tile {
                unit: &units[n],
                rows: 0..unit.rows(),
                keys: keys.clone(),
                shape,
                class,
            };
            self.read(&k, &keys, &mut scratch.block, &mut heads);
            self.scores(&heads, shape, keys.len(), scratch);
            for n in 0..units.len() {
                let Scratch { scores, row, .. } = &mut *scratch;
                let scores = &mut scores[tile_of(n, unit.rows())];
                self.rules.apply(self.isa, &tile(n), &visibility, scores, row, None);
            }
            self.read(&v, &keys, &mut scratch.block, &mut heads);
            let width = I::pad(problem.head_dim_v());
            // SAFETY: the rows were found readable.
            let finite = unsafe { all_finite(self.isa, &heads, keys.len(), width) };
            for (n, &values) in heads.iter().enumerate() {
                let part = self.part(bundle, n, chunk);
                if finite {
                    self.accumulate(&tile(n), n, part, values, scratch);
                } else {
                    self.accumulate_spoiled(&tile(n), n, part, &v[n], scratch);
                }
            }
        }
    }

    /// Maxima, sums and outputs of a chunk of the bundle's head `n`.
    #[allow(clippy::mut_from_ref, reason = "tasks share the parts and keep to their own")]
    fn part(&self, bundle: &Bundle<'_>, n: usize, chunk: usize) -> &mut [I::Elem] {
        let (problem, unit) = (self.call.problem(), &bundle.units[n]);
        let len = part_len::<I>(problem, unit);
        let start = bundle.start + n * parts_len::<I>(problem, unit) + chunk * len;
        debug_assert!(start + len <= self.partial.len());
        // SAFETY: inside the buffer; one task alone computes this chunk.
        unsafe { std::slice::from_raw_parts_mut(self.partial.as_ptr().add(start), len) }
    }

    fn load_queries(&self, unit: &Unit, n: usize, scratch: &mut Scratch<I::Elem>) {
        let problem = self.call.problem();
        let stride = I::pad(problem.head_dim());
        for (h, rows) in unit.rows_by_head(0..unit.rows()) {
            let q = problem.q(unit.b, h);
            for row in rows {
                let dst = &mut scratch.queries[(n * unit.rows() + row) * stride..];
                // SAFETY: the row lies inside q.
                unsafe { load_rows(self.isa, &q, unit.query(row), 1, stride, dst) };
            }
        }
    }

    /// Rows `keys` of each matrix: in place, or copied to `block`.
    fn read(
        &self,
        matrices: &[Matrix<'_>],
        keys: &Range<usize>,
        block: &mut [I::Elem],
        heads: &mut Vec<Rows>,
    ) {
        heads.clear();
        heads.extend(matrices.iter().map_while(|m| Rows::of_matrix::<I>(m, keys.start)));
        if heads.len() == matrices.len() {
            return;
        }
        heads.clear();
        // SAFETY: the keys lie inside k and v.
        unsafe { load_side_by_side(self.isa, matrices, keys.clone(), KEY_BLOCK, block) };
        let stride = I::pad(matrices[0].cols());
        heads.extend(
            (0..matrices.len()).map(|n| Rows::of_slice(&block[n * KEY_BLOCK * stride..], stride)),
        );
    }

    /// The raw scores of all heads. Columns of the tile beyond the keys are 0.
    fn scores(
        &self,
        heads: &[Rows],
        shape: TileShape,
        keys: usize,
        scratch: &mut Scratch<I::Elem>,
    ) {
        let TileShape { rows, cols, stride } = shape;
        if keys < cols {
            scratch.scores[..heads.len() * rows * stride].fill(I::Elem::ZERO);
        }
        let products = Scores {
            isa: self.isa,
            heads,
            keys,
            rows,
            depth: I::pad(self.call.problem().head_dim()),
            queries: scratch.queries.as_ptr(),
            s: scratch.scores.as_ptr(),
            stride,
        };
        // SAFETY: the scratch holds the queries and tiles of so many heads.
        unsafe { products.run() };
    }

    /// The softmax step of head `n`, and its product with the values.
    fn accumulate(
        &self,
        tile: &Tile<'_>,
        n: usize,
        part: &mut [I::Elem],
        values: Rows,
        scratch: &mut Scratch<I::Elem>,
    ) {
        let (isa, TileShape { rows, cols, stride }) = (self.isa, tile.shape);
        let weights = scratch.scores[tile_of(n, rows)].as_mut_ptr();
        let (max, rest) = part.split_at_mut(rows);
        let (sum, outputs) = rest.split_at_mut(rows);
        let alpha = scratch.alpha.as_ptr();
        let state = SoftmaxRows { max: max.as_mut_ptr(), sum: sum.as_mut_ptr(), alpha };
        let factor = self.rules.exponent_factor();
        // SAFETY: the tile and the state have these sizes.
        unsafe { SoftmaxStep { isa, rows, cols, s: weights, stride, factor, state }.run() };
        let Scratch { scores, kept, .. } = scratch;
        self.rules.drop_weights(tile, &mut scores[tile_of(n, rows)], kept);
        let product = Outputs {
            isa,
            values,
            keys: tile.keys.len(),
            rows,
            width: I::pad(self.call.problem().head_dim_v()),
            weights,
            stride,
            alpha,
            o: outputs.as_mut_ptr(),
        };
        // SAFETY: the slices are as large as the sizes say.
        unsafe { product.run() };
    }

    /// [`accumulate`](Self::accumulate) where some of the values are NaN or infinite.
    fn accumulate_spoiled(
        &self,
        tile: &Tile<'_>,
        n: usize,
        part: &mut [I::Elem],
        v: &Matrix<'_>,
        scratch: &mut Scratch<I::Elem>,
    ) {
        let (rows, keys) = (tile.shape.rows, tile.keys.clone());
        let width = I::pad(v.cols());
        let at = n * KEY_BLOCK * width;
        let block = &mut scratch.block[at..][..keys.len() * width];
        // SAFETY: the keys lie inside v.
        unsafe { load_rows(self.isa, v, keys.start, keys.len(), width, block) };
        let spoiled = take_spoiled(block, width);
        let values = Rows::of_slice(block, width);
        let Scratch { scores, raw_scores, .. } = scratch;
        raw_scores[tile_of(0, rows)].copy_from_slice(&scores[tile_of(n, rows)]);
        self.accumulate(tile, n, part, values, scratch);
        let (weights, raw_scores) = (&scratch.scores[tile_of(n, rows)], &scratch.raw_scores);
        let outputs = &mut part[2 * rows..];
        for (key, column, value) in spoiled {
            for row in 0..rows {
                let at = row * tile.shape.stride + key;
                if raw_scores[at] != I::Elem::NEG_INFINITY {
                    let o = &mut outputs[row * width + column];
                    *o = *o + weights[at] * value;
                }
            }
        }
    }

    /// Merges the chunks of a unit, from `start` on, and writes its results.
    fn finish(&self, unit: &Unit, start: usize) {
        let problem = self.call.problem();
        let (rows, width) = (unit.rows(), I::pad(problem.head_dim_v()));
        let (len, all) = (part_len::<I>(problem, unit), parts_len::<I>(problem, unit));
        // SAFETY: this task alone uses the unit's parts, whose tasks have ended.
        let parts =
            unsafe { std::slice::from_raw_parts_mut(self.partial.as_ptr().add(start), all) };
        let (total, others) = parts.split_at_mut(len);
        for part in others.chunks_exact(len) {
            self.merge(total, part, rows, width);
        }
        for (h, heads_rows) in unit.rows_by_head(0..rows) {
            let (out, lse_out) = (self.call.out(unit.b, h), self.call.lse(unit.b, h));
            for n in heads_rows {
                let (lse, factor) = self.rules.finish_row(total[n], total[rows + n], h);
                let o = &total[2 * rows + n * width..][..problem.head_dim_v()];
                let i = unit.query(n);
                // SAFETY: this task alone writes these rows.
                unsafe {
                    rows::store_with(self.isa, &out, i, o, factor, Store::Write);
                    rows::store(&lse_out, i, &[lse], I::Elem::ONE, Store::Write);
                }
            }
        }
    }

    /// Adds a part to the total: both rescaled to the larger maximum.
    fn merge(&self, total: &mut [I::Elem], part: &[I::Elem], rows: usize, width: usize) {
        let factor = self.rules.exponent_factor();
        for n in 0..rows {
            let (a, b) = (total[n], part[n]);
            let max = if b > a { b } else { a };
            let base = if max == I::Elem::NEG_INFINITY { I::Elem::ZERO } else { max };
            let scale = |x: I::Elem| I::Elem::from_f64(((x - base).to_f64() * factor).exp2());
            let (a, b) = (scale(a), scale(b));
            total[n] = max;
            total[rows + n] = total[rows + n] * a + part[rows + n] * b;
            let at = 2 * rows + n * width..2 * rows + (n + 1) * width;
            for (x, &y) in total[at.clone()].iter_mut().zip(&part[at]) {
                *x = *x * a + y * b;
            }
        }
    }
}

/// Puts 0 in place of NaN and infinities, which a weight of 0 would not keep from rows that do not
/// see them; gives their row, column and value.
fn take_spoiled<E: Float>(values: &mut [E], width: usize) -> Vec<(usize, usize, E)> {
    let spoiled = values.iter_mut().enumerate().filter(|(_, value)| !value.is_finite());
    spoiled.map(|(at, value)| (at / width, at % width, std::mem::replace(value, E::ZERO))).collect()
}

/// Elements of one chunk's results.
fn part_len<I: Isa>(problem: &Problem<'_>, unit: &Unit) -> usize {
    unit.rows() * (2 + I::pad(problem.head_dim_v()))
}

/// Elements of all chunks' results.
fn parts_len<I: Isa>(problem: &Problem<'_>, unit: &Unit) -> usize {
    Chunks::of(problem, unit).count() * part_len::<I>(problem, unit)
}

fn bundles<'u, I: Isa>(problem: &Problem<'_>, units: &'u [Unit]) -> Vec<Bundle<'u>> {
    let row = I::pad(problem.head_dim().max(problem.head_dim_v())) * size_of::<I::Elem>();
    let most = (BUNDLE_BYTES / (KEY_BLOCK * row)).max(1);
    let mut start = 0;
    units
        .chunk_by(|a, b| a.b == b.b)
        .flat_map(|heads| heads.chunks(most))
        .map(|units| {
            let bundle = Bundle { units, start };
            start += units.iter().map(|unit| parts_len::<I>(problem, unit)).sum::<usize>();
            bundle
        })
        .collect()
}

/// Every chunk of every bundle.
fn task_list(problem: &Problem<'_>, bundles: &[Bundle<'_>]) -> Vec<(usize, usize)> {
    let chunks = |(n, bundle): (usize, &Bundle<'_>)| {
        let count = Chunks::of(problem, &bundle.units[0]).count();
        (0..count).map(move |chunk| (n, chunk))
    };
    bundles.iter().enumerate().flat_map(chunks).collect()
}

impl<E: Float> Scratch<E> {
    fn new<I: Isa<Elem = E>>(problem: &Problem<'_>, rows: usize, heads: usize) -> Result<Self> {
        let (head_dim, head_dim_v) = (problem.head_dim(), problem.head_dim_v());
        Ok(Scratch {
            queries: Buffer::zeroed(heads * rows * I::pad(head_dim))?,
            scores: Buffer::zeroed(heads * rows * KEY_BLOCK)?,
            raw_scores: Buffer::zeroed(rows * KEY_BLOCK)?,
            block: Buffer::zeroed(heads * KEY_BLOCK * I::pad(head_dim.max(head_dim_v)))?,
            alpha: Buffer::zeroed(rows)?,
            row: Buffer::zeroed(KEY_BLOCK)?,
            kept: Buffer::zeroed(if problem.dropout().is_some() { KEY_BLOCK } else { 0 })?,
        })
    }
}

/// Where the tile of head `n` is.
fn tile_of(n: usize, rows: usize) -> Range<usize> {
    n * rows * KEY_BLOCK..(n + 1) * rows * KEY_BLOCK
}
