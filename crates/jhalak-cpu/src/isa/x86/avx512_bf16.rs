//! 512-bit vectors, beside products of bf16 pairs.

use std::arch::x86_64::*;

use half::{bf16, f16};

use super::{Avx512, Avx512Bf16};
use crate::isa::{ExpFactor, Isa, Op};

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512vl,avx512bw,avx512dq,avx512bf16")]
fn run_avx512_bf16<O: Op>(op: O) -> O::Output {
    op.eval()
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
    unsafe fn widen_bf16(self, ptr: *const bf16) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { self.0.widen_bf16(ptr) }
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
