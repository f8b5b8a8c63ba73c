//! Every kind of matrix product against plain Rust: mma of each type, wgmma of each type and layout.

use half::{bf16, f16};
use jhalak_ptx::emulator::{Launch, Memory};
use jhalak_ptx::{AsyncMemory, B32, B64, F32, KernelBuilder, Major, MatrixLayout, Module};

use crate::module;

/// Element (row, k) of a, and (column, k) of b: small integers.
fn a(row: usize, k: usize) -> f32 {
    ((row * 5 + k * 3) % 7) as f32 - 3.0
}

fn b(column: usize, k: usize) -> f32 {
    ((column * 2 + k * 5) % 5) as f32 - 2.0
}

fn expected(rows: usize, columns: usize, depth: usize) -> Vec<f32> {
    let element =
        |row, column| (0..depth).map(|k| a(row, k) * b(column, k)).sum::<f32>() + row as f32;
    (0..rows).flat_map(|row| (0..columns).map(move |column| element(row, column))).collect()
}

/// A number in a type, as its bits and how many.
type Encode = fn(f32) -> (u32, usize);

const F16: Encode = |x| (f16::from_f32(x).to_bits().into(), 16);
const BF16: Encode = |x| (bf16::from_f32(x).to_bits().into(), 16);
const TF32: Encode = |x| (x.to_bits(), 32);
/// e4m3 of the integers from -3 to 3.
const E4M3: Encode = |x| {
    let size = [0x00, 0x38, 0x40, 0x44][x.abs() as usize];
    (size | if x < 0.0 { 0x80 } else { 0 }, 8)
};

/// Adjacent numbers as words.
fn words(encode: Encode, numbers: impl Iterator<Item = f32>) -> Vec<u32> {
    let encoded: Vec<(u32, usize)> = numbers.map(encode).collect();
    let per_word = 32 / encoded[0].1;
    let word = |numbers: &[(u32, usize)]| {
        numbers.iter().rev().fold(0, |word: u64, (bits, size)| word << size | u64::from(*bits))
    };
    encoded.chunks_exact(per_word).map(|numbers| word(numbers) as u32).collect()
}

/// The fragments come from memory: a as rows of words, b as columns of words.
fn warp_product(
    depth: usize,
    encode: Encode,
    multiply: impl FnOnce(&mut KernelBuilder, [F32; 4], [B32; 4], [B32; 2]),
) {
    let module = module(|k| {
        let [a, b, c] = ["a", "b", "c"].map(|name| k.param_pointer(name, 16));
        let [a, b, c] = [a, b, c].map(|pointer| k.ld_param(pointer));
        let lane = k.tid_x();
        let (group, pair) = (k.shr_u32(lane, 2), k.and_b32(lane, 3));
        let row_words = (depth * encode(0.0).1 / 32) as u32;
        let word = k.mad_lo_u32(group, row_words, pair);
        let [a, b] = [a, b].map(|base| k.mad_wide_u32(word, 4, base));
        let place = |row: u32, half: u32| 4 * (row * row_words + 4 * half);
        let halves = if row_words >= 8 { 2 } else { 1 };
        let left = [(0, 0), (8, 0), (0, 1), (8, 1)]
            .map(|(row, half)| k.ld((a, place(row, half % halves))));
        let right = [0, 1].map(|half| k.ld((b, place(0, half % halves))));
        let number = k.cvt_f32_u32(group);
        let below = k.add_f32(number, 8.0);
        let sums = [number, number, below, below].map(|c| k.mov_f32(c));
        multiply(k, sums, left, right);
        let first = k.mad_lo_u32(group, 8, 0);
        let first = k.mad_lo_u32(pair, 2, first);
        let place = k.mad_wide_u32(first, 4, c);
        k.st_vector(place, [sums[0], sums[1]]);
        k.st_vector((place, 8 * 8 * 4), [sums[2], sums[3]]);
    });
    let mut memory = Memory::new();
    let left = memory.alloc(&words(encode, (0..16).flat_map(|r| (0..depth).map(move |k| a(r, k)))));
    let right = memory.alloc(&words(encode, (0..8).flat_map(|c| (0..depth).map(move |k| b(c, k)))));
    let out = memory.alloc_uninitialised(16 * 8 * 4);
    let launch = Launch::new(&module, "kernel").arg(left).arg(right).arg(out);
    launch.run(&mut memory).unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(memory.read::<f32>(out, 16 * 8).unwrap(), expected(16, 8, depth));
}

#[test]
fn products_of_a_warp_are_exact_for_small_integers() {
    warp_product(8, F16, |k, c, a, b| k.mma_m16n8k8_f16(c, [a[0], a[1]], [b[0]], c));
    warp_product(16, F16, |k, c, a, b| k.mma_m16n8k16_f16(c, a, b, c));
    warp_product(8, BF16, |k, c, a, b| k.mma_m16n8k8_bf16(c, [a[0], a[1]], [b[0]], c));
    warp_product(16, BF16, |k, c, a, b| k.mma_m16n8k16_bf16(c, a, b, c));
    warp_product(4, TF32, |k, c, a, b| k.mma_m16n8k4_tf32(c, [a[0], a[1]], [b[0]], c));
    warp_product(8, TF32, |k, c, a, b| k.mma_m16n8k8_tf32(c, a, b, c));
    warp_product(32, E4M3, |k, c, a, b| k.mma_m16n8k32_e4m3(c, a, b, c));
}

