//! c = a · b on Ampere and newer: 8 warps compute a tile of 128 × 128, 64 × 32 each.
//!
//! Tiles of a and b of 64 columns are copied to a ring of 3 stages, two ahead of the one in use. A row
//! of a tile is 128 bytes in 8 chunks of 16, which are swizzled so that neither the copies nor
//! ldmatrix meet in a bank. What lies outside the matrices is filled with zeros.

use jhalak_ptx::Comparison::{Eq, Lt};
use jhalak_ptx::{
    B32, B64, Connective, Error, F32, KernelBuilder, Major, ModuleBuilder, Param, Target,
};

use crate::Size;
use crate::program::{Argument, Buffer, Element, Launch, Program, Use};
use crate::reference::Meaning;

const TILE: u32 = 128;
/// Elements of k in a stage: 128 bytes.
const DEPTH: u32 = 64;
const TILE_BYTES: u32 = TILE * 128;
const STAGE_BYTES: u32 = 2 * TILE_BYTES;
const STAGES: u32 = 3;
const THREADS: u32 = 256;
/// Rows that all threads copy at once, 8 chunks each.
const ROWS_AT_ONCE: u32 = THREADS / 8;
/// Copies of each thread to a tile.
const COPIES: usize = (TILE / ROWS_AT_ONCE) as usize;
/// A warp's part of the output, in products of 16 × 8.
const PRODUCTS_M: usize = 4;
const PRODUCTS_N: usize = 4;
/// Bytes of 16 rows.
const ROWS16_BYTES: u32 = 16 * 128;
const NAME: &str = "matmul_mma";

/// c = a · b of bf16: a and c row by row, b column by column. n is a multiple of 2, k of 8.
///
/// # Errors
///
/// Whatever [`ModuleBuilder::build`] finds: targets before sm_80 lack the instructions.
pub fn matmul_mma(target: Target, size: Size) -> Result<Program, Error> {
    let mut module = ModuleBuilder::new(target);
    module.kernel(NAME, write);
    let module = module.build()?;
    let Size { m, n, k } = size;
    let buffer = |name, rows: u32, columns: u32, usage| Buffer {
        name,
        element: Element::Bf16,
        len: rows as usize * columns as usize,
        usage,
    };
    let launch = Launch {
        kernel: NAME,
        grid: m.div_ceil(TILE) * n.div_ceil(TILE),
        block: THREADS,
        shared_bytes: module.kernels()[0].dynamic_shared().bytes(),
        buffers: vec![
            buffer("a", m, k, Use::Input),
            buffer("b", k, n, Use::Input),
            buffer("c", m, n, Use::Output),
        ],
        arguments: vec![
            Argument::Address(0),
            Argument::Address(1),
            Argument::Address(2),
            Argument::U32(m),
            Argument::U32(n),
            Argument::U32(k),
        ],
    };
    Ok(Program { module, launch, meaning: Meaning::Product { size, b: Major::K } })
}

fn write(k: &mut KernelBuilder) {
    k.maxntid(THREADS);
    let [a, b, c] = ["a", "b", "c"].map(|name| k.param_pointer(name, 16));
    let [m, n, depth] = ["m", "n", "k"].map(|name| k.param_u32(name)).map(|size| k.ld_param(size));
    let shared = k.dynamic_shared("stages", STAGES * STAGE_BYTES, 1024);
    let shared = k.shared_address(shared);
    let (thread, block) = (k.tid_x(), k.ctaid_x());
    let rounded = k.add_u32(m, TILE - 1);
    let tiles_m = k.shr_u32(rounded, TILE.ilog2());
    let (row, column) = (k.rem_u32(block, tiles_m), k.div_u32(block, tiles_m));
    let (row, column) = (k.mul_lo_u32(row, TILE), k.mul_lo_u32(column, TILE));

    let copies = Copies {
        a: Side::new(k, a, row, m, depth, thread),
        b: Side::new(k, b, column, n, depth, thread),
        chunk: first_element(k, thread),
        place: copy_place(k, thread, shared),
        depth,
        next: k.mov_b32(0),
        stage: k.mov_b32(0),
    };
    let warp = Warp::new(k, thread, shared);
    let sums: [[[F32; 4]; PRODUCTS_N]; PRODUCTS_M] =
        std::array::from_fn(|_| std::array::from_fn(|_| std::array::from_fn(|_| k.mov_f32(0.0))));

    for _ in 1..STAGES {
        copies.begin(k);
    }
    let stage = k.mov_b32(0);
    k.for_range(0, depth, DEPTH, |k, _| {
        // The stage in use has come, and everybody is done with the one before it.
        k.cp_async_wait_group(STAGES - 2);
        k.bar_sync_all();
        copies.begin(k);
        warp.multiply(k, &sums, stage);
        next_stage(k, stage);
    });
    let c = k.ld_param(c);
    warp.store(k, &sums, c, [row, column], [m, n]);
}

