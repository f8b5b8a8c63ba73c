//! Bringing tiles of rows to shared memory.
//!
//! A row of a tile takes its bytes, rounded up to whole fragments, and 16 more: neighbouring rows
//! then begin in different banks, and ldmatrix reads 8 of them at once. What lies outside the tensor
//! is filled with zeros.
//!
//! A copy has two parts, so that something else can be done meanwhile. From sm_80 on `begin` starts
//! asynchronous copies and `finish` waits for them; before, and with strides that vectors cannot
//! take, `begin` loads to registers and `finish` stores them.

use jhalak_ptx::Comparison::Lt;
use jhalak_ptx::{B32, B64, Connective, KernelBuilder, Pred, Target};

use super::super::element::Element;
use super::super::guarded::{load_bits, load_vector_to};
use super::super::thread::Thread;

/// Bytes that are copied at once.
const CHUNK: u32 = 16;

/// The bytes from one row of a tile to the next.
pub(crate) fn pitch(element: Element, head_dim: u32) -> u32 {
    padded(element, head_dim) * element.bytes() + CHUNK
}

/// A head dimension, rounded up to whole fragments.
pub(crate) fn padded(element: Element, head_dim: u32) -> u32 {
    match element {
        Element::F32 => head_dim.next_multiple_of(8),
        Element::F16 | Element::Bf16 => head_dim.next_multiple_of(16),
    }
}

/// How the threads of a block share a tile: `lanes` of them take a row, every so manieth chunk each.
#[derive(Clone, Copy)]
struct Plan {
    rows: u32,
    lanes: u32,
    /// Rows that all threads copy at once.
    at_once: u32,
    /// Chunks of a row, with those of the padding.
    chunks: u32,
}

impl Plan {
    fn new(threads: u32, rows: u32, chunks: u32) -> Self {
        let lanes = 8.min(1 << chunks.trailing_zeros());
        Plan { rows, lanes, at_once: threads / lanes, chunks }
    }

    fn passes(self) -> u32 {
        self.rows.div_ceil(self.at_once)
    }

    fn rounds(self) -> u32 {
        self.chunks / self.lanes
    }
}

/// One thread's part of a tile.
pub(crate) struct TileCopy {
    plan: Plan,
    element: Element,
    /// The type of the elements where they come from.
    source: Element,
    head_dim: u32,
    /// The thread's row in the first pass, and its chunk in a round.
    pub(crate) row: B32,
    lane: B32,
    /// Where its first chunk goes.
    place: B32,
    /// Bytes from one element of a row to the next, where rows are not contiguous.
    column: Option<B64>,
    /// What `begin` loads for `finish` to store, chunk by chunk, where nothing is asynchronous.
    loaded: Option<Vec<[B32; 4]>>,
}

/// The source of one pass: where the thread's row begins, and whether it is there.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    pub(crate) row: B64,
    pub(crate) inside: Pred,
}

impl TileCopy {
    /// A tile of `rows` rows, to the shared memory at `tile`.
    pub(crate) fn new(
        k: &mut KernelBuilder,
        thread: &Thread,
        threads: u32,
        element: Element,
        (rows, head_dim): (u32, u32),
        tile: B32,
        column: Option<B64>,
    ) -> Self {
        let chunks = padded(element, head_dim) * element.bytes() / CHUNK;
        let plan = Plan::new(threads, rows, chunks);
        let row = k.shr_u32(thread.index, plan.lanes.ilog2());
        let lane = k.and_b32(thread.index, plan.lanes - 1);
        let place = k.mad_lo_u32(row, pitch(element, head_dim), tile);
        let place = k.mad_lo_u32(lane, CHUNK, place);
        let asynchronous = column.is_none() && k.target() >= Target::Sm80;
        let chunks = plan.passes() * plan.rounds();
        let loaded = (!asynchronous).then(|| (0..chunks).map(|_| k.registers()).collect());
        let source = element;
        TileCopy { plan, element, source, head_dim, row, lane, place, column, loaded }
    }

    /// The same from elements of another type; they are rounded on the way. Only rows that are
    /// reached element by element can be.
    pub(crate) fn of(self, source: Element) -> Self {
        debug_assert!(source == self.element || self.column.is_some());
        TileCopy { source, ..self }
    }

    /// Whether what `begin` begins goes on while the thread does something else, without holding
    /// registers.
    pub(crate) fn is_asynchronous(&self) -> bool {
        self.loaded.is_none()
    }

    /// Passes over the tile.
    pub(crate) fn passes(&self) -> u32 {
        self.plan.passes()
    }

    /// The thread's row in a pass.
    pub(crate) fn row_of(&self, k: &mut KernelBuilder, pass: u32) -> B32 {
        k.add_u32(self.row, pass * self.plan.at_once)
    }

    /// Rows from one pass to the next.
    pub(crate) fn rows_at_once(&self) -> u32 {
        self.plan.at_once
    }

