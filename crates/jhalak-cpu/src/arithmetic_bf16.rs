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
use crate::tile::gemm::{Init, Product};
use crate::tile::gemm_bf16::{PairGemm, PairSoftmaxStep, RoundTile};
use crate::tile::softmax::{SoftmaxRows, SoftmaxStep};

/// Products of bf16 pairs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bf16Pairs(pub(crate) Avx512Bf16);

const NR: usize = Avx512Bf16::NR;

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
        let (values, padding) = dst.split_at_mut(q.cols());
        for (c, x) in values.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            *x = unsafe { read(q, row, c) };
        }
        padding.fill(bf16::ZERO);
    }

    unsafe fn pack_keys(
        self,
        k: &Matrix<'_>,
        first: usize,
        count: usize,
        _scratch: &mut [f32],
        dst: &mut [bf16],
    ) {
        for (pair, dst) in dst.chunks_exact_mut(2 * NR).enumerate() {
            for (lane, dst) in dst.chunks_exact_mut(2).enumerate() {
                for (half, x) in dst.iter_mut().enumerate() {
                    let c = 2 * pair + half;
                    *x = if lane < count && c < k.cols() {
                        // SAFETY: the caller's promise.
                        unsafe { read(k, first + lane, c) }
                    } else {
                        bf16::ZERO
                    };
                }
            }
        }
    }

    unsafe fn pack_values(
        self,
        v: &Matrix<'_>,
        first: usize,
        count: usize,
        _scratch: &mut [f32],
        dst: &mut [bf16],
    ) -> bool {
        let panel = count.next_multiple_of(2) * NR;
        let mut usual = true;
        for (p, dst) in dst.chunks_exact_mut(panel).enumerate() {
            for (at, x) in dst.iter_mut().enumerate() {
                let (n, c) = (at / (2 * NR) * 2 + at % 2, p * NR + at % (2 * NR) / 2);
                *x = if n < count && c < v.cols() {
                    // SAFETY: the caller's promise.
                    unsafe { read(v, first + n, c) }
                } else {
                    bf16::ZERO
                };
                let exponent = x.to_bits() & 0x7F80;
                let subnormal = exponent == 0 && x.to_bits() & 0x7F != 0;
                usual &= exponent != 0x7F80 && !subnormal;
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

/// # Safety
/// Host memory of bf16; the element lies inside the matrix.
#[inline(always)]
unsafe fn read(matrix: &Matrix<'_>, row: usize, col: usize) -> bf16 {
    debug_assert_eq!(matrix.dtype(), DType::BF16);
    // SAFETY: the caller's promise.
    unsafe { matrix.element_ptr(row, col).cast::<bf16>().read_unaligned() }
}
