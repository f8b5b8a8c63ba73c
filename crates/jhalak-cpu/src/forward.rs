//! The forward pass: blocks of queries against all the keys they see, with online softmax.
//!
//! ```text
//! for each wave of (sequence, key head) that fits the memory bound:
//!     in parallel over blocks of keys:   pack K into panels, V into padded rows
//!     in parallel over ranges of rows:   for each visible block of keys, for each block of rows:
//!                                            S = Q·Kᵀ      masked where the tile is partial
//!                                            P = softmax step on S
//!                                            O = α·O + P·V
//!                                        out = O / l,  lse = m + ln l
//! ```
//!
//! A row is a query of any head that reads this key head, heads next to each other: row r is query
//! r / group of head r mod group. So the keys are packed once for the whole group, short queries
//! of a group fill a tile together, and causal masks still cut tiles off early. (Online softmax:
//! Milakov & Gimelshein, 2018; the loop order: Dao, 2023, FlashAttention-2.)
//!
//! What a row computes never depends on the other rows of its block, nor on threads.

use std::ops::Range;

use jhalak_problem::{Forward, Problem, Result, TileClass, Visibility};

use crate::arithmetic::{Arithmetic, Elem, TileShape};
use crate::caches;
use crate::careful;
use crate::executor::{Executor, TASKS_PER_THREAD, Team};
use crate::isa::{Float, Isa};
use crate::memory::{Buffer, Pool};
use crate::rows::{self, Store};
use crate::scores::{Rules, Tile};
use crate::streamed::{self, Streamed};
use crate::tile::softmax::SoftmaxRows;
use crate::units::{Unit, WaveLimit, units, waves};

/// Keys per tile: the score tile and the packed keys and values it meets stay in L2.
const KEY_BLOCK: usize = 256;
/// Rows per tile.
const ROW_BLOCK: usize = 48;
/// The most blocks of rows of a task, which meet a block of keys one after the other.
const MOST_BLOCKS: usize = 8;
/// Packed keys and values in flight, unless a single head is larger.
const WAVE_BYTES: usize = 32 << 20;

/// Computes out and lse.
///
/// # Errors
/// Out of memory, before anything is written.
pub(crate) fn forward<A: Arithmetic>(a: A, call: &Forward<'_>, executor: &Executor) -> Result<()> {
    let problem = call.problem();
    let units = units(problem)?;
    if units.is_empty() {
        clear_unused(call);
        return Ok(());
    }
    let cost = cost(problem, &units);
    let (short, units): (Vec<_>, Vec<_>) = units.into_iter().partition(streamed::suits);
    executor.enter(cost, |team| {
        let streamed =
            if short.is_empty() { None } else { Some(Streamed::new(a.isa(), call, short, team)?) };
        let pass = Pass::new(a, call, &units, team)?;
        clear_unused(call);
        if let Some(streamed) = streamed {
            streamed.run(team);
        }
        for wave in waves(&units, |unit| pass.bytes(unit), wave_limit(team)) {
            pass.run(&units[wave], team);
        }
        Ok(())
    })
}

/// Rows per task: as many blocks as fill half of what a block of keys and values leaves of L2, so
/// that these are read from farther away once for all of them; but enough tasks for all threads.
fn task_rows<A: Arithmetic>(problem: &Problem<'_>, units: &[Unit], team: Team) -> usize {
    let dims = problem.head_dim() + problem.head_dim_v();
    let keys = KEY_BLOCK * dims * size_of::<A::Operand>();
    let tile = ROW_BLOCK * KEY_BLOCK * size_of::<Elem<A>>();
    let rows = ROW_BLOCK * dims * size_of::<Elem<A>>();
    let fit = caches::l2_bytes().saturating_sub(keys + tile) / (2 * rows);
    let blocks: usize = units.iter().map(|unit| unit.rows().div_ceil(ROW_BLOCK)).sum();
    let shared = blocks / (team.threads() * TASKS_PER_THREAD);
    let blocks = if team.threads() == 1 { fit } else { fit.min(shared) };
    blocks.clamp(1, MOST_BLOCKS) * ROW_BLOCK
}

