//! [`backward`]: waves of units, each packed, run in phases, and stored.

use std::ops::Range;

use jhalak_problem::{Backward, Gradient, MatrixMut, Problem, Result, TileClass, Visibility};

use super::bias::BiasGradient;
use super::plan::{KEY_BLOCK, Parts, Place, ROW_BLOCK, TILE_STRIDE, WAVE_BYTES, Wants};
use super::prepare;
use super::tile::{Operands, Scratch, TilePass};
use crate::arithmetic::TileShape;
use crate::executor::{Executor, Team};
use crate::isa::{Float, Isa};
use crate::memory::{Buffer, Pool};
use crate::pack::{all_finite, lay_panels, load_rows, transpose_panel};
use crate::rows::{self, Store};
use crate::scores::{Rules, Tile};
use crate::softcap::Softcap;
use crate::units::{Unit, WaveLimit, units, waves};

/// Computes the gradients that the call asks for.
///
/// # Errors
/// Out of memory, before anything is written.
pub(crate) fn backward<I: Isa<Elem: Softcap>>(
    isa: I,
    call: &Backward<'_>,
    executor: &Executor,
) -> Result<()> {
    let problem = call.problem();
    let units = units(problem)?;
    let wants = Wants::of(call);
    let dims = (2 * problem.head_dim() + problem.head_dim_v()) as f64;
    let flops = units.iter().map(|u| 4.0 * dims * u.rows() as f64 * u.keys as f64).sum();
    executor.enter(flops, |team| {
        let waves = Pass::<I>::waves(problem, &units, wants, team);
        let pass = Pass::new(isa, call, &units, &waves, team)?;
        let sinks = if call.targets().dsinks.is_some() { problem.heads_q() } else { 0 };
        let mut dsinks = Buffer::zeroed(sinks)?;
        clear_untouched(call);
        for wave in &waves {
            pass.run(&units[wave.clone()], team, &mut dsinks);
        }
        store_dsinks(call, &dsinks);
        if let Some(bias) = &pass.tiles.bias {
            bias.store(call);
        }
        Ok(())
    })
}

/// What all tasks of a call share.
struct Pass<'c, I: Isa> {
    call: &'c Backward<'c>,
    tiles: TilePass<'c, I>,
    arena: Buffer<I::Elem>,
    /// Whether a block of keys or values holds NaN or infinities.
    unusual: Buffer<bool>,
    scratch: Pool<Scratch<I::Elem>>,
}

impl<'c, I: Isa<Elem: Softcap>> Pass<'c, I> {
    fn waves(problem: &Problem<'_>, units: &[Unit], wants: Wants, team: Team) -> Vec<Range<usize>> {
        // Units that add to the same bias elements run one after the other.
        let alone = wants.dbias && BiasGradient::<I::Elem>::is_shared_by_units(problem);
        let limit = WaveLimit {
            bytes: if alone { 0 } else { WAVE_BYTES },
            // A phase has few tasks of each unit: threads share as many units as there can be.
            rows: if team.threads() == 1 { 1 } else { usize::MAX },
        };
        waves(
            units,
            |unit| Self::places(problem, &[*unit], wants)[0].end * size_of::<I::Elem>(),
            limit,
        )
    }

    fn places(problem: &Problem<'_>, wave: &[Unit], wants: Wants) -> Vec<Place> {
        let mut previous = Place::default();
        let mut flags = 0;
        wave.iter()
            .map(|unit| {
                previous = Place::after::<I>(&previous, problem, unit, wants, flags);
                flags += unit.keys.div_ceil(KEY_BLOCK);
                previous
            })
            .collect()
    }

