//! c = a · b on Hopper, at the speed of the tensor cores.
//!
//! ```text
//! warpgroup 0      one thread: copies tiles of a and b to a ring of 4 stages (48 KiB each)
//! warpgroups 1, 2  64 × 256 of the output each, in registers: 4 wgmma a stage, one stage in flight
//!                  then 64 columns at a time through shared memory to c
//! ```
//!
//! Blocks are persistent, so the next tile's stages fill while this tile is stored. A row of a stage
//! is 128 bytes, the widest swizzle: 64 bf16 or 128 e4m3.

use jhalak_ptx::Comparison::Eq;
use jhalak_ptx::{
    AsyncMemory, B32, B64, Descriptor, Error, F32, KernelBuilder, LeftMatrix, Major, MatrixLayout,
    ModuleBuilder, Param, Pred, Swizzle, Target, TensorElement, TensorMap, TensorMapSpec,
};

use crate::program::{Argument, Buffer, Element, Launch, Program, Use};
use crate::reference::Meaning;
use crate::ring::{Position, Ring};
use crate::tiles::Tiles;
use crate::{Size, matmul_wgmma::Left::*};

const TILE_M: u32 = 128;
const TILE_N: u32 = 256;
const STAGES: u32 = 4;
/// Bytes of k in a stage.
const ROW_BYTES: u32 = 128;
/// Bytes of k in one wgmma.
const STEP_BYTES: u32 = 32;
const A_BYTES: u32 = TILE_M * ROW_BYTES;
const STAGE_BYTES: u32 = (TILE_M + TILE_N) * ROW_BYTES;
/// Rows of the output that a warpgroup holds.
const GROUP_ROWS: u32 = 64;
/// Columns of the output that are stored at once: 128 bytes.
const PANEL: u32 = 64;
const PANEL_BYTES: u32 = GROUP_ROWS * 128;
const CONSUMERS: u32 = 2;
const THREADS: u32 = 128 * (CONSUMERS + 1);
/// Each warp tells when it is done with a stage: a wait is for a warp's own part of the products.
const ARRIVALS: u32 = 4 * CONSUMERS;
const SWIZZLE: Swizzle = Swizzle::Bytes128;
const NAME: &str = "matmul_wgmma";

/// Where wgmma reads a from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    /// From the stage.
    InShared,
    /// From registers, into which ldmatrix brings it.
    InRegisters,
}

#[derive(Clone, Copy)]
struct Options {
    element: Element,
    b: Major,
    left: Left,
}

/// c = a · b of bf16, a and c row by row. b is stored column by column ([`Major::K`]) or row by row
/// ([`Major::Mn`]; then n is a multiple of 64). n and k are multiples of 8. At most `blocks` blocks
/// are launched: as many as there are multiprocessors.
///
/// # Errors
///
/// Whatever [`ModuleBuilder::build`] finds.
pub fn matmul_wgmma(size: Size, b: Major, blocks: u32) -> Result<Program, Error> {
    program(size, blocks, Options { element: Element::Bf16, b, left: InShared })
}

/// As [`matmul_wgmma`], b column by column, but a goes through registers.
///
/// # Errors
///
/// Whatever [`ModuleBuilder::build`] finds.
pub fn matmul_wgmma_registers(size: Size, blocks: u32) -> Result<Program, Error> {
    program(size, blocks, Options { element: Element::Bf16, b: Major::K, left: InRegisters })
}

/// c = a · b of e4m3 with c of bf16: a and c row by row, b column by column. n is a multiple of 8, k
/// of 16. At most `blocks` blocks are launched: as many as there are multiprocessors.
///
/// # Errors
///
/// Whatever [`ModuleBuilder::build`] finds.
pub fn matmul_fp8(size: Size, blocks: u32) -> Result<Program, Error> {
    program(size, blocks, Options { element: Element::E4m3, b: Major::K, left: InShared })
}