fn wave_limit(team: Team) -> WaveLimit {
    WaveLimit { bytes: WAVE_BYTES, rows: team.rows_for_all(ROW_BLOCK) }
}

/// Multiplications and additions of the products, were everything visible; reading a number of k
/// or v costs about as much as 16 of them.
fn cost(problem: &Problem<'_>, units: &[Unit]) -> f64 {
    let dims = (problem.head_dim() + problem.head_dim_v()) as f64;
    units.iter().map(|u| (2.0 * u.rows() as f64 + 16.0) * dims * u.keys as f64).sum()
}

fn clear_unused(call: &Forward<'_>) {
    for unused in call.problem().unused_queries() {
        for h in 0..call.problem().heads_q() {
            // SAFETY: no task runs yet.
            unsafe {
                rows::fill(&call.unused_out(&unused, h), 0.0);
                rows::fill(&call.unused_lse(&unused, h), f32::NEG_INFINITY);
            }
        }
    }
}

/// What all tasks of a call share.
struct Pass<'c, A: Arithmetic> {
    a: A,
    call: &'c Forward<'c>,
    rules: Rules<'c, Elem<A>>,
    /// Packed keys, then packed values, of each unit of a wave.
    packed: Buffer<A::Operand>,
    /// Whether a block's values hold NaN or infinities, one flag per block of each unit.
    unusual: Buffer<bool>,
    scratch: Pool<Scratch<A>>,
    /// Rows per task, a multiple of ROW_BLOCK.
    task_rows: usize,
    /// Elements from one row of a score tile to the next.
    stride: usize,
}

/// One task's work space.
struct Scratch<A: Arithmetic> {
    queries: Buffer<A::Operand>,
    scores: Buffer<Elem<A>>,
    weights: Buffer<A::Operand>,
    out: Buffer<Elem<A>>,
    /// Running maximum, running sum and rescaling factor of each row.
    max: Buffer<Elem<A>>,
    sum: Buffer<Elem<A>>,
    alpha: Buffer<Elem<A>>,
    /// NR rows of k or v, or a row of bias or mask.
    row: Buffer<Elem<A>>,
    kept: Buffer<bool>,
}

/// Where a unit's packed operands are.
#[derive(Clone, Copy)]
struct Place {
    keys: usize,
    values: usize,
    flags: usize,
}

impl<'c, A: Arithmetic> Pass<'c, A> {
    fn new(a: A, call: &'c Forward<'c>, units: &[Unit], team: Team) -> Result<Self> {
        let problem = call.problem();
        let operand = size_of::<A::Operand>();
        let size =
            |unit: &Unit| key_operands::<A>(problem, unit) + value_operands::<A>(problem, unit);
        let (mut most, mut most_flags) = (0, 0);
        for wave in waves(units, |unit| size(unit) * operand, wave_limit(team)) {
            most = most.max(units[wave.clone()].iter().map(size).sum());
            most_flags =
                most_flags.max(units[wave].iter().map(|unit| unit.keys.div_ceil(KEY_BLOCK)).sum());
        }
        let task_rows = task_rows::<A>(problem, units, team);
        let rows = units.iter().map(Unit::rows).max().unwrap_or(0).min(task_rows);
        let keys = units.iter().map(|unit| unit.keys).max().unwrap_or(0).min(KEY_BLOCK);
        // An odd number of cache lines: neighbouring rows do not fall into the same cache sets.
        let stride = keys.next_multiple_of(32) + 16;
        let threads = if units.is_empty() { 0 } else { team.threads() };
        Ok(Pass {
            a,
            call,
            rules: Rules::new(problem),
            packed: Buffer::zeroed(most)?,
            unusual: Buffer::zeroed(most_flags)?,
            scratch: Pool::new(threads, || Scratch::new(problem, rows, stride))?,
            task_rows,
            stride,
        })
    }

