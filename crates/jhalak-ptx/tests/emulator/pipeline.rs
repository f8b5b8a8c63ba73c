//! A product of bf16 matrices as on Hopper: one warpgroup loads boxes of tensors into a ring of
//! stages, the other multiplies them by wgmma, and a bulk reduction adds the result.

use half::bf16;
use jhalak_ptx::Comparison::{Eq, Lt};
use jhalak_ptx::emulator::{Argument, Launch, Memory, Report};
use jhalak_ptx::{
    AsyncMemory, B32, Descriptor, F32, KernelBuilder, Major, MatrixLayout, Module, Region, Swizzle,
    TensorElement, TensorMap, TensorMapSpec,
};

use crate::{for_seeds, module};

/// Rows of a, columns of b, and the depth; a stage is as deep as a row of the swizzle.
const M: u32 = 64;
const N: u32 = 64;
const DEPTH: u32 = 256;
const STAGES: u32 = 2;

/// How b is stored, the swizzle of both tiles, and what is left out.
#[derive(Clone, Copy)]
pub struct Options {
    pub swizzle: Swizzle,
    pub major: Major,
    pub without: Without,
}

impl Options {
    pub const PLAIN: Options =
        Options { swizzle: Swizzle::Bytes128, major: Major::K, without: Without::Nothing };

    pub fn without(without: Without) -> Self {
        Options { without, ..Self::PLAIN }
    }

    /// bf16 in a row of the swizzle: the depth of a stage.
    fn width(self) -> u32 {
        self.swizzle.row_bytes() / 2
    }

    fn steps(self) -> u32 {
        DEPTH / self.width()
    }

    fn a_bytes(self) -> u32 {
        2 * M * self.width()
    }

    fn stage_bytes(self) -> u32 {
        self.a_bytes() + 2 * N * self.width()
    }

    pub fn shared_bytes(self) -> u32 {
        STAGES * self.stage_bytes() + 4 * M * N + 8 * 2 * STAGES
    }
}

/// A fault that a test plants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Without {
    Nothing,
    MbarrierInitFence,
    BarrierAfterInit,
    ExpectedBytes,
    HalfOfTheBytes,
    MoreBytesThanExpected,
    RightParity,
    WaitForEmpty,
    ArriveAtEmpty,
    AlignedTile,
    WgmmaFence,
    WaitForProducts,
    ProxyFence,
    BarrierBeforeReduce,
    WaitForReduce,
}

struct Ring {
    options: Options,
    tiles: Region,
    barriers: Region,
}

impl Ring {
    fn a(&self, step: u32) -> (Region, u32) {
        (self.tiles, step % STAGES * self.options.stage_bytes())
    }

    fn b(&self, step: u32) -> (Region, u32) {
        (self.tiles, step % STAGES * self.options.stage_bytes() + self.options.a_bytes())
    }

    fn full(&self, step: u32) -> (Region, u32) {
        (self.barriers, 16 * (step % STAGES))
    }

    fn empty(&self, step: u32) -> (Region, u32) {
        (self.barriers, 16 * (step % STAGES) + 8)
    }
}

/// c += a · b. Warpgroup 0 multiplies, warpgroup 1 loads.
pub fn product(k: &mut KernelBuilder, options: Options) {
    let without = options.without;
    k.reqntid(256);
    k.maxnreg(128);
    let tiles = k.dynamic_shared("tiles", STAGES * options.stage_bytes(), 1024);
    let out = k.dynamic_shared("out", 4 * M * N, 128);
    let barriers = k.dynamic_shared("barriers", 16 * STAGES, 8);
    let ring = Ring { options, tiles, barriers };
    let [a, b] = ["a", "b"].map(|name| k.param_tensor_map(name));
    let c = k.param_pointer("c", 16);
    let thread = k.tid_x();
    let first = k.setp_u32(Eq, thread, 0);
    k.if_(first, |k| {
        for stage in 0..STAGES {
            k.mbarrier_init(ring.full(stage), 1);
            k.mbarrier_init(ring.empty(stage), 128);
        }
        if without != Without::MbarrierInitFence {
            k.fence_mbarrier_init();
        }
    });
    if without != Without::BarrierAfterInit {
        k.bar_sync_all();
    }
    let consumes = k.setp_u32(Lt, thread, 128);
    k.role(!consumes, |k| {
        k.setmaxnreg_dec(40);
        let one = k.setp_u32(Eq, thread, 128);
        k.if_(one, |k| load(k, &ring, [a, b]));
    });
    k.setmaxnreg_inc(208);
    let sums = multiply(k, &ring);
    let c = k.ld_param(c);
    write(k, out, &sums, thread);
    if without != Without::ProxyFence {
        k.fence_proxy_async(AsyncMemory::Shared);
    }
    if without != Without::BarrierBeforeReduce {
        k.bar_sync(1, 128);
    }
    k.if_(first, |k| {
        k.bulk_reduce_add_f32(c, out, 4 * M * N, None);
        k.bulk_commit_group();
        if without != Without::WaitForReduce {
            k.bulk_wait_group_read(0);
        }
    });
}

