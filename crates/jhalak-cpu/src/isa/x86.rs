//! x86-64 tokens: [`Avx2`], [`Avx512`] and [`Avx512Bf16`].

use std::arch::x86_64::*;

use half::f16;

use super::{EXP2, ExpFactor, Isa, Op};

/// 256-bit vectors with fused multiply-add.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

/// 512-bit vectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

/// 512-bit vectors, and products of bf16 pairs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512Bf16(Avx512);

impl Avx2 {
    pub(crate) fn new() -> Option<Self> {
        (is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c"))
        .then_some(Avx2(()))
    }
}

impl Avx512 {
    pub(crate) fn new() -> Option<Self> {
        (Avx2::new().is_some()
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq"))
        .then_some(Avx512(()))
    }
}

impl Avx512Bf16 {
    pub(crate) fn new() -> Option<Self> {
        is_x86_feature_detected!("avx512bf16").then(Avx512::new).flatten().map(Avx512Bf16)
    }

    /// Adds the products of 16 bf16 pairs: acc[i] + a[2i]·b[2i] + a[2i + 1]·b[2i + 1].
    #[inline(always)]
    pub(crate) fn dot_pairs(self, acc: __m512, a: __m512i, b: __m512i) -> __m512 {
        // SAFETY: the token proves avx512bf16; both types are 512 bits.
        unsafe {
            _mm512_dpbf16_ps(
                acc,
                std::mem::transmute::<__m512i, __m512bh>(a),
                std::mem::transmute::<__m512i, __m512bh>(b),
            )
        }
    }

    /// 32 numbers rounded to bf16, `low` first.
    #[inline(always)]
    pub(crate) fn round_to_bf16(self, low: __m512, high: __m512) -> __m512i {
        // SAFETY: the token proves avx512bf16; the second operand fills the low half.
        unsafe { std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low)) }
    }

    /// One bf16 pair, given as 32 bits, in all 16 places.
    #[inline(always)]
    pub(crate) fn splat_pair(self, pair: i32) -> __m512i {
        // SAFETY: the token proves avx512f.
        unsafe { _mm512_set1_epi32(pair) }
    }

    /// 32 bf16 numbers.
    ///
    /// # Safety
    /// 64 bytes from `ptr` on are readable; any alignment.
    #[inline(always)]
    pub(crate) unsafe fn load_pairs(self, ptr: *const half::bf16) -> __m512i {
        // SAFETY: the caller's promise, and the token.
        unsafe { _mm512_loadu_si512(ptr.cast()) }
    }

    /// Writes 32 bf16 numbers.
    ///
    /// # Safety
    /// 64 bytes from `ptr` on are writable; any alignment.
    #[inline(always)]
    pub(crate) unsafe fn store_pairs(self, ptr: *mut half::bf16, x: __m512i) {
        // SAFETY: the caller's promise, and the token.
        unsafe { _mm512_storeu_si512(ptr.cast(), x) }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn run_avx2<O: Op>(op: O) -> O::Output {
    op.eval()
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512vl,avx512bw,avx512dq")]
fn run_avx512<O: Op>(op: O) -> O::Output {
    op.eval()
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512vl,avx512bw,avx512dq,avx512bf16")]
fn run_avx512_bf16<O: Op>(op: O) -> O::Output {
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
        // SAFETY: the token. min and max give their second operand where one is NaN.
        unsafe {
            // Adding it rounds to an integer, which is then in the low bits.
            let round = _mm256_set1_ps(12_582_912.0);
            let x = _mm256_max_ps(factor.lowest, x);
            let x = _mm256_min_ps(factor.highest, x);
            let shifted = _mm256_fmadd_ps(x, factor.high, round);
            let n = _mm256_sub_ps(shifted, round);
            let f = _mm256_fmsub_ps(x, factor.high, n);
            let f = _mm256_fmadd_ps(x, factor.low, f);
            let mut p = _mm256_set1_ps(EXP2[4]);
            for c in [EXP2[3], EXP2[2], EXP2[1], EXP2[0], 1.0] {
                p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(c));
            }
            let power = _mm256_slli_epi32::<23>(_mm256_castps_si256(shifted));
            let power = _mm256_add_epi32(power, _mm256_set1_epi32(127 << 23));
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
        // SAFETY: the token. min and max give their second operand where one is NaN.
        unsafe {
            let x = _mm512_max_ps(factor.lowest, x);
            let x = _mm512_min_ps(factor.highest, x);
            // Adding it rounds to an integer.
            let round = _mm512_set1_ps(12_582_912.0);
            let n = _mm512_sub_ps(_mm512_fmadd_ps(x, factor.high, round), round);
            let f = _mm512_fmsub_ps(x, factor.high, n);
            let f = _mm512_fmadd_ps(x, factor.low, f);
            let mut p = _mm512_set1_ps(EXP2[4]);
            for c in [EXP2[3], EXP2[2], EXP2[1], EXP2[0], 1.0] {
                p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(c));
            }
            // Below 2^-126 the result would be subnormal: it is 0. True for NaN.
            let normal = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(n, _mm512_set1_ps(-126.0));
            _mm512_maskz_scalef_ps(normal, p, n)
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

/// Everything in f32 is as for [`Avx512`].
impl Isa for Avx512Bf16 {
    type Elem = f32;
    type Vec = __m512;
    const LANES: usize = Avx512::LANES;
    const MR: usize = Avx512::MR;

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        self.0.splat(x)
    }

    #[inline(always)]
    unsafe fn load(self, ptr: *const f32) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { self.0.load(ptr) }
    }

    #[inline(always)]
    unsafe fn store(self, ptr: *mut f32, x: __m512) {
        // SAFETY: the caller's promise.
        unsafe { self.0.store(ptr, x) }
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        self.0.add(a, b)
    }

    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        self.0.sub(a, b)
    }

    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        self.0.mul(a, b)
    }

    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        self.0.fma(a, b, c)
    }

    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        self.0.max(a, b)
    }

    #[inline(always)]
    fn zero_unless(self, gate: __m512, x: __m512) -> __m512 {
        self.0.zero_unless(gate, x)
    }

    #[inline(always)]
    fn exp2_scaled(self, x: __m512, factor: &ExpFactor<__m512>) -> __m512 {
        self.0.exp2_scaled(x, factor)
    }

    #[inline(always)]
    fn reduce_max(self, x: __m512) -> f32 {
        self.0.reduce_max(x)
    }

    #[inline(always)]
    fn reduce_add(self, x: __m512) -> f32 {
        self.0.reduce_add(x)
    }

    #[inline(always)]
    unsafe fn widen_f16(self, ptr: *const f16) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { self.0.widen_f16(ptr) }
    }

    #[inline(always)]
    unsafe fn narrow_f16(self, ptr: *mut f16, x: __m512) {
        // SAFETY: the caller's promise.
        unsafe { self.0.narrow_f16(ptr, x) }
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
        // SAFETY: the caller's promise.
        unsafe { self.0.transpose(src, src_row, dst, dst_row, count) }
    }

    #[inline(always)]
    fn run<O: Op>(self, op: O) -> O::Output {
        // SAFETY: the token proves the features.
        unsafe { run_avx512_bf16(op) }
    }
}