    fn bytes(&self, unit: &Unit) -> usize {
        let problem = self.call.problem();
        let operands = key_operands::<A>(problem, unit) + value_operands::<A>(problem, unit);
        operands * size_of::<A::Operand>()
    }

    fn run(&self, wave: &[Unit], team: Team) {
        let places = self.places(wave);
        let pack_tasks: Vec<(usize, usize)> = wave
            .iter()
            .enumerate()
            .flat_map(|(n, unit)| visible_blocks(self.call.problem(), unit).map(move |b| (n, b)))
            .collect();
        team.run(pack_tasks.len(), |task| {
            let (n, block) = pack_tasks[task];
            self.scratch.with(|scratch| self.pack(&wave[n], places[n], block, scratch));
        });
        // The last rows of a causal mask see most: they go first, so that no long task is left
        // for the end.
        let row_tasks: Vec<(usize, Range<usize>)> = wave
            .iter()
            .enumerate()
            .flat_map(|(n, unit)| {
                let ranges = unit.rows().div_ceil(self.task_rows);
                (0..ranges).rev().map(move |range| {
                    let first = range * self.task_rows;
                    (n, first..unit.rows().min(first + self.task_rows))
                })
            })
            .collect();
        team.run(row_tasks.len(), |task| {
            let (n, rows) = row_tasks[task].clone();
            self.scratch.with(|scratch| self.attend(&wave[n], places[n], rows, scratch));
        });
    }

    fn places(&self, wave: &[Unit]) -> Vec<Place> {
        let problem = self.call.problem();
        let mut next = Place { keys: 0, values: 0, flags: 0 };
        wave.iter()
            .map(|unit| {
                let keys = next.keys;
                let values = keys + key_operands::<A>(problem, unit);
                let place = Place { keys, values, flags: next.flags };
                next.keys = values + value_operands::<A>(problem, unit);
                next.flags += unit.keys.div_ceil(KEY_BLOCK);
                place
            })
            .collect()
    }

    /// Packs one block of keys and values.
    fn pack(&self, unit: &Unit, place: Place, block: usize, scratch: &mut Scratch<A>) {
        let problem = self.call.problem();
        let (k, v) = (problem.k(unit.b, unit.head_k), problem.v(unit.b, unit.head_k));
        let keys = unit.key_block(block, KEY_BLOCK);
        let (nr, panel) = (A::Isa::NR, A::key_panel(problem.head_dim()));
        for first in keys.clone().step_by(nr) {
            let start = place.keys + first / nr * panel;
            // SAFETY: this task alone packs this block, and the keys lie inside k.
            unsafe {
                let dst = std::slice::from_raw_parts_mut(self.packed.as_ptr().add(start), panel);
                self.a.pack_keys(&k, first, nr.min(keys.end - first), &mut scratch.row, dst);
            };
        }
        let start = place.values + A::values(keys.start, problem.head_dim_v());
        let count = keys.len().next_multiple_of(2);
        let len = A::values(count, problem.head_dim_v());
        // SAFETY: as above; blocks start at even keys, so their padded rows do not meet.
        let usual = unsafe {
            let dst = std::slice::from_raw_parts_mut(self.packed.as_ptr().add(start), len);
            self.a.pack_values(&v, keys.start, keys.len(), &mut scratch.row, dst)
        };
        // SAFETY: this task alone writes this flag.
        unsafe { *self.unusual.as_ptr().add(place.flags + block) = !usual };
    }