fn program(size: Size, blocks: u32, options: Options) -> Result<Program, Error> {
    let mut module = ModuleBuilder::new(Target::Sm90a);
    module.kernel(NAME, |k| Matmul::declare(k, options).write(k));
    let module = module.build()?;
    let shared_bytes = module.kernels()[0].dynamic_shared().bytes();
    let (tiles_m, tiles_n) = (size.m.div_ceil(TILE_M), size.n.div_ceil(TILE_N));
    let Size { m, n, k } = size;
    let input = |name, rows, columns| Buffer {
        name,
        element: options.element,
        len: rows as usize * columns as usize,
        usage: Use::Input,
    };
    let c = Buffer { element: Element::Bf16, usage: Use::Output, ..input("c", m, n) };
    let [map_a, map_b, map_c] = maps(size, options);
    let launch = Launch {
        kernel: NAME,
        grid: blocks.min(tiles_m * tiles_n),
        block: THREADS,
        shared_bytes,
        buffers: vec![input("a", m, k), input("b", k, n), c],
        arguments: vec![
            Argument::TensorMap(0, map_a),
            Argument::TensorMap(1, map_b),
            Argument::TensorMap(2, map_c),
            Argument::U32(tiles_m),
            Argument::U32(tiles_n),
            Argument::U32((k * options.element.bytes()).div_ceil(ROW_BYTES)),
        ],
    };
    Ok(Program { module, launch, meaning: Meaning::Product { size, b: options.b } })
}

fn maps(Size { m, n, k }: Size, options: Options) -> [TensorMapSpec; 3] {
    let element = match options.element {
        Element::E4m3 => TensorElement::U8,
        Element::Bf16 => TensorElement::Bf16,
        Element::F32 => TensorElement::F32,
    };
    let depth = ROW_BYTES / element.bytes();
    let [m, n, k] = [m, n, k].map(u64::from);
    let a = TensorMapSpec::matrix(element, [m, k], [TILE_M, depth], SWIZZLE);
    let b = match options.b {
        Major::K => TensorMapSpec::matrix(element, [n, k], [TILE_N, depth], SWIZZLE),
        // Panels of 64 columns are a dimension of their own, so that one copy brings all of them.
        Major::Mn => TensorMapSpec::new(
            element,
            &[PANEL.into(), k, n / u64::from(PANEL)],
            &[n * u64::from(element.bytes()), ROW_BYTES.into()],
            &[PANEL, depth, TILE_N / PANEL],
            SWIZZLE,
        ),
    };
    let c = TensorMapSpec::matrix(TensorElement::Bf16, [m, n], [GROUP_ROWS, PANEL], SWIZZLE);
    [a, b, c]
}

/// The kernel's parameters and memory.
struct Matmul {
    options: Options,
    a: TensorMap,
    b: TensorMap,
    c: TensorMap,
    tiles: Tiles,
    depth: Param<B32>,
    ring: Ring,
    stages: B32,
    output: B32,
}

impl Matmul {
    fn declare(k: &mut KernelBuilder, options: Options) -> Self {
        k.reqntid(THREADS);
        k.minnctapersm(1);
        let [a, b, c] = ["a", "b", "c"].map(|name| k.param_tensor_map(name));
        let [rows, columns, depth] =
            ["tiles_m", "tiles_n", "k_blocks"].map(|name| k.param_u32(name));
        let stages = k.dynamic_shared("stages", STAGES * STAGE_BYTES, 1024);
        let output = k.dynamic_shared("output", CONSUMERS * 2 * PANEL_BYTES, 1024);
        Matmul {
            options,
            a,
            b,
            c,
            tiles: Tiles::new(k, rows, columns),
            depth,
            ring: Ring::new(k, STAGES),
            stages: k.shared_address(stages),
            output: k.shared_address(output),
        }
    }

    fn write(&self, k: &mut KernelBuilder) {
        let thread = k.tid_x();
        let group = k.shr_u32(thread, 7);
        // The same in all lanes, and ptxas knows it.
        let group = k.shfl_idx_b32(group, 0);
        let first = k.setp_u32(Eq, thread, 0);
        k.if_(first, |k| self.ring.init(k, ARRIVALS));
        k.bar_sync_all();
        let producer = k.setp_u32(Eq, group, 0);
        k.role(producer, |k| {
            k.setmaxnreg_dec(40);
            k.if_(first, |k| self.produce(k));
        });
        k.setmaxnreg_inc(232);
        self.consume(k, thread, group);
    }

    /// Copies the tiles of a and b, stage after stage.
    fn produce(&self, k: &mut KernelBuilder) {
        let (a, b) = (k.tensor_map_address(self.a), k.tensor_map_address(self.b));
        k.prefetch_tensor_map(a);
        k.prefetch_tensor_map(b);
        let depth = k.ld_param(self.depth);
        let at = self.ring.producer(k);
        self.tiles.for_each(k, |k, row, column| {
            let (row, column) = (k.mul_lo_u32(row, TILE_M), k.mul_lo_u32(column, TILE_N));
            k.for_range(0, depth, 1, |k, block| {
                let (empty, full) = (self.ring.empty(k, at), self.ring.full(k, at));
                k.mbarrier_wait(empty, at.parity);
                k.mbarrier_arrive_expect_tx(full, STAGE_BYTES);
                let stage = k.mad_lo_u32(at.stage, STAGE_BYTES, self.stages);
                let depth = k.mul_lo_u32(block, ROW_BYTES / self.options.element.bytes());
                k.tensor_load(stage, a, &[depth.into(), row.into()], full, None);
                let corner = match self.options.b {
                    Major::K => vec![depth.into(), column.into()],
                    Major::Mn => {
                        let panel = k.shr_u32(column, PANEL.ilog2());
                        vec![0.into(), depth.into(), panel.into()]
                    }
                };
                k.tensor_load((stage, A_BYTES), b, &corner, full, None);
                self.ring.advance(k, at);
            });
        });
    }

