//! Instruction sets: tokens that exist only where the CPU has the feature.
//!
//! An algorithm is written once over [`Isa`], safe and without a word about features. It reaches
//! the CPU's vectors through [`Isa::run`], the only place with `#[target_feature]`: what is
//! inlined into it is compiled for the feature. So every hot loop is an [`Op`] whose `eval` is
//! `#[inline(always)]`; a generic function that is merely called would fall back to calls of
//! single instructions. (The manner of the pulp and rten-simd crates.)
//!
//! ```text
//! dispatch on IsaKind, once per call ──▶ engine generic over I: Isa ──▶ isa.run(Op) per tile
//! ```

mod kind;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::fmt::Debug;
use std::ops::{Add, Mul, Neg, Sub};

use half::{bf16, f16};
pub use kind::IsaKind;
pub(crate) use scalar::Scalar;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512, Avx512Bf16};

use crate::memory::Zeroable;

/// Element types that scores are computed in.
pub(crate) trait Float:
    Zeroable
    + Debug
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Neg<Output = Self>
    + 'static
{
    const ZERO: Self;
    const ONE: Self;
    const NEG_INFINITY: Self;
    fn from_f32(x: f32) -> Self;
    fn from_f64(x: f64) -> Self;
    fn to_f32(self) -> f32;
    fn to_f64(self) -> f64;
    fn is_finite(self) -> bool;
}

macro_rules! float {
    ($ty:ty) => {
        impl Float for $ty {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const NEG_INFINITY: Self = <$ty>::NEG_INFINITY;
            #[inline(always)]
            fn from_f32(x: f32) -> Self {
                x as $ty
            }
            #[inline(always)]
            fn from_f64(x: f64) -> Self {
                x as $ty
            }
            #[inline(always)]
            fn to_f32(self) -> f32 {
                self as f32
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn is_finite(self) -> bool {
                self.is_finite()
            }
        }
    };
}

float!(f32);
float!(f64);

/// Work that [`Isa::run`] compiles for an instruction set. `eval` must be `#[inline(always)]`.
pub(crate) trait Op {
    type Output;
    fn eval(self) -> Self::Output;
}

/// A set of instructions. A value of the type is the proof that the CPU has them.
pub(crate) trait Isa: Copy + Send + Sync + Debug + 'static {
    /// The element type.
    type Elem: Float;
    /// A vector of [`LANES`](Self::LANES) elements.
    type Vec: Copy;
    const LANES: usize;
    /// Rows of the register tile; its accumulators, two vectors per row, fill the registers.
    const MR: usize;
    /// Columns of the register tile: two vectors.
    const NR: usize = 2 * Self::LANES;

    /// `n` rounded up to whole vectors.
    #[inline(always)]
    fn pad(n: usize) -> usize {
        n.next_multiple_of(Self::LANES)
    }

    fn splat(self, x: Self::Elem) -> Self::Vec;
    /// # Safety
    /// [`LANES`](Self::LANES) elements from `ptr` on are readable; any alignment.
    unsafe fn load(self, ptr: *const Self::Elem) -> Self::Vec;
    /// # Safety
    /// [`LANES`](Self::LANES) elements from `ptr` on are writable; any alignment.
    unsafe fn store(self, ptr: *mut Self::Elem, x: Self::Vec);
    fn add(self, a: Self::Vec, b: Self::Vec) -> Self::Vec;
    fn sub(self, a: Self::Vec, b: Self::Vec) -> Self::Vec;
    fn mul(self, a: Self::Vec, b: Self::Vec) -> Self::Vec;
    /// a·b + c, rounded once where the CPU can.
    fn fma(self, a: Self::Vec, b: Self::Vec, c: Self::Vec) -> Self::Vec;
    /// The larger; `b` where either is NaN.
    fn max(self, a: Self::Vec, b: Self::Vec) -> Self::Vec;
    /// `x` where `gate` is not 0 (NaN included), else 0.
    fn zero_unless(self, gate: Self::Vec, x: Self::Vec) -> Self::Vec;
    /// 2^(factor·x) for x of at most 0: to 2.5 ulp of the exact product's power where the product is
    /// from −126 up; 0 from −127 down, NaN for NaN. Exactly 1 for 0. In the gap a result may be
    /// subnormal or 0.
    fn exp2_scaled(self, x: Self::Vec, factor: &ExpFactor<Self::Vec>) -> Self::Vec;
    /// The largest element; elements that are NaN are passed over.
    fn reduce_max(self, x: Self::Vec) -> Self::Elem;
    fn reduce_add(self, x: Self::Vec) -> Self::Elem;

    /// A vector of f16 numbers, widened.
    ///
    /// # Safety
    /// [`LANES`](Self::LANES) numbers of 16 bits from `ptr` on are readable; any alignment.
    #[inline(always)]
    unsafe fn widen_f16(self, ptr: *const f16) -> Self::Vec {
        let mut wide = [Self::Elem::ZERO; MAX_LANES];
        for (n, x) in wide.iter_mut().enumerate().take(Self::LANES) {
            // SAFETY: the caller's promise.
            *x = Self::Elem::from_f32(unsafe { ptr.add(n).read_unaligned() }.to_f32());
        }
        // SAFETY: the array holds a vector.
        unsafe { self.load(wide.as_ptr()) }
    }

    /// A vector of bf16 numbers, widened.
    ///
    /// # Safety
    /// [`LANES`](Self::LANES) numbers of 16 bits from `ptr` on are readable; any alignment.
    #[inline(always)]
    unsafe fn widen_bf16(self, ptr: *const bf16) -> Self::Vec {
        let mut wide = [Self::Elem::ZERO; MAX_LANES];
        for (n, x) in wide.iter_mut().enumerate().take(Self::LANES) {
            // SAFETY: the caller's promise.
            *x = Self::Elem::from_f32(unsafe { ptr.add(n).read_unaligned() }.to_f32());
        }
        // SAFETY: the array holds a vector.
        unsafe { self.load(wide.as_ptr()) }
    }

    /// Writes a vector as f16 numbers, rounded to nearest even.
    ///
    /// # Safety
    /// [`LANES`](Self::LANES) numbers of 16 bits from `ptr` on are writable; any alignment.
    #[inline(always)]
    unsafe fn narrow_f16(self, ptr: *mut f16, x: Self::Vec) {
        let mut wide = [Self::Elem::ZERO; MAX_LANES];
        // SAFETY: the array holds a vector; the caller's promise.
        unsafe {
            self.store(wide.as_mut_ptr(), x);
            for (n, x) in wide.iter().enumerate().take(Self::LANES) {
                ptr.add(n).write_unaligned(f16::from_f32(x.to_f32()));
            }
        }
    }

    /// Writes the first `count` (at most LANES) columns of a block of LANES × LANES elements as
    /// rows.
    ///
    /// # Safety
    /// The block's rows, `src_row` elements apart, are readable and `count` vectors, `dst_row`
    /// apart, writable.
    #[inline(always)]
    unsafe fn transpose(
        self,
        src: *const Self::Elem,
        src_row: usize,
        dst: *mut Self::Elem,
        dst_row: usize,
        count: usize,
    ) {
        for column in 0..count {
            for row in 0..Self::LANES {
                // SAFETY: the caller's promise.
                unsafe { *dst.add(column * dst_row + row) = *src.add(row * src_row + column) };
            }
        }
    }

    /// Runs `op` compiled for these instructions.
    fn run<O: Op>(self, op: O) -> O::Output;
}

