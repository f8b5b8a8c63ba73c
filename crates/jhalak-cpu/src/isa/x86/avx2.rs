//! 256-bit vectors.

use std::arch::x86_64::*;

use half::{bf16, f16};

use super::Avx2;
use crate::isa::{EXP2, ExpFactor, Isa, Op, ROUND};

#[target_feature(enable = "avx2,fma,f16c")]
fn run_avx2<O: Op>(op: O) -> O::Output {
    op.eval()
}

impl Isa for Avx2 {
    type Elem = f32;
    type Vec = __m256;
    const LANES: usize = 8;
    const MR: usize = 6;

    #[inline(always)]
    fn splat(self, x: f32) -> __m256 {
        // SAFETY: the token proves avx2 and fma, here and below.
        unsafe { _mm256_set1_ps(x) }
    }

    #[inline(always)]
    unsafe fn load(self, ptr: *const f32) -> __m256 {
        // SAFETY: the caller's promise, and the token.
        unsafe { _mm256_loadu_ps(ptr) }
    }

    #[inline(always)]
    unsafe fn store(self, ptr: *mut f32, x: __m256) {
        // SAFETY: the caller's promise, and the token.
        unsafe { _mm256_storeu_ps(ptr, x) }
    }

    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the token.
        unsafe { _mm256_add_ps(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the token.
        unsafe { _mm256_sub_ps(a, b) }
    }

    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the token.
        unsafe { _mm256_mul_ps(a, b) }
    }

    #[inline(always)]
    fn fma(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: the token.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn max(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the token.
        unsafe { _mm256_max_ps(a, b) }
    }

    #[inline(always)]
    fn zero_unless(self, gate: __m256, x: __m256) -> __m256 {
        // SAFETY: the token. "Not equal" is true for NaN.
        unsafe { _mm256_and_ps(_mm256_cmp_ps::<_CMP_NEQ_UQ>(gate, _mm256_setzero_ps()), x) }
    }

    #[inline(always)]
    fn exp2_scaled(self, x: __m256, factor: &ExpFactor<__m256>) -> __m256 {
        // SAFETY: the token. max gives its second operand where one is NaN.
        unsafe {
            let x = _mm256_max_ps(factor.lowest, x);
            let round = _mm256_set1_ps(ROUND);
            let shifted = _mm256_fmadd_ps(x, factor.high, round);
            let n = _mm256_sub_ps(shifted, round);
            let f = _mm256_fmsub_ps(x, factor.high, n);
            let f = _mm256_fmadd_ps(x, factor.low, f);
            let mut p = _mm256_set1_ps(EXP2[4]);
            for c in [EXP2[3], EXP2[2], EXP2[1], EXP2[0], 1.0] {
                p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(c));
            }
            let power = _mm256_slli_epi32::<23>(_mm256_castps_si256(shifted));
            _mm256_mul_ps(p, _mm256_castsi256_ps(power))
        }
    }

    #[inline(always)]
    fn reduce_max(self, x: __m256) -> f32 {
        // SAFETY: the token. NaN is passed over because the second operand wins.
        unsafe {
            let x = _mm256_max_ps(x, _mm256_set1_ps(f32::NEG_INFINITY));
            let x = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
            let x = _mm_max_ps(x, _mm_movehl_ps(x, x));
            _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)))
        }
    }

    #[inline(always)]
    fn reduce_add(self, x: __m256) -> f32 {
        // SAFETY: the token.
        unsafe {
            let x = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
            let x = _mm_add_ps(x, _mm_movehl_ps(x, x));
            _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)))
        }
    }

    #[inline(always)]
    unsafe fn widen_f16(self, ptr: *const f16) -> __m256 {
        // SAFETY: the caller's promise, and the token, which proves f16c.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(ptr.cast())) }
    }

    #[inline(always)]
    unsafe fn widen_bf16(self, ptr: *const bf16) -> __m256 {
        // SAFETY: the caller's promise, and the token.
        unsafe {
            let bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(ptr.cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits))
        }
    }

    #[inline(always)]
    unsafe fn narrow_f16(self, ptr: *mut f16, x: __m256) {
        // SAFETY: as above.
        unsafe {
            let x = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x);
            _mm_storeu_si128(ptr.cast(), x);
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
        // SAFETY: the caller's promise, and the token.
        unsafe {
            let row = |n: usize| _mm256_loadu_ps(src.add(n * src_row));
            // Pairs of rows, then fours, then both halves of the vectors.
            let pairs: [[__m256; 2]; 4] = std::array::from_fn(|n| {
                let (a, b) = (row(2 * n), row(2 * n + 1));
                [_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b)]
            });
            let mut fours = [[_mm256_setzero_ps(); 4]; 2];
            for (half, fours) in fours.iter_mut().enumerate() {
                for side in 0..2 {
                    let (a, b) = (pairs[2 * half][side], pairs[2 * half + 1][side]);
                    fours[2 * side] = _mm256_shuffle_ps::<0b01_00_01_00>(a, b);
                    fours[2 * side + 1] = _mm256_shuffle_ps::<0b11_10_11_10>(a, b);
                }
            }
            let columns: [__m256; 8] = std::array::from_fn(|n| {
                let (a, b) = (fours[0][n % 4], fours[1][n % 4]);
                if n < 4 {
                    _mm256_permute2f128_ps::<0x20>(a, b)
                } else {
                    _mm256_permute2f128_ps::<0x31>(a, b)
                }
            });
            for (n, &x) in columns.iter().enumerate() {
                if n < count {
                    _mm256_storeu_ps(dst.add(n * dst_row), x);
                }
            }
        }
    }

    #[inline(always)]
    fn run<O: Op>(self, op: O) -> O::Output {
        // SAFETY: the token proves the features.
        unsafe { run_avx2(op) }
    }
}
