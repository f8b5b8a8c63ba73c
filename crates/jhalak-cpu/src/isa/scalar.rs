//! [`Scalar`]: portable code, a small array as the vector; f32 for any CPU, f64 everywhere.

use std::marker::PhantomData;

use super::{EXP2, ExpFactor, Float, Isa, Op, ROUND};

/// Portable instructions on f32 or f64.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scalar<E>(PhantomData<E>);

impl<E> Scalar<E> {
    pub(crate) fn new() -> Self {
        Scalar(PhantomData)
    }
}

/// What differs between the element types.
pub(crate) trait ScalarExp2: Float {
    /// 2^((high + low)·x) for x of at most 0, with x kept above `lowest`.
    fn scalar_exp2(self, high: Self, low: Self, lowest: Self) -> Self;
}

impl ScalarExp2 for f32 {
    /// The vector algorithm, one element at a time.
    #[inline(always)]
    fn scalar_exp2(self, high: f32, low: f32, lowest: f32) -> f32 {
        let x = if self < lowest { lowest } else { self };
        let shifted = x * high + ROUND;
        let n = shifted - ROUND;
        // In place of fused multiply-add: the product of two f32 numbers is exact in f64.
        let f = (f64::from(x) * (f64::from(high) + f64::from(low)) - f64::from(n)) as f32;
        let [c1, c2, c3, c4, c5] = EXP2;
        let p = 1.0 + f * (c1 + f * (c2 + f * (c3 + f * (c4 + f * c5))));
        p * f32::from_bits(shifted.to_bits() << 23)
    }
}

impl ScalarExp2 for f64 {
    #[inline(always)]
    fn scalar_exp2(self, high: f64, _low: f64, _lowest: f64) -> f64 {
        (self * high).exp2()
    }
}

/// Elements of the array that stands for a vector.
const LANES: usize = 8;

#[inline(always)]
fn map2<E: Float>(a: [E; LANES], b: [E; LANES], f: impl Fn(E, E) -> E) -> [E; LANES] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

impl<E: ScalarExp2> Isa for Scalar<E> {
    type Elem = E;
    type Vec = [E; LANES];
    const LANES: usize = LANES;
    const MR: usize = 2;

    #[inline(always)]
    fn splat(self, x: E) -> [E; LANES] {
        [x; LANES]
    }

    #[inline(always)]
    unsafe fn load(self, ptr: *const E) -> [E; LANES] {
        // SAFETY: the caller's promise.
        unsafe { ptr.cast::<[E; LANES]>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(self, ptr: *mut E, x: [E; LANES]) {
        // SAFETY: the caller's promise.
        unsafe { ptr.cast::<[E; LANES]>().write_unaligned(x) }
    }

    #[inline(always)]
    fn add(self, a: [E; LANES], b: [E; LANES]) -> [E; LANES] {
        map2(a, b, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, a: [E; LANES], b: [E; LANES]) -> [E; LANES] {
        map2(a, b, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, a: [E; LANES], b: [E; LANES]) -> [E; LANES] {
        map2(a, b, |a, b| a * b)
    }

    #[inline(always)]
    fn fma(self, a: [E; LANES], b: [E; LANES], c: [E; LANES]) -> [E; LANES] {
        // Two roundings: without the instruction, one rounding is a slow library call.
        std::array::from_fn(|i| a[i] * b[i] + c[i])
    }

    #[inline(always)]
    fn max(self, a: [E; LANES], b: [E; LANES]) -> [E; LANES] {
        map2(a, b, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn zero_unless(self, gate: [E; LANES], x: [E; LANES]) -> [E; LANES] {
        map2(gate, x, |gate, x| if gate == E::ZERO { E::ZERO } else { x })
    }

    #[inline(always)]
    fn exp2_scaled(self, x: [E; LANES], factor: &ExpFactor<[E; LANES]>) -> [E; LANES] {
        let ExpFactor { high, low, lowest } = factor;
        x.map(|x| x.scalar_exp2(high[0], low[0], lowest[0]))
    }

    #[inline(always)]
    fn reduce_max(self, x: [E; LANES]) -> E {
        x.into_iter().fold(E::NEG_INFINITY, |max, x| if x > max { x } else { max })
    }

    #[inline(always)]
    fn reduce_add(self, x: [E; LANES]) -> E {
        let pairs: [E; 4] = std::array::from_fn(|i| x[i] + x[i + 4]);
        (pairs[0] + pairs[2]) + (pairs[1] + pairs[3])
    }

    #[inline(always)]
    fn run<O: Op>(self, op: O) -> O::Output {
        op.eval()
    }
}
