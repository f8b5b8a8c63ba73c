//! [`Bf16Pairs`]: bf16 tensors multiplied as they are, two steps of the sum per instruction.
//!
//! Operands stay bf16 and are interleaved in pairs along the summed dimension; scores, sums and
//! outputs are f32. Weights are rounded to bf16 before they meet the values, as the bf16 of any
//! other attention is.
//!
//! ```text
//! queries  rows [D / 2][2]            keys    panels [D / 2][NR][2], lane = key
//! weights  rows [keys / 2][2]         values  panels [keys of a block / 2][NR][2]
//! ```
//!
//! The instruction takes subnormal numbers for 0. In scores that is nothing; values that small are
//! told apart when they are packed, and computed pair by pair.

use half::bf16;
use jhalak_problem::{DType, Matrix};

use crate::arithmetic::{Arithmetic, TileShape};
use crate::isa::{Avx512Bf16, Isa};
use crate::pack::transpose_panel;
use crate::tile::gemm::{Init, Product};
use crate::tile::gemm_bf16::{PairGemm, PairSoftmaxStep, RoundTile};
use crate::tile::softmax::{SoftmaxRows, SoftmaxStep};

/// Products of bf16 pairs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bf16Pairs(pub(crate) Avx512Bf16);

const NR: usize = Avx512Bf16::NR;
const LANES: usize = Avx512Bf16::LANES;

impl Arithmetic for Bf16Pairs {
    type Isa = Avx512Bf16;
    type Operand = bf16;

    fn isa(self) -> Avx512Bf16 {
        self.0
    }

    fn pad_keys(keys: usize) -> usize {
        // Weights are rounded two vectors at a time.
        keys.next_multiple_of(NR)
    }

    fn query_stride(head_dim: usize) -> usize {
        head_dim.next_multiple_of(2)
    }

    fn key_panel(head_dim: usize) -> usize {
        head_dim.next_multiple_of(2) * NR
    }

    fn weights(elements: usize) -> usize {
        elements
    }

    unsafe fn pack_query(self, q: &Matrix<'_>, row: usize, dst: &mut [bf16]) {
        // SAFETY: the caller's promise.
        unsafe { read_row(q, row, dst) };
    }

    unsafe fn pack_keys(
        self,
        k: &Matrix<'_>,
        first: usize,
        count: usize,
        scratch: &mut [f32],
        dst: &mut [bf16],
    ) {
        let row = k.cols().next_multiple_of(2);
        // SAFETY: the scratch holds NR padded rows of f32, so as many of bf16 twice over; zeros in
        // it are numbers of either type.
        let rows = unsafe { as_bf16(scratch) };
        let stride = (row / 2).next_multiple_of(LANES);
        for (lane, dst) in rows.chunks_exact_mut(2 * stride).take(count).enumerate() {
            // SAFETY: the caller's promise.
            unsafe { read_row(k, first + lane, &mut dst[..row]) };
        }
        // A pair of bf16 moves as one f32 does.
        let panel = dst.as_mut_ptr().cast::<f32>();
        // SAFETY: a panel holds NR pairs for each pair of columns.
        let panel = unsafe { std::slice::from_raw_parts_mut(panel, row / 2 * NR) };
        transpose_panel(self.0, scratch, count, stride, row / 2, panel);
    }

    unsafe fn pack_values(
        self,
        v: &Matrix<'_>,
        first: usize,
        count: usize,
        scratch: &mut [f32],
        dst: &mut [bf16],
    ) -> bool {
        let panel = count.next_multiple_of(2) * NR;
        // SAFETY: the scratch holds more than two rows of bf16.
        let (even, rest) = unsafe { as_bf16(scratch) }.split_at_mut(v.cols());
        let odd = &mut rest[..v.cols()];
        let mut usual = true;
        for n in (0..count).step_by(2) {
            // SAFETY: the caller's promise.
            unsafe {
                read_row(v, first + n, even);
                if n + 1 < count {
                    read_row(v, first + n + 1, odd);
                } else {
                    odd.fill(bf16::ZERO);
                }
            }
            usual &= all_usual(even) && all_usual(odd);
            for (p, (even, odd)) in even.chunks(NR).zip(odd.chunks(NR)).enumerate() {
                let dst = &mut dst[p * panel + n * NR..][..2 * NR];
                let (pairs, padding) = dst.split_at_mut(2 * even.len());
                for (pair, (&a, &b)) in pairs.chunks_exact_mut(2).zip(even.iter().zip(odd)) {
                    pair[0] = a;
                    pair[1] = b;
                }
                padding.fill(bf16::ZERO);
            }
        }
        usual
    }