    /// Multiplies stage after stage, and stores tile after tile.
    fn consume(&self, k: &mut KernelBuilder, thread: B32, group: B32) {
        let consumer = Consumer::new(self, k, thread, group);
        let depth = k.ld_param(self.depth);
        let at = self.ring.consumer(k);
        let sums: Vec<F32> = k.fragment(TILE_N as usize / 2);
        self.tiles.for_each(k, |k, row, column| {
            match self.options.left {
                InShared => consumer.multiply(k, &sums, at, depth),
                InRegisters => consumer.multiply_from_registers(k, &sums, at, depth),
            }
            consumer.store(k, &sums, row, column);
        });
        k.when(consumer.leader, |k| k.bulk_wait_group(0));
    }
}

/// One warpgroup of those that multiply.
struct Consumer<'a> {
    matmul: &'a Matmul,
    /// Which one, from 0.
    index: B32,
    /// One thread of it.
    leader: Pred,
    /// One lane of each warp.
    warp_leader: Pred,
    /// Its rows of a in the first stage, and all of b.
    a: Descriptor,
    b: Descriptor,
    /// This thread's row and 16-byte chunk of a matrix of 16 rows, in the swizzled panel of a or c.
    place: B32,
    /// The barrier that it meets at.
    barrier: B32,
    c: B64,
}

impl<'a> Consumer<'a> {
    fn new(matmul: &'a Matmul, k: &mut KernelBuilder, thread: B32, group: B32) -> Self {
        let index = k.sub_u32(group, 1);
        let in_group = k.and_b32(thread, 127);
        let leader = k.setp_u32(Eq, in_group, 0);
        let lane = k.and_b32(thread, 31);
        let warp_leader = k.setp_u32(Eq, lane, 0);
        let a = k.mad_lo_u32(index, GROUP_ROWS * ROW_BYTES, matmul.stages);
        let a = k.descriptor(a, MatrixLayout::k_major(SWIZZLE));
        let layout = match matmul.options.b {
            Major::K => MatrixLayout::k_major(SWIZZLE),
            Major::Mn => MatrixLayout::mn_major(SWIZZLE, PANEL * ROW_BYTES),
        };
        let b = k.descriptor((matmul.stages, A_BYTES), layout);
        let place = swizzled_place(k, in_group);
        let c = k.tensor_map_address(matmul.c);
        Consumer { matmul, index, leader, warp_leader, a, b, place, barrier: group, c }
    }

    /// The four products of a stage. The first of a tile begins the sums anew.
    fn stage(
        &self,
        k: &mut KernelBuilder,
        sums: &[F32],
        at: Position,
        left: impl Fn(&mut KernelBuilder, u32) -> LeftMatrix,
        first: bool,
    ) {
        let b = k.descriptor_at(self.b, at.stage, STAGE_BYTES);
        let b_step = match self.matmul.options.b {
            Major::K => STEP_BYTES,
            Major::Mn => 16 * ROW_BYTES,
        };
        k.wgmma_fence();
        for step in 0..ROW_BYTES / STEP_BYTES {
            let a = left(k, step);
            let b = k.descriptor_advance(b, (step * b_step).cast_signed());
            let accumulate = !first || step > 0;
            match self.matmul.options.element {
                Element::E4m3 => k.wgmma_e4m3(sums, a, b, accumulate),
                _ => k.wgmma_bf16(sums, a, b, accumulate),
            }
        }
        k.wgmma_commit_group();
    }