    fn new(
        isa: I,
        call: &'c Backward<'c>,
        units: &[Unit],
        waves: &[Range<usize>],
        team: Team,
    ) -> Result<Self> {
        let problem = call.problem();
        let wants = Wants::of(call);
        let (mut elements, mut flags) = (0, 0);
        for wave in waves {
            let wave = &units[wave.clone()];
            let end = Self::places(problem, wave, wants).last().map_or(0, |place| place.end);
            elements = elements.max(end);
            flags = flags.max(wave.iter().map(|unit| unit.keys.div_ceil(KEY_BLOCK)).sum());
        }
        let bias = if wants.dbias { Some(BiasGradient::new(problem)?) } else { None };
        Ok(Pass {
            call,
            tiles: TilePass { isa, problem, rules: Rules::new(problem), wants, bias },
            arena: Buffer::zeroed(elements)?,
            unusual: Buffer::zeroed(flags)?,
            scratch: Pool::new(team.threads(), || Scratch::new::<I>(problem))?,
        })
    }

    fn run(&self, wave: &[Unit], team: Team, dsinks: &mut [f64]) {
        let places = Self::places(self.call.problem(), wave, self.tiles.wants);
        self.prepare(wave, &places, team);
        if self.call.targets().dsinks.is_some() {
            for (unit, place) in wave.iter().zip(&places) {
                let (lse, delta) = (self.slice(place.lse, unit), self.slice(place.delta, unit));
                prepare::add_sink_gradient(self.call, unit, lse, delta, dsinks);
            }
        }
        if self.tiles.wants.any_tile() {
            let parts: Vec<Parts> = wave.iter().map(Parts::of).collect();
            for phase in 0..parts.iter().map(|p| p.phases()).max().unwrap_or(0) {
                let tiles: Vec<(usize, usize, usize)> = parts
                    .iter()
                    .enumerate()
                    .flat_map(|(n, parts)| parts.tiles(phase).map(move |(q, k)| (n, q, k)))
                    .collect();
                team.run(tiles.len(), |task| {
                    let (n, queries, keys) = tiles[task];
                    let (unit, place) = (&wave[n], &places[n]);
                    let queries = parts[n].queries(unit, queries);
                    let blocks = parts[n].key_blocks(unit, keys);
                    self.scratch
                        .with(|scratch| self.tile_of_parts(unit, place, queries, blocks, scratch));
                });
            }
            self.store(wave, &places, team);
        }
    }

    fn slice(&self, start: usize, unit: &Unit) -> &[I::Elem] {
        &self.arena[start..start + unit.rows()]
    }

    /// Packs keys and values, computes the rows' constants, and clears the sums.
    fn prepare(&self, wave: &[Unit], places: &[Place], team: Team) {
        let tasks = blocks(wave, |unit| unit.keys, KEY_BLOCK);
        team.run(tasks.len(), |task| {
            let (n, keys) = tasks[task].clone();
            self.scratch.with(|scratch| self.pack(&wave[n], &places[n], keys, scratch));
        });
        let tasks = blocks(wave, Unit::rows, ROW_BLOCK);
        team.run(tasks.len(), |task| {
            let (n, rows) = tasks[task].clone();
            let (unit, place) = (&wave[n], &places[n]);
            let width = I::pad(self.tiles.problem.head_dim());
            // SAFETY: this task alone uses these rows.
            let (lse, delta) = unsafe {
                if self.tiles.wants.dq {
                    self.part(place.dq + rows.start * width, rows.len() * width)
                        .fill(I::Elem::ZERO);
                }
                let lse = self.part(place.lse + rows.start, rows.len());
                (lse, self.part(place.delta + rows.start, rows.len()))
            };
            self.scratch.with(|scratch| {
                let (a, b) = (&mut scratch.row, &mut scratch.row2);
                prepare::row_constants(self.call, unit, rows, lse, delta, a, b);
            });
        });
    }

    /// # Safety
    /// No other task uses this part of the arena.
    #[allow(clippy::mut_from_ref, reason = "tasks share the arena and keep to their parts")]
    unsafe fn part(&self, start: usize, len: usize) -> &mut [I::Elem] {
        debug_assert!(start + len <= self.arena.len());
        // SAFETY: inside the arena; the caller keeps others away.
        unsafe { std::slice::from_raw_parts_mut(self.arena.as_ptr().add(start), len) }
    }