    unsafe fn scores(
        self,
        shape: TileShape,
        head_dim: usize,
        queries: *const bf16,
        keys: *const bf16,
        s: *mut f32,
    ) {
        let product = PairGemm {
            isa: self.0,
            rows: shape.rows,
            cols: shape.cols,
            pairs: head_dim.div_ceil(2),
            a: queries,
            a_row: Self::query_stride(head_dim),
            b: keys,
            b_panel: Self::key_panel(head_dim),
            b_row: 2 * NR,
            c: Product { ptr: s, row: shape.stride },
            init: Init::Zero,
        };
        // SAFETY: the caller's promise.
        unsafe { product.run() }
    }

    unsafe fn softmax(
        self,
        shape: TileShape,
        factor: f64,
        s: *mut f32,
        weights: *mut bf16,
        state: SoftmaxRows<f32>,
        final_weights: bool,
    ) {
        let TileShape { rows, cols, stride } = shape;
        let step = SoftmaxStep { isa: self.0, rows, cols, s, stride, factor, state };
        // SAFETY: the caller's promise.
        unsafe {
            if final_weights {
                PairSoftmaxStep { step, weights }.run();
            } else {
                step.run();
            }
        }
    }

    unsafe fn round_weights(self, shape: TileShape, s: *const f32, weights: *mut bf16) {
        let TileShape { rows, cols, stride } = shape;
        // SAFETY: the caller's promise.
        unsafe { RoundTile { isa: self.0, rows, cols, s, weights, stride }.run() }
    }

    unsafe fn accumulate(
        self,
        shape: TileShape,
        keys: usize,
        block_keys: usize,
        head_dim_v: usize,
        _s: *const f32,
        weights: *const bf16,
        values: *const bf16,
        alpha: *const f32,
        o: *mut f32,
    ) {
        let cols = Avx512Bf16::pad(head_dim_v);
        let product = PairGemm {
            isa: self.0,
            rows: shape.rows,
            cols,
            pairs: keys.div_ceil(2),
            a: weights,
            a_row: shape.stride,
            b: values,
            b_panel: block_keys * NR,
            b_row: 2 * NR,
            c: Product { ptr: o, row: cols },
            init: Init::Scale(alpha),
        };
        // SAFETY: the caller's promise.
        unsafe { product.run() }
    }
}

/// Reads a row and fills `dst` up with zeros.
///
/// # Safety
/// Host memory of bf16; the row lies inside the matrix.
#[inline(always)]
unsafe fn read_row(matrix: &Matrix<'_>, row: usize, dst: &mut [bf16]) {
    debug_assert_eq!(matrix.dtype(), DType::BF16);
    let (values, padding) = dst.split_at_mut(matrix.cols());
    let (src, stride) = (matrix.element_ptr(row, 0).cast::<bf16>(), matrix.col_stride());
    // SAFETY: the caller's promise.
    unsafe {
        if stride == 1 {
            for (c, x) in values.iter_mut().enumerate() {
                *x = src.add(c).read_unaligned();
            }
        } else {
            for (c, x) in values.iter_mut().enumerate() {
                *x = src.wrapping_offset(c as isize * stride).read_unaligned();
            }
        }
    }
    padding.fill(bf16::ZERO);
}

/// Whether all are finite, and none is flushed to 0 by the instruction.
fn all_usual(row: &[bf16]) -> bool {
    row.iter().fold(true, |usual, x| {
        let (exponent, fraction) = (x.to_bits() & 0x7F80, x.to_bits() & 0x7F);
        usual & (exponent != 0x7F80) & ((exponent != 0) | (fraction == 0))
    })
}

/// # Safety
/// The caller takes care of what the bits mean.
unsafe fn as_bf16(x: &mut [f32]) -> &mut [bf16] {
    let (ptr, len) = (x.as_mut_ptr().cast::<bf16>(), 2 * x.len());
    // SAFETY: the same bytes; bf16 is less aligned, and any bits are a number.
    unsafe { std::slice::from_raw_parts_mut(ptr, len) }
}