fn load(k: &mut KernelBuilder, ring: &Ring, maps: [TensorMap; 2]) {
    let Options { major, without, .. } = ring.options;
    let [a, b] = maps.map(|map| k.tensor_map_address(map));
    for step in 0..ring.options.steps() {
        // The first round finds every stage empty: the phase before the first is complete.
        if without != Without::WaitForEmpty {
            k.mbarrier_wait(ring.empty(step), 1 - step / STAGES % 2);
        }
        let bytes = ring.options.stage_bytes();
        match without {
            Without::ExpectedBytes => k.mbarrier_arrive(ring.full(step)),
            Without::HalfOfTheBytes => k.mbarrier_arrive_expect_tx(ring.full(step), bytes / 2),
            Without::MoreBytesThanExpected => {
                k.mbarrier_arrive_expect_tx(ring.full(step), bytes + 16);
            }
            _ => k.mbarrier_arrive_expect_tx(ring.full(step), bytes),
        }
        let at = step * ring.options.width();
        if without == Without::AlignedTile {
            let (tiles, offset) = ring.a(step);
            let place = k.shared_address((tiles, offset + 16));
            k.tensor_load(place, a, &[at.into(), 0.into()], ring.full(step), None);
        }
        k.tensor_load(ring.a(step), a, &[at.into(), 0.into()], ring.full(step), None);
        let place = match major {
            Major::K => [at.into(), 0.into()],
            Major::Mn => [0.into(), at.into()],
        };
        if major == Major::K || N * 2 == ring.options.swizzle.row_bytes() {
            k.tensor_load(ring.b(step), b, &place, ring.full(step), None);
            continue;
        }
        // A box is no wider than the swizzle: as many panels as it takes.
        let (tiles, offset) = ring.b(step);
        let width = ring.options.width();
        for panel in 0..N / width {
            let place = [(panel * width).into(), at.into()];
            let panel = offset + panel * 2 * width * width;
            k.tensor_load((tiles, panel), b, &place, ring.full(step), None);
        }
    }
}

fn multiply(k: &mut KernelBuilder, ring: &Ring) -> Vec<F32> {
    let Options { swizzle, major, without, .. } = ring.options;
    let width = ring.options.width();
    let sums: Vec<F32> = k.fragment(N as usize / 2);
    let (a_layout, b_layout) = (
        MatrixLayout::k_major(swizzle),
        match major {
            Major::K => MatrixLayout::k_major(swizzle),
            Major::Mn => MatrixLayout::mn_major(swizzle, 2 * width * width),
        },
    );
    // One step of depth 16 further: 32 bytes of a row, or 16 rows.
    let b_step = if major == Major::K { 32 } else { 16 * swizzle.row_bytes() };
    for step in 0..ring.options.steps() {
        let parity = step / STAGES % 2;
        let parity = if without == Without::RightParity { 1 - parity } else { parity };
        k.mbarrier_wait(ring.full(step), parity);
        let a: Descriptor = k.descriptor(ring.a(step), a_layout);
        let b = k.descriptor(ring.b(step), b_layout);
        if without != Without::WgmmaFence {
            k.wgmma_fence();
        }
        for depth in 0..width / 16 {
            let a = k.descriptor_advance(a, (32 * depth).cast_signed());
            let b = k.descriptor_advance(b, (b_step * depth).cast_signed());
            k.wgmma_bf16(&sums, a, b, step + depth > 0);
        }
        k.wgmma_commit_group();
        if without != Without::WaitForProducts {
            k.wgmma_wait_group(0);
        }
        if without != Without::ArriveAtEmpty {
            k.mbarrier_arrive(ring.empty(step));
        }
    }
    sums
}