    fn pack(&self, unit: &Unit, place: &Place, keys: Range<usize>, scratch: &mut Scratch<I::Elem>) {
        let (problem, wants) = (self.tiles.problem, self.tiles.wants);
        let (k, v) = (problem.k(unit.b, unit.head_k), problem.v(unit.b, unit.head_k));
        let (d, dv) = (I::pad(k.cols()), I::pad(v.cols()));
        let mut usual = true;
        let block = keys.len();
        // SAFETY: this task alone uses these keys' parts of the arena, and the keys lie inside k
        // and v.
        unsafe {
            for (n, first) in keys.clone().step_by(I::NR).enumerate() {
                let count = I::NR.min(keys.end - first);
                let rows = &mut scratch.row;
                load_rows(self.tiles.isa, &k, first, count, d, rows);
                usual &= all_finite(self.tiles.isa, &rows[..count * d]);
                if wants.dq {
                    let width = k.cols().next_multiple_of(I::NR);
                    let columns = self.part(place.key_columns + keys.start * width, block * width);
                    lay_panels(self.tiles.isa, rows, count, d, (n * I::NR, block), columns);
                }
                if wants.any_tile() {
                    let panel = self.part(place.key_panels + first * k.cols(), I::NR * k.cols());
                    transpose_panel(self.tiles.isa, rows, count, d, k.cols(), panel);
                }
                load_rows(self.tiles.isa, &v, first, count, dv, rows);
                usual &= all_finite(self.tiles.isa, &rows[..count * dv]);
                if wants.ds() {
                    let panel = self.part(place.value_panels + first * v.cols(), I::NR * v.cols());
                    transpose_panel(self.tiles.isa, rows, count, dv, v.cols(), panel);
                }
            }
            *self.unusual.as_ptr().add(place.flags + keys.start / KEY_BLOCK) = !usual;
            for (start, width, wanted) in [(place.dk, d, wants.dk), (place.dv, dv, wants.dv)] {
                if wanted {
                    self.part(start + keys.start * width, keys.len() * width).fill(I::Elem::ZERO);
                }
            }
        }
    }

    /// All tiles of one part of the queries and one part of the keys.
    fn tile_of_parts(
        &self,
        unit: &Unit,
        place: &Place,
        queries: Range<usize>,
        key_blocks: Range<usize>,
        scratch: &mut Scratch<I::Elem>,
    ) {
        let visibility = self.tiles.problem.visibility(unit.b);
        let keys = key_blocks.start * KEY_BLOCK..unit.keys.min(key_blocks.end * KEY_BLOCK);
        let rows = queries.start * unit.group..queries.end * unit.group;
        for first in rows.clone().step_by(ROW_BLOCK) {
            let rows = first..rows.end.min(first + ROW_BLOCK);
            let seen = visibility.keys_of(unit.queries_of(rows.clone()));
            let seen = seen.start.max(keys.start)..seen.end.min(keys.end);
            if seen.is_empty() {
                continue;
            }
            self.load_rows(unit, place, rows.clone(), scratch);
            for block in seen.start / KEY_BLOCK..seen.end.div_ceil(KEY_BLOCK) {
                self.tile(unit, place, rows.clone(), block, &visibility, scratch);
            }
        }
    }

