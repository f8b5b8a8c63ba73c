//! A matrix product on Hopper: C = A·Bᵀ, bf16 in, f32 out.
//!
//! ```text
//! warpgroup 0   one thread: copies boxes of A and B into a ring of stages (TMA)
//! warpgroup 1   rows  0..64  of the tile   C += A·Bᵀ per stage (wgmma, both sides in shared memory)
//! warpgroup 2   rows 64..128 of the tile
//!
//! full[stage]   ends a phase when the stage's bytes have come     consumers wait for it
//! empty[stage]  ends a phase when both consumers are done with it  the producer waits for it
//! ```
//!
//! A block stays for many tiles: the producer is already loading the next one while the consumers
//! store. Tiles are walked in columns of 16, whose rows of A stay in L2.

use jhalak_ptx::{
    B32, B64, Comparison, Error, F32, KernelBuilder, MatrixLayout, Module, ModuleBuilder, Pred,
    Region, Special, Swizzle, Target,
};

/// Rows and columns of C that a block computes at a time.
pub const ROWS: u32 = 128;
/// See [`ROWS`].
pub const COLUMNS: u32 = 256;
/// How much of the summed dimension a stage holds: a row of the 128-byte swizzle.
pub const DEPTH: u32 = 64;
/// Threads of a block.
pub const THREADS: u32 = 384;

const STAGES: u32 = 4;
const A_BYTES: u32 = ROWS * DEPTH * 2;
const B_BYTES: u32 = COLUMNS * DEPTH * 2;
/// The summed dimension of one instruction, in bytes.
const STEP_BYTES: u32 = 16 * 2;
/// Tiles of a column that are walked one after the other.
const GROUP: u32 = 16;
const PRODUCER_REGISTERS: u32 = 40;
const CONSUMER_REGISTERS: u32 = 232;

/// The kernel `matmul(a, b, c, row_tiles, column_tiles, stages, columns)`.
///
/// a, b: tensor maps of A [M, K] and B [N, K], boxes of [`ROWS`] or [`COLUMNS`] rows by [`DEPTH`]
/// columns, 128-byte swizzle. c: f32 [M, N], with room for whole tiles. row_tiles: M / ROWS.
/// column_tiles: N / COLUMNS. stages: K / DEPTH. columns: N.
///
/// # Errors
/// None.
pub fn module() -> Result<Module, Error> {
    let mut module = ModuleBuilder::new(Target::Sm90a);
    module.kernel("matmul", matmul);
    module.build()
}

fn matmul(k: &mut KernelBuilder) {
    k.reqntid(THREADS);
    k.minnctapersm(1);
    let maps = [k.param_tensor_map("a"), k.param_tensor_map("b")];
    let c = k.param_pointer("c", 16);
    let sizes = ["row_tiles", "column_tiles", "stages", "columns"].map(|name| k.param_u32(name));
    let a = k.dynamic_shared("a", STAGES * A_BYTES, 1024);
    let b = k.dynamic_shared("b", STAGES * B_BYTES, 1024);
    let full = k.dynamic_shared("full", 8 * STAGES, 8);
    let empty = k.dynamic_shared("empty", 8 * STAGES, 8);
    let thread = k.tid_x();
    let first = k.setp_u32(Comparison::Eq, thread, 0);
    k.if_(first, |k| {
        for stage in 0..STAGES {
            k.mbarrier_init((full, 8 * stage), 1);
            k.mbarrier_init((empty, 8 * stage), 2);
        }
        k.fence_mbarrier_init();
    });
    k.bar_sync_all();
    let [row_tiles, column_tiles, stages, columns] = sizes.map(|size| k.ld_param(size));
    let tiles = Tiles { row_tiles, column_tiles };
    // The same number in all lanes of a warp, and the compiler can see it.
    let warpgroup = k.shr_u32(thread, 7);
    let warpgroup = k.shfl_idx_b32(warpgroup, 0);
    let produces = k.setp_u32(Comparison::Eq, warpgroup, 0);
    k.role(produces, |k| {
        k.setmaxnreg_dec(PRODUCER_REGISTERS);
        k.if_(first, |k| {
            let maps = maps.map(|map| k.tensor_map_address(map));
            let ring = Ring::new(k, a, b, full, empty);
            produce(k, &tiles, stages, &ring, maps);
        });
    });
    k.setmaxnreg_inc(CONSUMER_REGISTERS);
    let c = k.ld_param(c);
    let ring = Ring::new(k, a, b, full, empty);
    consume(k, &tiles, stages, &ring, Output { c, columns, thread, warpgroup });
}

