//! A product of bf16 matrices as on Ampere: a ring of tiles by cp.async, ldmatrix, mma.

use half::bf16;
use jhalak_ptx::emulator::{Launch, Memory};
use jhalak_ptx::{B32, F32, KernelBuilder};

use crate::{for_seeds, module};

/// Rows of a, columns of b, and the depth; a step of the ring is 16 deep.
const M: u32 = 64;
const N: u32 = 32;
const DEPTH: u32 = 96;
const STEPS: u32 = DEPTH / 16;
const STAGES: u32 = 3;
/// A row of a tile: 16 bf16, and 16 bytes against bank conflicts.
const PITCH: u32 = 48;
const A_BYTES: u32 = M * PITCH;
const STAGE_BYTES: u32 = A_BYTES + N * PITCH;

/// What a test leaves out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Without {
    Nothing,
    /// The barriers between copies and products.
    Barriers,
    /// One group of the wait: it lets one more be under way.
    OneGroup,
}

/// c = a · bᵀ. Four warps, each 16 rows.
pub fn product(k: &mut KernelBuilder, without: Without) {
    k.reqntid(128);
    let ring = k.dynamic_shared("ring", STAGES * STAGE_BYTES, 16);
    let [a, b, c] = ["a", "b", "c"].map(|name| k.param_pointer(name, 16));
    let [a, b, c] = [a, b, c].map(|pointer| k.ld_param(pointer));
    let thread = k.tid_x();
    let ring = k.shared_address(ring);
    let load = |k: &mut KernelBuilder, step: u32| {
        let stage = step % STAGES * STAGE_BYTES;
        // Thread t copies half of row t / 2; the first 64 threads copy b as well.
        let (row, half) = (k.shr_u32(thread, 1), k.and_b32(thread, 1));
        let half = k.shl_b32(half, 4);
        let to = k.mad_lo_u32(row, PITCH, half);
        let to = k.add_u32(to, ring);
        let from = k.mad_lo_u32(row, 2 * DEPTH, half);
        let from_a = k.mad_wide_u32(from, 1, a);
        k.cp_async((to, stage), (from_a, 32 * step), 16);
        let of_b = k.setp_u32(jhalak_ptx::Comparison::Lt, thread, 2 * N);
        k.when(of_b, |k| {
            let from_b = k.mad_wide_u32(from, 1, b);
            k.cp_async((to, stage + A_BYTES), (from_b, 32 * step), 16);
        });
    };
    for step in 0..STAGES - 1 {
        load(k, step);
        k.cp_async_commit_group();
    }
    let (warp, lane) = (k.shr_u32(thread, 5), k.and_b32(thread, 31));
    // Lane l names row l % 16 (of 8: l % 8) and half l / 16 (l / 8 % 2) of a tile.
    let (row, half) = (k.and_b32(lane, 15), k.shr_u32(lane, 4));
    let row = k.mad_lo_u32(warp, 16, row);
    let a_row = tile_address(k, ring, row, half);
    let (row, half) = (k.and_b32(lane, 7), k.bfe_u32(lane, 3, 1));
    let b_row = tile_address(k, ring, row, half);
    let sums: [[F32; 4]; N as usize / 8] =
        std::array::from_fn(|_| [(); 4].map(|()| k.mov_f32(0.0)));
    for step in 0..STEPS {
        k.cp_async_wait_group(STAGES - 2 + u32::from(without == Without::OneGroup));
        // One barrier a step: it also follows the last use of the stage that is filled next.
        if without != Without::Barriers {
            k.bar_sync_all();
        }
        let stage = step % STAGES * STAGE_BYTES;
        let left: [B32; 4] = k.ldmatrix((a_row, stage));
        for (column, sum) in (0..).zip(sums) {
            let right: [B32; 2] = k.ldmatrix((b_row, stage + A_BYTES + 8 * PITCH * column));
            k.mma_m16n8k16_bf16(sum, left, right, sum);
        }
        if step + STAGES - 1 < STEPS {
            load(k, step + STAGES - 1);
        }
        k.cp_async_commit_group();
    }
    let (row, pair) = (k.shr_u32(lane, 2), k.and_b32(lane, 3));
    let row = k.mad_lo_u32(warp, 16, row);
    let first = k.mad_lo_u32(row, 4 * N, 0);
    let first = k.mad_lo_u32(pair, 8, first);
    let place = k.mad_wide_u32(first, 1, c);
    for (column, [s0, s1, s2, s3]) in (0..).zip(sums) {
        k.st_vector((place, 32 * column), [s0, s1]);
        k.st_vector((place, 32 * column + 8 * 4 * N), [s2, s3]);
    }
}

fn tile_address(k: &mut KernelBuilder, ring: B32, row: B32, half: B32) -> B32 {
    let row = k.mad_lo_u32(row, PITCH, ring);
    k.mad_lo_u32(half, 16, row)
}

/// Small integers, so that sums are exact.
fn numbers(count: u32, factor: u32) -> Vec<bf16> {
    (0..count).map(|i| bf16::from_f32((i * factor % 7) as f32 - 3.0)).collect()
}

pub fn run(
    module: &jhalak_ptx::Module,
    seed: u64,
) -> Result<Vec<f32>, jhalak_ptx::emulator::Report> {
    let mut memory = Memory::new();
    let (a, b) = (memory.alloc(&numbers(M * DEPTH, 5)), memory.alloc(&numbers(N * DEPTH, 3)));
    let c = memory.alloc_uninitialised((4 * M * N) as usize);
    let launch = Launch::new(module, "kernel").block(128).dynamic_shared(STAGES * STAGE_BYTES);
    launch.arg(a).arg(b).arg(c).seed(seed).run(&mut memory)?;
    Ok(memory.read(c, (M * N) as usize).unwrap_or_else(|fault| panic!("{fault}")))
}

#[test]
fn a_ring_of_copies_feeds_a_matrix_product() {
    let module = module(|k| product(k, Without::Nothing));
    let (a, b) = (numbers(M * DEPTH, 5), numbers(N * DEPTH, 3));
    let depth = DEPTH as usize;
    let expected: Vec<f32> = a
        .chunks(depth)
        .flat_map(|row| b.chunks(depth).map(move |column| (row, column)))
        .map(|(row, column)| row.iter().zip(column).map(|(a, b)| a.to_f32() * b.to_f32()).sum())
        .collect();
    for_seeds(|seed| {
        assert_eq!(run(&module, seed)?, expected);
        Ok(())
    });
}