/// A wgmma of 64 × 16 whose tiles are copied word by word to where the layout wants them.
fn warpgroup_product(
    depth: usize,
    layouts: [MatrixLayout; 2],
    tiles: [Vec<u32>; 2],
    multiply: fn(&mut KernelBuilder, &[F32], jhalak_ptx::Descriptor, jhalak_ptx::Descriptor),
) {
    let module: Module = module(|k| {
        k.reqntid(128);
        let [a, b, c] = ["a", "b", "c"].map(|name| k.param_pointer(name, 16));
        let [a, b, c]: [B64; 3] = [a, b, c].map(|pointer| k.ld_param(pointer));
        let thread = k.tid_x();
        let mut descriptors = Vec::new();
        for ((name, from), (layout, tile)) in
            [("tile_a", a), ("tile_b", b)].into_iter().zip(layouts.into_iter().zip(&tiles))
        {
            let region = k.static_shared(name, 4 * tile.len() as u32, 1024);
            let base = k.shared_address(region);
            k.for_range(thread, tile.len() as u32, 128, |k, i| {
                let place = k.mad_wide_u32(i, 4, from);
                let word: B32 = k.ld(place);
                let place = k.mad_lo_u32(i, 4, base);
                k.st(place, word);
            });
            descriptors.push(k.descriptor(region, layout));
        }
        k.fence_proxy_async(AsyncMemory::Shared);
        k.bar_sync_all();
        let (warp, lane) = (k.shr_u32(thread, 5), k.and_b32(thread, 31));
        let (group, pair) = (k.shr_u32(lane, 2), k.and_b32(lane, 3));
        let row = k.mad_lo_u32(warp, 16, group);
        let number = k.cvt_f32_u32(row);
        let below = k.add_f32(number, 8.0);
        let sums: Vec<F32> = [number, number, below, below, number, number, below, below]
            .map(|c| k.mov_f32(c))
            .to_vec();
        k.wgmma_fence();
        multiply(k, &sums, descriptors[0], descriptors[1]);
        k.wgmma_commit_group();
        k.wgmma_wait_group(0);
        let first = k.mad_lo_u32(row, 16, 0);
        let first = k.mad_lo_u32(pair, 2, first);
        let place = k.mad_wide_u32(first, 4, c);
        for (half, quad) in (0..).zip(sums.chunks_exact(4)) {
            k.st_vector((place, 32 * half), [quad[0], quad[1]]);
            k.st_vector((place, 32 * half + 8 * 16 * 4), [quad[2], quad[3]]);
        }
    });
    let mut memory = Memory::new();
    let [left, right] = tiles.map(|tile| memory.alloc(&tile));
    let out = memory.alloc_uninitialised(64 * 16 * 4);
    let launch = Launch::new(&module, "kernel").block(128).arg(left).arg(right).arg(out);
    launch.run(&mut memory).unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(memory.read::<f32>(out, 64 * 16).unwrap(), expected(64, 16, depth));
}

/// Core matrices of 8 rows of 16 bytes: all along k, then the next 8 rows.
fn core_matrices(
    encode: Encode,
    count: usize,
    depth: usize,
    of: fn(usize, usize) -> f32,
) -> Vec<u32> {
    let per_row = 128 / encode(0.0).1;
    let numbers = (0..count / 8).flat_map(|block| {
        (0..depth / per_row).flat_map(move |core| {
            (0..8).flat_map(move |row| {
                (0..per_row).map(move |k| of(8 * block + row, core * per_row + k))
            })
        })
    });
    words(encode, numbers)
}

#[test]
fn unswizzled_core_matrices_may_lie_in_either_direction() {
    // K-major: cores along k are 128 bytes apart, the next 8 rows 256.
    let layout = MatrixLayout::unswizzled(Major::K, 128, 256);
    let tiles = [core_matrices(BF16, 64, 16, a), core_matrices(BF16, 16, 16, b)];
    warpgroup_product(16, [layout; 2], tiles, |k, d, a, b| k.wgmma_bf16(d, a, b, true));
    let tiles = [core_matrices(E4M3, 64, 32, a), core_matrices(E4M3, 16, 32, b)];
    warpgroup_product(32, [layout; 2], tiles, |k, d, a, b| k.wgmma_e4m3(d, a, b, true));
    // MN-major: a core is 8 elements of m by 8 of k.
    let left = core_matrices(F16, 16, 64, |k, row| a(row, k));
    let right = core_matrices(F16, 16, 16, |k, column| b(column, k));
    let layouts = [
        MatrixLayout::unswizzled(Major::Mn, 1024, 128),
        MatrixLayout::unswizzled(Major::Mn, 256, 128),
    ];
    let tiles = [left, right];
    warpgroup_product(16, layouts, tiles, |k, d, a, b| k.wgmma_f16(d, a, b, true));
}

#[test]
fn a_negated_matrix_is_subtracted() {
    let layout = MatrixLayout::unswizzled(Major::K, 128, 256);
    let negated = |row: usize, k: usize| -a(row, k);
    let tiles = [core_matrices(BF16, 64, 16, negated), core_matrices(BF16, 16, 16, b)];
    warpgroup_product(16, [layout; 2], tiles, |k, d, a, b| k.wgmma_bf16(d, -a, b, true));
}