    /// All stages of a tile, one in flight while the next is waited for.
    fn multiply(&self, k: &mut KernelBuilder, sums: &[F32], at: Position, depth: B32) {
        let ring = self.matmul.ring;
        let issue = |k: &mut KernelBuilder, first: bool| {
            let full = ring.full(k, at);
            k.mbarrier_wait(full, at.parity);
            let a = k.descriptor_at(self.a, at.stage, STAGE_BYTES);
            let left = |k: &mut KernelBuilder, step: u32| {
                k.descriptor_advance(a, (step * STEP_BYTES).cast_signed()).into()
            };
            self.stage(k, sums, at, left, first);
        };
        issue(k, true);
        let in_flight = ring.empty(k, at);
        ring.advance(k, at);
        k.for_range(1, depth, 1, |k, _| {
            issue(k, false);
            k.wgmma_wait_group(1);
            k.when(self.warp_leader, |k| k.mbarrier_arrive(in_flight));
            let empty = ring.empty(k, at);
            k.mov_b32_to(in_flight, empty);
            ring.advance(k, at);
        });
        k.wgmma_wait_group(0);
        k.when(self.warp_leader, |k| k.mbarrier_arrive(in_flight));
    }

    /// All stages of a tile, with a in registers, which the products hold until they are done.
    fn multiply_from_registers(
        &self,
        k: &mut KernelBuilder,
        sums: &[F32],
        at: Position,
        depth: B32,
    ) {
        let ring = self.matmul.ring;
        let rows = k.mad_lo_u32(self.index, GROUP_ROWS * ROW_BYTES, self.matmul.stages);
        let rows = k.add_u32(rows, self.place);
        let round = |k: &mut KernelBuilder, first: bool| {
            let (full, empty) = (ring.full(k, at), ring.empty(k, at));
            k.mbarrier_wait(full, at.parity);
            let rows = k.mad_lo_u32(at.stage, STAGE_BYTES, rows);
            let a: [[B32; 4]; 4] = std::array::from_fn(|step| {
                let place = k.xor_b32(rows, step as u32 * STEP_BYTES);
                k.ldmatrix(place)
            });
            self.stage(k, sums, at, |_, step| a[step as usize].into(), first);
            k.wgmma_wait_group(0);
            // All lanes have read their rows, not only the one that says so.
            k.bar_warp_sync();
            k.when(self.warp_leader, |k| k.mbarrier_arrive(empty));
            ring.advance(k, at);
        };
        round(k, true);
        k.for_range(1, depth, 1, |k, _| round(k, false));
    }

    /// Stores the sums as bf16: panels of 64 columns go through two buffers in turn.
    fn store(&self, k: &mut KernelBuilder, sums: &[F32], row: B32, column: B32) {
        let buffers = k.mad_lo_u32(self.index, 2 * PANEL_BYTES, self.matmul.output);
        let place = k.add_u32(buffers, self.place);
        let row = k.mul_lo_u32(row, TILE_M);
        let row = k.mad_lo_u32(self.index, GROUP_ROWS, row);
        let column = k.mul_lo_u32(column, TILE_N);
        for (panel, sums) in sums.chunks(PANEL as usize / 2).enumerate() {
            let buffer = panel as u32 % 2 * PANEL_BYTES;
            // The store before last has left this buffer.
            k.when(self.leader, |k| k.bulk_wait_group_read(1));
            k.bar_sync(self.barrier, 128);
            for (step, sums) in sums.chunks(8).enumerate() {
                let pairs: [B32; 4] =
                    std::array::from_fn(|i| k.cvt_bf16x2_f32(sums[2 * i], sums[2 * i + 1]));
                let place = k.xor_b32(place, step as u32 * STEP_BYTES);
                k.stmatrix((place, buffer), pairs);
            }
            k.fence_proxy_async(AsyncMemory::Shared);
            k.bar_sync(self.barrier, 128);
            k.if_(self.leader, |k| {
                let column = k.add_u32(column, panel as u32 * PANEL);
                k.tensor_store(self.c, &[column.into(), row.into()], (buffers, buffer), None);
                k.bulk_commit_group();
            });
        }
    }
}

/// Where in a panel of 64 swizzled rows of 128 bytes a thread's row begins, for ldmatrix.x4 and
/// stmatrix.x4 of 16 × 16 elements: lanes 0 to 15 name the rows' first 16 bytes, the others the next.
/// The following 32 bytes of the row are at `place ^ 32`, and so on.
fn swizzled_place(k: &mut KernelBuilder, in_group: B32) -> B32 {
    let lane_row = k.and_b32(in_group, 15);
    let warp = k.shr_u32(in_group, 5);
    let row = k.mad_lo_u32(warp, 16, lane_row);
    let chunk = k.bfe_u32(in_group, 4, 1);
    let in_pattern = k.and_b32(lane_row, 7);
    let chunk = k.xor_b32(chunk, in_pattern);
    let chunk = k.shl_b32(chunk, 4);
    k.mad_lo_u32(row, 128, chunk)
}