/// Goes on to the next stage of the ring; a stage is named by its offset.
fn next_stage(k: &mut KernelBuilder, stage: B32) {
    k.add_u32_to(stage, stage, STAGE_BYTES);
    let round = k.setp_u32(Eq, stage, STAGES * STAGE_BYTES);
    k.when(round, |k| k.mov_b32_to(stage, 0));
}

/// What one thread copies of a or b.
struct Side {
    sources: [B64; COPIES],
    /// 16, or 0 where the row is outside.
    bytes: [B32; COPIES],
}

impl Side {
    fn new(
        k: &mut KernelBuilder,
        matrix: Param<B64>,
        first_row: B32,
        rows: B32,
        depth: B32,
        thread: B32,
    ) -> Self {
        let matrix = k.ld_param(matrix);
        let in_pass = k.shr_u32(thread, 3);
        let chunk = k.and_b32(thread, 7);
        let first = k.add_u32(first_row, in_pass);
        let matrix = k.mad_wide_u32(chunk, 16, matrix);
        let pitch = k.mul_lo_u32(depth, 2);
        let rows_of_passes: [B32; COPIES] =
            std::array::from_fn(|pass| k.add_u32(first, pass as u32 * ROWS_AT_ONCE));
        Side {
            sources: rows_of_passes.map(|row| k.mad_wide_u32(row, pitch, matrix)),
            bytes: rows_of_passes.map(|row| {
                let inside = k.setp_u32(Lt, row, rows);
                k.selp_b32(16, 0, inside)
            }),
        }
    }
}

/// The first element of k that a thread copies to a stage.
fn first_element(k: &mut KernelBuilder, thread: B32) -> B32 {
    let chunk = k.and_b32(thread, 7);
    k.shl_b32(chunk, 3)
}

/// Where a thread's chunk goes: chunk c of row r is stored as chunk c ^ (r % 8).
fn copy_place(k: &mut KernelBuilder, thread: B32, shared: B32) -> B32 {
    let row = k.shr_u32(thread, 3);
    let swizzle = k.bfe_u32(thread, 3, 3);
    let chunk = k.and_b32(thread, 7);
    let chunk = k.xor_b32(chunk, swizzle);
    let place = k.mad_lo_u32(row, 128, shared);
    k.mad_lo_u32(chunk, 16, place)
}

/// A thread's copies of both sides, stage after stage.
struct Copies {
    a: Side,
    b: Side,
    /// The element of k that the thread's chunk begins with, within a stage.
    chunk: B32,
    place: B32,
    depth: B32,
    /// The first element of k of the stage that is copied next.
    next: B32,
    stage: B32,
}

impl Copies {
    /// Begins to copy the next stage, as one group. Beyond the end nothing is read.
    fn begin(&self, k: &mut KernelBuilder) {
        let element = k.add_u32(self.chunk, self.next);
        let inside = k.setp_u32(Lt, element, self.depth);
        let place = k.add_u32(self.place, self.stage);
        for (side, tile) in [(&self.a, 0), (&self.b, TILE_BYTES)] {
            for (pass, (source, bytes)) in side.sources.iter().zip(side.bytes).enumerate() {
                let source = k.mad_wide_u32(self.next, 2, *source);
                let bytes = k.selp_b32(bytes, 0, inside);
                let row = pass as u32 * ROWS_AT_ONCE * 128;
                k.cp_async_zero_fill((place, tile + row), source, 16, bytes);
            }
        }
        k.cp_async_commit_group();
        k.add_u32_to(self.next, self.next, DEPTH);
        next_stage(k, self.stage);
    }
}