/// The longest vector of any instruction set.
pub(crate) const MAX_LANES: usize = 16;

/// A factor inside a power of two, in two parts: rounding it to one, or its product with x, would
/// cost as many ulp of the power as the exponent is large.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpFactor<V> {
    high: V,
    low: V,
    /// x is kept above it: −127 over the factor.
    lowest: V,
}

impl<V> ExpFactor<V> {
    /// `factor` must be above [`SMALLEST_FACTOR`].
    #[inline(always)]
    pub(crate) fn new<I: Isa<Vec = V>>(isa: I, factor: f64) -> Self {
        let high = I::Elem::from_f64(factor);
        ExpFactor {
            high: isa.splat(high),
            low: isa.splat(I::Elem::from_f64(factor - high.to_f64())),
            lowest: isa.splat(I::Elem::from_f64(-127.0 / factor)),
        }
    }
}

/// Below it, the bound of an [`ExpFactor`] is no finite f32 number.
pub(crate) const SMALLEST_FACTOR: f64 = 1e-30;

/// Adding it to a number from −127 to 0 rounds that to an integer n. The low bits of the sum are then
/// n + 127, the exponent's bits of 2^n: all 0 for −127.
pub(crate) const ROUND: f32 = 12_582_912.0 + 127.0;

/// 2^f − 1 over f = c₁ + c₂f + … for f in [−½, ½]: a minimax polynomial, 0.8 ulp before rounding.
#[allow(clippy::approx_constant, reason = "c₁ of the best polynomial is close to ln 2, not ln 2")]
#[rustfmt::skip]
pub(crate) const EXP2: [f32; 5] = [
    0.693_147, 0.240_222_42, 0.055_507_337, 0.009_671_513, 0.001_326_472_7,
];

#[cfg(test)]
mod tests;