    /// Computes one range of rows.
    fn attend(&self, unit: &Unit, place: Place, rows: Range<usize>, scratch: &mut Scratch<A>) {
        let problem = self.call.problem();
        let visibility = problem.visibility(unit.b);
        let queries = unit.queries_of(rows.clone());
        let seen = visibility.keys_of(queries);
        self.load_queries(unit, rows.clone(), scratch);
        scratch.start(rows.len(), rows.len() * A::Isa::pad(problem.head_dim_v()));
        for block in seen.start / KEY_BLOCK..seen.end.div_ceil(KEY_BLOCK) {
            for first in rows.clone().step_by(ROW_BLOCK) {
                let at = first - rows.start;
                let rows = first..rows.end.min(first + ROW_BLOCK);
                let queries = unit.queries_of(rows.clone());
                let keys = unit.key_block(block, KEY_BLOCK);
                let end = keys.end.min(visibility.keys_of(queries.clone()).end);
                let keys = keys.start..end.max(keys.start);
                let class = visibility.tile(queries, keys.clone());
                if class != TileClass::Empty {
                    let step = Step { unit, place, block, rows, at, keys, class };
                    self.step(&step, &visibility, scratch);
                }
            }
        }
        self.finish(unit, rows, scratch);
    }

    fn load_queries(&self, unit: &Unit, rows: Range<usize>, scratch: &mut Scratch<A>) {
        let problem = self.call.problem();
        let (stride, first) = (A::query_stride(problem.head_dim()), rows.start);
        for (h, rows) in unit.rows_by_head(rows) {
            let q = problem.q(unit.b, h);
            for row in rows {
                let dst = &mut scratch.queries[(row - first) * stride..][..stride];
                // SAFETY: the row lies inside q.
                unsafe { self.a.pack_query(&q, unit.query(row), dst) };
            }
        }
    }

    /// One tile: scores, masks, softmax step, product with the values.
    fn step(&self, step: &Step<'_>, visibility: &Visibility, scratch: &mut Scratch<A>) {
        let problem = self.call.problem();
        let (unit, rows, keys) = (step.unit, step.rows.clone(), step.keys.clone());
        let (head_dim, head_dim_v) = (problem.head_dim(), problem.head_dim_v());
        let cols = A::pad_keys(keys.len());
        let shape = TileShape { rows: rows.len(), cols, stride: self.stride };
        let panel = keys.start / A::Isa::NR * A::key_panel(head_dim);
        let s = scratch.scores.as_ptr();
        // SAFETY: blocks start on panels; the scratch holds a tile of these sizes; the packed
        // operands of this block were written before the row tasks began.
        unsafe {
            let packed_keys = self.packed.as_ptr().add(step.place.keys + panel);
            let queries = scratch.queries.as_ptr().add(step.at * A::query_stride(head_dim));
            self.a.scores(shape, head_dim, queries, packed_keys, s);
        }
        let tile = Tile { unit, rows: rows.clone(), keys: keys.clone(), shape, class: step.class };
        self.rules.apply(
            self.a.isa(),
            &tile,
            visibility,
            &mut scratch.scores,
            &mut scratch.row,
            None,
        );
        if self.unusual[step.place.flags + step.block] {
            let stride = A::Isa::pad(head_dim_v);
            careful::step(&self.rules, &tile, scratch.careful_rows(step.at, stride), problem);
            return;
        }
        let factor = self.rules.exponent_factor();
        let state = SoftmaxRows {
            max: scratch.max[step.at..].as_mut_ptr(),
            sum: scratch.sum[step.at..].as_mut_ptr(),
            alpha: scratch.alpha.as_ptr(),
        };
        let weights = scratch.weights.as_ptr();
        let drops = problem.dropout().is_some();
        // SAFETY: as above.
        unsafe { self.a.softmax(shape, factor, s, weights, state, !drops) };
        if drops {
            self.rules.drop_weights(&tile, &mut scratch.scores, &mut scratch.kept);
            // SAFETY: as above.
            unsafe { self.a.round_weights(shape, s, weights) };
        }
        // SAFETY: as above.
        unsafe {
            let values = self.packed.as_ptr().add(step.place.values);
            let block = unit.key_block(step.block, KEY_BLOCK);
            let values = values.add(A::values(block.start, head_dim_v));
            let block_keys = block.len().next_multiple_of(2);
            let alpha = scratch.alpha.as_ptr();
            let o = scratch.out.as_ptr().add(step.at * A::Isa::pad(head_dim_v));
            self.a.accumulate(
                shape,
                keys.len(),
                block_keys,
                head_dim_v,
                s,
                weights,
                values,
                alpha,
                o,
            );
        }
    }