/// One warp's part of the tile.
struct Warp {
    /// Its first row and column in the tile.
    row: B32,
    column: B32,
    lane: B32,
    /// Where the lane's row of a and of b begins in the first stage, for ldmatrix.
    a: B32,
    b: B32,
}

impl Warp {
    fn new(k: &mut KernelBuilder, thread: B32, shared: B32) -> Self {
        let warp = k.shr_u32(thread, 5);
        let lane = k.and_b32(thread, 31);
        let (down, across) = (k.shr_u32(warp, 2), k.and_b32(warp, 3));
        let (row, column) = (k.mul_lo_u32(down, 64), k.mul_lo_u32(across, 32));
        // a: matrices of 8 rows, then the next 8 rows, then the same for the next 8 of k.
        let (a_row, a_chunk) = (k.and_b32(lane, 15), k.shr_u32(lane, 4));
        // b: matrices of 8 columns, then the next 8 of k, then the same for the next 8 columns.
        let (low, high) = (k.and_b32(lane, 7), k.shr_u32(lane, 4));
        let (b_row, b_chunk) = (k.mad_lo_u32(high, 8, low), k.bfe_u32(lane, 3, 1));
        let mut place = |first: B32, in_matrix: B32, chunk: B32, tile: u32| {
            let swizzle = k.and_b32(in_matrix, 7);
            let chunk = k.xor_b32(chunk, swizzle);
            let row = k.add_u32(first, in_matrix);
            let place = k.mad_lo_u32(row, 128, shared);
            let place = k.mad_lo_u32(chunk, 16, place);
            k.add_u32(place, tile)
        };
        let a = place(row, a_row, a_chunk, 0);
        let b = place(column, b_row, b_chunk, TILE_BYTES);
        Warp { row, column, lane, a, b }
    }

    fn multiply(
        &self,
        k: &mut KernelBuilder,
        sums: &[[[F32; 4]; PRODUCTS_N]; PRODUCTS_M],
        stage: B32,
    ) {
        let (a, b) = (k.add_u32(self.a, stage), k.add_u32(self.b, stage));
        for step in 0..DEPTH / 16 {
            let (a, b) = (k.xor_b32(a, step * 32), k.xor_b32(b, step * 32));
            let a: [[B32; 4]; PRODUCTS_M] =
                std::array::from_fn(|i| k.ldmatrix((a, i as u32 * ROWS16_BYTES)));
            let b: [[B32; 4]; PRODUCTS_N / 2] =
                std::array::from_fn(|i| k.ldmatrix((b, i as u32 * ROWS16_BYTES)));
            for (sums, a) in sums.iter().zip(a) {
                for (pair, [b0, b1, b2, b3]) in sums.chunks(2).zip(b) {
                    k.mma_m16n8k16_bf16(pair[0], a, [b0, b1], pair[0]);
                    k.mma_m16n8k16_bf16(pair[1], a, [b2, b3], pair[1]);
                }
            }
        }
    }

    fn store(
        &self,
        k: &mut KernelBuilder,
        sums: &[[[F32; 4]; PRODUCTS_N]; PRODUCTS_M],
        c: B64,
        [tile_row, tile_column]: [B32; 2],
        [m, n]: [B32; 2],
    ) {
        let (group, pair) = (k.shr_u32(self.lane, 2), k.and_b32(self.lane, 3));
        let row = k.add_u32(tile_row, self.row);
        let row = k.add_u32(row, group);
        let column = k.add_u32(tile_column, self.column);
        let column = k.mad_lo_u32(pair, 2, column);
        let pitch = k.mul_lo_u32(n, 2);
        let c = k.mad_wide_u32(column, 2, c);
        for (i, sums) in sums.iter().enumerate() {
            for half in 0..2 {
                let row = k.add_u32(row, 16 * i as u32 + 8 * half as u32);
                let row_inside = k.setp_u32(Lt, row, m);
                let place = k.mad_wide_u32(row, pitch, c);
                for (j, sums) in sums.iter().enumerate() {
                    let column = k.add_u32(column, 8 * j as u32);
                    let inside = k.setp_u32_with(Lt, column, n, Connective::And, row_inside);
                    let values = k.cvt_bf16x2_f32(sums[2 * half], sums[2 * half + 1]);
                    k.when(inside, |k| k.st((place, 16 * j as u32), values));
                }
            }
        }
    }
}