    fn load_rows(
        &self,
        unit: &Unit,
        place: &Place,
        rows: Range<usize>,
        scratch: &mut Scratch<I::Elem>,
    ) {
        let problem = self.tiles.problem;
        let (d, dv) = (I::pad(problem.head_dim()), I::pad(problem.head_dim_v()));
        let mut usual = true;
        let count = rows.len();
        let first = rows.start;
        for (h, rows) in unit.rows_by_head(rows) {
            let (q, dout) = (problem.q(unit.b, h), self.call.dout(unit.b, h));
            for row in rows {
                let (n, i) = (row - first, unit.query(row));
                let (queries, douts) =
                    (&mut scratch.queries[n * d..], &mut scratch.douts[n * dv..]);
                // SAFETY: the row lies inside q and dout.
                unsafe {
                    load_rows(self.tiles.isa, &q, i, 1, d, queries);
                    load_rows(self.tiles.isa, &dout, i, 1, dv, douts);
                }
                let (lse, delta) = (self.arena[place.lse + row], self.arena[place.delta + row]);
                usual &= lse.is_finite() || lse == I::Elem::NEG_INFINITY;
                usual &= delta.is_finite();
            }
        }
        let Scratch { queries, douts, query_columns, dout_columns, .. } = scratch;
        usual &= all_finite(self.tiles.isa, &queries[..count * d]);
        usual &= all_finite(self.tiles.isa, &douts[..count * dv]);
        lay_panels(self.tiles.isa, queries, count, d, (0, count), query_columns);
        lay_panels(self.tiles.isa, douts, count, dv, (0, count), dout_columns);
        scratch.unusual_rows = !usual;
    }

    fn tile(
        &self,
        unit: &Unit,
        place: &Place,
        rows: Range<usize>,
        block: usize,
        visibility: &Visibility,
        scratch: &mut Scratch<I::Elem>,
    ) {
        let (problem, wants) = (self.tiles.problem, self.tiles.wants);
        let whole = unit.key_block(block, KEY_BLOCK);
        let queries = unit.queries_of(rows.clone());
        // Only the panels that some row sees.
        let seen = visibility.keys_of(queries.clone());
        let first = seen.start.max(whole.start) / I::NR * I::NR;
        let keys = first..seen.end.min(whole.end).max(first);
        let class = visibility.tile(queries, keys.clone());
        if class == TileClass::Empty {
            return;
        }
        let (head_dim, head_dim_v) = (problem.head_dim(), problem.head_dim_v());
        let (d, dv) = (I::pad(head_dim), I::pad(head_dim_v));
        let cols = I::pad(keys.len());
        let shape = TileShape { rows: rows.len(), cols, stride: TILE_STRIDE };
        let at = |start: usize| self.arena.as_ptr().wrapping_add(start);
        let key_columns = place.key_columns
            + whole.start * head_dim.next_multiple_of(I::NR)
            + (keys.start - whole.start) * I::NR;
        let operands = Operands {
            d,
            dv,
            queries: scratch.queries.as_ptr(),
            douts: scratch.douts.as_ptr(),
            key_panels: at(place.key_panels + keys.start * head_dim),
            value_panels: at(place.value_panels + keys.start * head_dim_v),
            query_columns: scratch.query_columns.as_ptr(),
            dout_columns: scratch.dout_columns.as_ptr(),
            key_columns: at(key_columns),
            block_keys: whole.len(),
            lse: at(place.lse + rows.start),
            delta: at(place.delta + rows.start),
            dq_sums: wants.dq.then(|| at(place.dq + rows.start * d)),
            dk_sums: wants.dk.then(|| at(place.dk + keys.start * d)),
            dv_sums: wants.dv.then(|| at(place.dv + keys.start * dv)),
        };
        let unusual = scratch.unusual_rows || self.unusual[place.flags + block];
        let tile = Tile { unit, rows, keys, shape, class };
        // SAFETY: the operands lie in the arena at these sizes; the phases keep other tasks away
        // from these queries and these keys.
        unsafe { self.tiles.run(&tile, visibility, &operands, unusual, scratch) };
    }