/// How many tiles C has.
struct Tiles {
    row_tiles: B32,
    column_tiles: B32,
}

impl Tiles {
    /// Runs the body for each tile of this block, with its row and column among the tiles.
    fn for_each(&self, k: &mut KernelBuilder, body: impl FnOnce(&mut KernelBuilder, B32, B32)) {
        let count = k.mul_lo_u32(self.row_tiles, self.column_tiles);
        let (tile, step) = (k.ctaid_x(), k.special(Special::NctaidX));
        k.while_(
            |k| k.setp_u32(Comparison::Lt, tile, count),
            |k| {
                // Group of rows, then column by column; the last group may be smaller.
                let in_group = k.mul_lo_u32(self.column_tiles, GROUP);
                let group = k.div_u32(tile, in_group);
                let inside = k.rem_u32(tile, in_group);
                let first_row = k.mul_lo_u32(group, GROUP);
                let rows = k.sub_u32(self.row_tiles, first_row);
                let rows = k.min_u32(rows, GROUP);
                let column = k.div_u32(inside, rows);
                let row = k.rem_u32(inside, rows);
                let row = k.add_u32(first_row, row);
                body(k, row, column);
                k.add_u32_to(tile, tile, step);
            },
        );
    }
}

/// The stages, and where this thread is among them.
struct Ring {
    a: B32,
    b: B32,
    full: B32,
    empty: B32,
    stage: B32,
    parity: B32,
}

impl Ring {
    fn new(k: &mut KernelBuilder, a: Region, b: Region, full: Region, empty: Region) -> Self {
        let [a, b, full, empty] = [a, b, full, empty].map(|region| k.shared_address(region));
        Ring { a, b, full, empty, stage: k.mov_b32(0), parity: k.mov_b32(0) }
    }

    /// The barrier of the current stage.
    fn barrier(&self, k: &mut KernelBuilder, barriers: B32) -> B32 {
        k.mad_lo_u32(self.stage, 8, barriers)
    }

    fn advance(&self, k: &mut KernelBuilder) {
        k.add_u32_to(self.stage, self.stage, 1);
        let around: Pred = k.setp_u32(Comparison::Eq, self.stage, STAGES);
        k.when(around, |k| {
            k.mov_b32_to(self.stage, 0);
            k.xor_b32_to(self.parity, self.parity, 1);
        });
    }
}

/// One thread fills the ring.
fn produce(
    k: &mut KernelBuilder,
    tiles: &Tiles,
    stages: B32,
    ring: &Ring,
    [map_a, map_b]: [B64; 2],
) {
    tiles.for_each(k, |k, row, column| {
        let (row, column) = (k.mul_lo_u32(row, ROWS), k.mul_lo_u32(column, COLUMNS));
        k.for_range(0, stages, 1, |k, block| {
            let depth = k.mul_lo_u32(block, DEPTH);
            // The phase before the first counts as over: the ring begins empty.
            let (empty, before) = (ring.barrier(k, ring.empty), k.xor_b32(ring.parity, 1));
            k.mbarrier_wait(empty, before);
            let full = ring.barrier(k, ring.full);
            k.mbarrier_arrive_expect_tx(full, A_BYTES + B_BYTES);
            let a = k.mad_lo_u32(ring.stage, A_BYTES, ring.a);
            k.tensor_load(a, map_a, &[depth.into(), row.into()], full, None);
            let b = k.mad_lo_u32(ring.stage, B_BYTES, ring.b);
            k.tensor_load(b, map_b, &[depth.into(), column.into()], full, None);
            ring.advance(k);
        });
    });
}

