//! x86-64 tokens: [`Avx2`], [`Avx512`] and [`Avx512Bf16`].

mod avx2;
mod avx512;
mod avx512_bf16;

use std::arch::x86_64::*;

use half::bf16;

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
    pub(crate) unsafe fn load_pairs(self, ptr: *const bf16) -> __m512i {
        // SAFETY: the caller's promise, and the token.
        unsafe { _mm512_loadu_si512(ptr.cast()) }
    }

    /// Writes 32 bf16 numbers.
    ///
    /// # Safety
    /// 64 bytes from `ptr` on are writable; any alignment.
    #[inline(always)]
    pub(crate) unsafe fn store_pairs(self, ptr: *mut bf16, x: __m512i) {
        // SAFETY: the caller's promise, and the token.
        unsafe { _mm512_storeu_si512(ptr.cast(), x) }
    }
}