    /// Writes the sums of a wave to where the call wants them.
    fn store(&self, wave: &[Unit], places: &[Place], team: Team) {
        let (problem, call) = (self.tiles.problem, self.call);
        let scale = I::Elem::from_f64(problem.scale());
        let (d, dv) = (problem.head_dim(), problem.head_dim_v());
        let put = |target: &Option<MatrixMut<'_>>,
                   gradient: &Option<Gradient<'_>>,
                   start: usize,
                   from: usize,
                   to: usize,
                   cols: usize,
                   factor| {
            if let (Some(target), Some(gradient)) = (target, gradient) {
                let sums = &self.arena[start + from * I::pad(cols)..][..cols];
                // SAFETY: this task alone writes the row.
                unsafe {
                    rows::store_with(self.tiles.isa, target, to, sums, factor, how(gradient));
                };
            }
        };
        let tasks = blocks(wave, Unit::rows, ROW_BLOCK);
        team.run(if self.tiles.wants.dq { tasks.len() } else { 0 }, |task| {
            let (n, rows) = tasks[task].clone();
            let unit = &wave[n];
            for (h, rows) in unit.rows_by_head(rows) {
                let target = call.dq(unit.b, h);
                for row in rows {
                    put(&target, &call.targets().dq, places[n].dq, row, unit.query(row), d, scale);
                }
            }
        });
        let tasks = blocks(wave, |unit| unit.keys, KEY_BLOCK);
        team.run(tasks.len(), |task| {
            let (n, keys) = tasks[task].clone();
            let (unit, place) = (&wave[n], &places[n]);
            let (dk, dv_target) = (call.dk(unit.b, unit.head_k), call.dv(unit.b, unit.head_k));
            for key in keys {
                put(&dk, &call.targets().dk, place.dk, key, key, d, scale);
                put(&dv_target, &call.targets().dv, place.dv, key, key, dv, I::Elem::ONE);
            }
        });
    }
}

fn how(gradient: &Gradient<'_>) -> Store {
    if gradient.adds() { Store::Add } else { Store::Write }
}

/// Ranges of at most `size` of what `count` counts, with their unit.
fn blocks(
    wave: &[Unit],
    count: impl Fn(&Unit) -> usize,
    size: usize,
) -> Vec<(usize, Range<usize>)> {
    let mut blocks = Vec::new();
    for (n, unit) in wave.iter().enumerate() {
        let count = count(unit);
        blocks.extend((0..count).step_by(size).map(|at| (n, at..count.min(at + size))));
    }
    blocks
}

/// Writes 0 to the gradients that no tile reaches: rows that no sequence uses, and keys without
/// queries.
fn clear_untouched(call: &Backward<'_>) {
    let (problem, targets) = (call.problem(), call.targets());
    let clear = |target: Option<MatrixMut<'_>>, gradient: &Option<Gradient<'_>>| {
        if let (Some(target), Some(Gradient::Write(_))) = (target, gradient) {
            // SAFETY: no task runs yet.
            unsafe { rows::fill(&target, 0.0) };
        }
    };
    for unused in problem.unused_queries() {
        for h in 0..problem.heads_q() {
            clear(call.unused_dq(&unused, h), &targets.dq);
        }
    }
    for unused in problem.unused_keys() {
        for h in 0..problem.heads_k() {
            clear(call.unused_dk(&unused, h), &targets.dk);
            clear(call.unused_dv(&unused, h), &targets.dv);
        }
    }
    let has_keys = problem.heads_k() > 0 && problem.max_seqlens().1 > 0;
    if !has_keys || (targets.dk.is_none() && targets.dv.is_none()) {
        return;
    }
    for b in 0..problem.batch() {
        let sequence = problem.sequence(b);
        let has_queries = problem.group() > 0 && sequence.seqlen_q() > 0;
        if has_queries || sequence.seqlen_k() == 0 {
            continue;
        }
        for h in 0..problem.heads_k() {
            clear(call.dk(b, h), &targets.dk);
            clear(call.dv(b, h), &targets.dv);
        }
    }
}

fn store_dsinks(call: &Backward<'_>, dsinks: &[f64]) {
    if let (Some(target), Some(gradient)) = (call.dsinks(), &call.targets().dsinks) {
        for (h, &x) in dsinks.iter().enumerate() {
            // SAFETY: all tasks have ended.
            unsafe { rows::store(&target, h, &[x], 1.0, how(gradient)) };
        }
    }
}