    /// The sources of rows that lie one after the other: the thread's first row, the bytes from one
    /// pass to the next, and the thread's first row's index, of `limit` rows. Indices below 0 are
    /// outside too.
    pub(crate) fn strided(
        &self,
        k: &mut KernelBuilder,
        first: B64,
        step: B64,
        index: B32,
        limit: B32,
    ) -> Vec<Source> {
        let mut row = first;
        let mut sources = Vec::new();
        for pass in 0..self.passes() {
            if pass > 0 {
                row = k.add_u64(row, step);
            }
            let index = k.add_u32(index, pass * self.plan.at_once);
            sources.push(Source { row, inside: k.setp_u32(Lt, index, limit) });
        }
        sources
    }

    /// Begins a copy.
    pub(crate) fn begin(&self, k: &mut KernelBuilder, sources: &[Source]) {
        if let Some(column) = self.column {
            for ((pass, round), values) in self.rounds().zip(self.registers()) {
                self.gather_to(k, *values, sources[pass as usize], round, column);
            }
        } else if let Some(loaded) = &self.loaded {
            let mut loaded = loaded.iter();
            self.for_each_chunk(k, sources, |k, from, _, inside| {
                let values = loaded.next().expect("as many as there are chunks");
                load_vector_to(k, *values, inside, from);
            });
        } else {
            self.for_each_chunk(k, sources, |k, from, place, inside| {
                let bytes = k.selp_b32(CHUNK, 0, inside);
                k.cp_async_zero_fill((self.place, place), from, CHUNK, bytes);
            });
            k.cp_async_commit_group();
        }
    }

    /// Finishes a copy: after a barrier of the block, the tile is there. No copy that began later
    /// may be under way.
    pub(crate) fn finish(&self, k: &mut KernelBuilder) {
        if self.loaded.is_none() {
            k.cp_async_wait_group(0);
        }
        for ((pass, round), values) in self.rounds().zip(self.registers()) {
            self.in_tile(k, pass, |k| {
                k.st_vector((self.place, self.place_of(pass, round)), *values);
            });
        }
    }

    fn registers(&self) -> impl Iterator<Item = &[B32; 4]> {
        self.loaded.iter().flatten()
    }

    fn rounds(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        let (passes, rounds) = (self.passes(), self.plan.rounds());
        (0..passes).flat_map(move |pass| (0..rounds).map(move |round| (pass, round)))
    }

    /// Runs the body for each chunk of the thread, with where it comes from, its place, and whether
    /// it is in the tensor.
    fn for_each_chunk(
        &self,
        k: &mut KernelBuilder,
        sources: &[Source],
        mut body: impl FnMut(&mut KernelBuilder, (B64, u32), u32, Pred),
    ) {
        let real = self.head_dim * self.element.bytes() / CHUNK;
        for (pass, round) in self.rounds() {
            let source = sources[pass as usize];
            let first = round * self.plan.lanes;
            let inside = if first + self.plan.lanes <= real {
                source.inside
            } else {
                let real = real.saturating_sub(first);
                k.setp_u32_with(Lt, self.lane, real, Connective::And, source.inside)
            };
            self.in_tile(k, pass, |k| {
                let row = k.mad_wide_u32(self.lane, CHUNK, source.row);
                body(k, (row, self.offset(round)), self.place_of(pass, round), inside);
            });
        }
    }

    /// Runs the body for the threads whose row of this pass is in the tile.
    fn in_tile(&self, k: &mut KernelBuilder, pass: u32, body: impl FnOnce(&mut KernelBuilder)) {
        let first = pass * self.plan.at_once;
        if first + self.plan.at_once <= self.plan.rows {
            body(k);
        } else {
            let inside = k.setp_u32(Lt, self.row, self.plan.rows - first);
            k.if_(inside, body);
        }
    }

    /// Bytes from a thread's first chunk of a row to the one of this round.
    fn offset(&self, round: u32) -> u32 {
        round * self.plan.lanes * CHUNK
    }

    fn place_of(&self, pass: u32, round: u32) -> u32 {
        pass * self.plan.at_once * pitch(self.element, self.head_dim) + self.offset(round)
    }

    /// A chunk, element by element.
    fn gather_to(
        &self,
        k: &mut KernelBuilder,
        values: [B32; 4],
        source: Source,
        round: u32,
        column: B64,
    ) {
        let in_chunk = CHUNK / self.element.bytes();
        let first = round * self.plan.lanes * in_chunk;
        let index = k.mad_lo_u32(self.lane, in_chunk, first);
        let wide = k.cvt_u64_u32(index);
        let mut place = k.mad_lo_u64(wide, column, source.row);
        let mut elements = Vec::new();
        for n in 0..in_chunk {
            if n > 0 {
                place = k.add_u64(place, column);
            }
            let last = self.head_dim.saturating_sub(n);
            let inside = k.setp_u32_with(Lt, index, last, Connective::And, source.inside);
            elements.push(load_bits(k, self.source, inside, place));
        }
        for (n, value) in values.into_iter().enumerate() {
            match self.element {
                Element::F32 => k.mov_b32_to(value, elements[n]),
                _ if self.source == Element::F32 => {
                    let [low, high] = [0, 1].map(|odd| k.f32_of_bits(elements[2 * n + odd]));
                    let pair = self.element.pack(k, low, high);
                    k.mov_b32_to(value, pair);
                }
                _ => k.prmt_b32_to(value, elements[2 * n], elements[2 * n + 1], 0x5410),
            }
        }
    }
}