fn write(k: &mut KernelBuilder, out: Region, sums: &[F32], thread: B32) {
    let (warp, lane) = (k.shr_u32(thread, 5), k.and_b32(thread, 31));
    let (group, pair) = (k.shr_u32(lane, 2), k.and_b32(lane, 3));
    let row = k.mad_lo_u32(warp, 16, group);
    let out = k.shared_address(out);
    let place = k.mad_lo_u32(row, 4 * N, out);
    let place = k.mad_lo_u32(pair, 8, place);
    for (column, quad) in (0..).zip(sums.chunks_exact(4)) {
        k.st_vector((place, 32 * column), [quad[0], quad[1]]);
        k.st_vector((place, 32 * column + 8 * 4 * N), [quad[2], quad[3]]);
    }
}

/// Small integers, so that sums are exact.
fn numbers(count: u32, factor: u32) -> Vec<bf16> {
    (0..count).map(|i| bf16::from_f32((i * factor % 7) as f32 - 3.0)).collect()
}

pub fn run(module: &Module, options: Options, seed: u64) -> Result<Vec<f32>, Report> {
    let (swizzle, width) = (options.swizzle, options.width());
    let mut memory = Memory::new();
    let (a, b) = (memory.alloc(&numbers(M * DEPTH, 5)), memory.alloc(&numbers(N * DEPTH, 3)));
    let c = memory.alloc(&vec![0.5f32; (M * N) as usize]);
    let matrix = |rows: u32, columns: u32, tile| {
        let shape = [rows, columns].map(u64::from);
        TensorMapSpec::matrix(TensorElement::Bf16, shape, tile, swizzle)
    };
    let b_spec = match options.major {
        Major::K => matrix(N, DEPTH, [N, width]),
        Major::Mn => matrix(DEPTH, N, [width, width]),
    };
    let launch = Launch::new(module, "kernel").block(256).dynamic_shared(options.shared_bytes());
    launch
        .arg(Argument::Tensor { spec: matrix(M, DEPTH, [M, width]), base: a })
        .arg(Argument::Tensor { spec: b_spec, base: b })
        .arg(c)
        .seed(seed)
        .run(&mut memory)?;
    Ok(memory.read(c, (M * N) as usize).unwrap_or_else(|fault| panic!("{fault}")))
}

fn expected(major: Major) -> Vec<f32> {
    let (a, b) = (numbers(M * DEPTH, 5), numbers(N * DEPTH, 3));
    let element = |row: u32, column: u32| -> f32 {
        let products = (0..DEPTH).map(|k| {
            let b = match major {
                Major::K => b[(column * DEPTH + k) as usize],
                Major::Mn => b[(k * N + column) as usize],
            };
            a[(row * DEPTH + k) as usize].to_f32() * b.to_f32()
        });
        0.5 + products.sum::<f32>()
    };
    (0..M).flat_map(|row| (0..N).map(move |column| element(row, column))).collect()
}

#[test]
fn a_ring_of_tiles_feeds_wgmma_in_every_swizzle_and_both_directions_of_b() {
    for swizzle in [Swizzle::Bytes128, Swizzle::Bytes64, Swizzle::Bytes32] {
        for major in [Major::K, Major::Mn] {
            let options = Options { swizzle, major, ..Options::PLAIN };
            let (module, expected) = (module(|k| product(k, options)), expected(major));
            for_seeds(|seed| {
                assert_eq!(run(&module, options, seed)?, expected, "{swizzle:?} {major:?}");
                Ok(())
            });
        }
    }
}
