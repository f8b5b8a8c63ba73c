//! 512-bit vectors.

use std::arch::x86_64::*;

use half::{bf16, f16};

use super::{Avx2, Avx512};
use crate::isa::{EXP2, ExpFactor, Isa, Op, ROUND};

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512vl,avx512bw,avx512dq")]
fn run_avx512<O: Op>(op: O) -> O::Output {
    op.eval()
}

impl Isa for Avx512 {
    type Elem = f32;
    type Vec = __m512;
    const LANES: usize = 16;
    const MR: usize = 12;

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        // SAFETY: the token proves avx512f, here and below.
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    unsafe fn load(self, ptr: *const f32) -> __m512 {
        // SAFETY: the caller's promise, and the token.
        unsafe { _mm512_loadu_ps(ptr) }
    }

    #[inline(always)]
    unsafe fn store(self, ptr: *mut f32, x: __m512) {
        // SAFETY: the caller's promise, and the token.
        unsafe { _mm512_storeu_ps(ptr, x) }
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token.
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token.
        unsafe { _mm512_sub_ps(a, b) }
    }

    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token.
        unsafe { _mm512_mul_ps(a, b) }
    }

    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: the token.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token.
        unsafe { _mm512_max_ps(a, b) }
    }

    #[inline(always)]
    fn zero_unless(self, gate: __m512, x: __m512) -> __m512 {
        // SAFETY: the token. "Not equal" is true for NaN.
        unsafe {
            let keep = _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(gate, _mm512_setzero_ps());
            _mm512_maskz_mov_ps(keep, x)
        }
    }

    #[inline(always)]
    fn exp2_scaled(self, x: __m512, factor: &ExpFactor<__m512>) -> __m512 {
        // SAFETY: the token. max gives its second operand where one is NaN.
        unsafe {
            let x = _mm512_max_ps(factor.lowest, x);
            let round = _mm512_set1_ps(ROUND);
            let shifted = _mm512_fmadd_ps(x, factor.high, round);
            let n = _mm512_sub_ps(shifted, round);
            let f = _mm512_fmsub_ps(x, factor.high, n);
            let f = _mm512_fmadd_ps(x, factor.low, f);
            let mut p = _mm512_set1_ps(EXP2[4]);
            for c in [EXP2[3], EXP2[2], EXP2[1], EXP2[0], 1.0] {
                p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(c));
            }
            let power = _mm512_slli_epi32::<23>(_mm512_castps_si512(shifted));
            _mm512_mul_ps(p, _mm512_castsi512_ps(power))
        }
    }

    #[inline(always)]
    fn reduce_max(self, x: __m512) -> f32 {
        // SAFETY: the token. NaN is passed over because the second operand wins.
        unsafe { _mm512_reduce_max_ps(_mm512_max_ps(x, _mm512_set1_ps(f32::NEG_INFINITY))) }
    }

    #[inline(always)]
    fn reduce_add(self, x: __m512) -> f32 {
        // SAFETY: the token.
        unsafe { _mm512_reduce_add_ps(x) }
    }

    #[inline(always)]
    unsafe fn widen_f16(self, ptr: *const f16) -> __m512 {
        // SAFETY: the caller's promise, and the token.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(ptr.cast())) }
    }

    #[inline(always)]
    unsafe fn widen_bf16(self, ptr: *const bf16) -> __m512 {
        // SAFETY: the caller's promise, and the token.
        unsafe {
            let bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(ptr.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits))
        }
    }

    #[inline(always)]
    unsafe fn narrow_f16(self, ptr: *mut f16, x: __m512) {
        // SAFETY: as above.
        unsafe {
            let x = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x);
            _mm256_storeu_si256(ptr.cast(), x);
        }
    }

    #[inline(always)]
    unsafe fn transpose(
        self,
        src: *const f32,
        src_row: usize,
        dst: *mut f32,
        dst_row: usize,
        count: usize,
    ) {
        // Four quarters; AVX-512 includes AVX2.
        for column in (0..count).step_by(8) {
            for row in [0, 8] {
                // SAFETY: the caller's promise.
                unsafe {
                    let (src, dst) =
                        (src.add(row * src_row + column), dst.add(column * dst_row + row));
                    Avx2(()).transpose(src, src_row, dst, dst_row, 8.min(count - column));
                }
            }
        }
    }

    #[inline(always)]
    fn run<O: Op>(self, op: O) -> O::Output {
        // SAFETY: the token proves the features.
        unsafe { run_avx512(op) }
    }
}