/// Where results go, and who writes them.
struct Output {
    c: B64,
    columns: B32,
    thread: B32,
    /// 1 or 2.
    warpgroup: B32,
}

/// A warpgroup multiplies what is in the ring.
fn consume(k: &mut KernelBuilder, tiles: &Tiles, stages: B32, ring: &Ring, output: Output) {
    let sums: Vec<F32> = k.fragment(COLUMNS as usize / 2);
    // One thread speaks for the warpgroup.
    let in_group = k.and_b32(output.thread, 127);
    let speaks = k.setp_u32(Comparison::Eq, in_group, 0);
    let half = k.sub_u32(output.warpgroup, 1);
    let mine = k.mad_lo_u32(half, A_BYTES / 2, ring.a);
    let layout = MatrixLayout::k_major(Swizzle::Bytes128);
    let (all_a, all_b) = (k.descriptor(mine, layout), k.descriptor(ring.b, layout));
    tiles.for_each(k, |k, row, column| {
        let done = k.mov_b32(ring.empty);
        k.for_range(0, stages, 1, |k, block| {
            let full = ring.barrier(k, ring.full);
            k.mbarrier_wait(full, ring.parity);
            let a = k.descriptor_at(all_a, ring.stage, A_BYTES);
            let b = k.descriptor_at(all_b, ring.stage, B_BYTES);
            let more = k.setp_u32(Comparison::Ne, block, 0);
            k.wgmma_fence();
            for step in 0..DEPTH * 2 / STEP_BYTES {
                let along = (step * STEP_BYTES).cast_signed();
                let (a, b) = (k.descriptor_advance(a, along), k.descriptor_advance(b, along));
                if step == 0 {
                    k.wgmma_bf16(&sums, a, b, more);
                } else {
                    k.wgmma_bf16(&sums, a, b, true);
                }
            }
            k.wgmma_commit_group();
            // The stage before this one is read; this one is still being multiplied.
            k.wgmma_wait_group(1);
            let read = k.and_pred(speaks, more);
            k.when(read, |k| k.mbarrier_arrive(done));
            let now = ring.barrier(k, ring.empty);
            k.mov_b32_to(done, now);
            ring.advance(k);
        });
        k.wgmma_wait_group(0);
        k.when(speaks, |k| k.mbarrier_arrive(done));
        store(k, &sums, row, column, &output);
    });
}

/// Writes a warpgroup's 64 rows.
fn store(k: &mut KernelBuilder, sums: &[F32], row: B32, column: B32, output: &Output) {
    let half = k.sub_u32(output.warpgroup, 1);
    let row = k.mul_lo_u32(row, ROWS);
    let row = k.mad_lo_u32(half, 64, row);
    let in_group = k.and_b32(output.thread, 127);
    let (warp, lane) = (k.shr_u32(in_group, 5), k.and_b32(in_group, 31));
    let row = k.mad_lo_u32(warp, 16, row);
    let quad = k.shr_u32(lane, 2);
    let row = k.add_u32(row, quad);
    let pair = k.and_b32(lane, 3);
    let column = k.mul_lo_u32(column, COLUMNS);
    let column = k.mad_lo_u32(pair, 2, column);
    let start = k.mad_wide_u32(row, output.columns, 0u64);
    let column = k.cvt_u64_u32(column);
    let start = k.add_u64(start, column);
    let start = k.shl_b64(start, 2);
    let upper = k.add_u64(output.c, start);
    let lower = k.mad_wide_u32(output.columns, 8 * 4, upper);
    for (n, four) in sums.chunks_exact(4).enumerate() {
        let offset = n as u32 * 8 * 4;
        k.st_vector((upper, offset), [four[0], four[1]]);
        k.st_vector((lower, offset), [four[2], four[3]]);
    }
}