    /// out = O / l, lse = m + ln l, with the sink's part.
    fn finish(&self, unit: &Unit, rows: Range<usize>, scratch: &Scratch<A>) {
        let problem = self.call.problem();
        let head_dim_v = problem.head_dim_v();
        let stride = A::Isa::pad(head_dim_v);
        let first = rows.start;
        for (h, rows) in unit.rows_by_head(rows) {
            let (out, lse_out) = (self.call.out(unit.b, h), self.call.lse(unit.b, h));
            for row in rows {
                let (n, i) = (row - first, unit.query(row));
                let (lse, factor) = self.rules.finish_row(scratch.max[n], scratch.sum[n], h);
                let o = &scratch.out[n * stride..n * stride + head_dim_v];
                // SAFETY: this task alone writes these rows.
                unsafe {
                    rows::store_with(self.a.isa(), &out, i, o, factor, Store::Write);
                    rows::store(&lse_out, i, &[lse], Elem::<A>::ONE, Store::Write);
                }
            }
        }
    }
}

/// One tile of a block of rows.
struct Step<'u> {
    unit: &'u Unit,
    place: Place,
    block: usize,
    rows: Range<usize>,
    /// The first of these rows in the scratch.
    at: usize,
    keys: Range<usize>,
    class: TileClass,
}

impl<A: Arithmetic> Scratch<A> {
    fn new(problem: &Problem<'_>, rows: usize, stride: usize) -> Result<Self> {
        let (head_dim, head_dim_v) = (problem.head_dim(), problem.head_dim_v());
        let widest = (A::Isa::NR * A::Isa::pad(head_dim.max(head_dim_v))).max(KEY_BLOCK);
        let tile = rows.min(ROW_BLOCK) * stride;
        Ok(Scratch {
            queries: Buffer::zeroed(rows * A::query_stride(head_dim))?,
            scores: Buffer::zeroed(tile)?,
            weights: Buffer::zeroed(A::weights(tile))?,
            out: Buffer::zeroed(rows * A::Isa::pad(head_dim_v))?,
            max: Buffer::zeroed(rows)?,
            sum: Buffer::zeroed(rows)?,
            alpha: Buffer::zeroed(rows.min(ROW_BLOCK))?,
            row: Buffer::zeroed(widest)?,
            kept: Buffer::zeroed(if problem.dropout().is_some() { KEY_BLOCK } else { 0 })?,
        })
    }

    /// No key seen yet.
    fn start(&mut self, rows: usize, outputs: usize) {
        self.max[..rows].fill(Elem::<A>::NEG_INFINITY);
        self.sum[..rows].fill(Elem::<A>::ZERO);
        self.out[..outputs].fill(Elem::<A>::ZERO);
    }
}

impl<A: Arithmetic> Scratch<A> {
    /// The state from row `at` on.
    fn careful_rows(&mut self, at: usize, out_stride: usize) -> careful::Rows<'_, Elem<A>> {
        careful::Rows {
            scores: &mut self.scores,
            max: &mut self.max[at..],
            sum: &mut self.sum[at..],
            out: &mut self.out[at * out_stride..],
            out_stride,
            value: &mut self.row,
            kept: &mut self.kept,
        }
    }
}

/// The blocks of keys that some query of the unit sees.
fn visible_blocks(problem: &Problem<'_>, unit: &Unit) -> Range<usize> {
    let seen = problem.visibility(unit.b).keys_of(0..unit.queries);
    seen.start / KEY_BLOCK..seen.end.div_ceil(KEY_BLOCK)
}

fn key_operands<A: Arithmetic>(problem: &Problem<'_>, unit: &Unit) -> usize {
    unit.keys.div_ceil(A::Isa::NR) * A::key_panel(problem.head_dim())
}

fn value_operands<A: Arithmetic>(problem: &Problem<'_>, unit: &Unit) -> usize {
    A::values(unit.keys.next_multiple_of(2), problem.head_dim_v())
}
