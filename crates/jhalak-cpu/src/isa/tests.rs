//! Every vector operation of every instruction set against its definition.

use super::*;
use crate::dispatch::for_each_f32_isa;
use crate::kernels::Exp2;

fn exp2_of<I: Isa<Elem = f32>>(isa: I, x: f32) -> f32 {
    let mut lanes = vec![x; I::LANES];
    isa.run(Exp2 { isa, factor: 1.0, x: &mut lanes });
    assert!(lanes.iter().all(|y| y.to_bits() == lanes[0].to_bits()));
    lanes[0]
}

#[test]
fn exp2_is_within_two_and_a_half_ulp_whatever_the_factor() {
    fn check<I: Isa<Elem = f32>>(isa: I) {
        for factor in [1.0, std::f64::consts::LOG2_E, 0.127_517_4, 3e-7, 5e8] {
            // Dense over the exponents, from −1 to 0, and every magnitude down to 2^-30.
            let dense = (0..1 << 19).map(|n| f64::from(n) * (-126.0 / f64::from(1 << 19)));
            let fine = (0..1 << 17).map(|n| f64::from(n) * -2f64.powi(-17));
            let tiny = (0..4000).map(|n| -2f64.powi(-30) * 1.0053f64.powi(n));
            let mut xs: Vec<f32> =
                dense.chain(fine).chain(tiny).map(|e| (e / factor) as f32).collect();
            xs.retain(|&x| (-126.0..=0.0).contains(&(f64::from(x) * factor)));
            xs.resize(xs.len().next_multiple_of(I::LANES), 0.0);
            let mut ys = xs.clone();
            isa.run(Exp2 { isa, factor, x: &mut ys });
            let mut worst = 0f64;
            for (&x, &y) in xs.iter().zip(&ys) {
                let truth = (f64::from(x) * factor).exp2();
                let ulp = 2f64.powi((truth.log2().floor() as i32) - 23);
                worst = worst.max((f64::from(y) - truth).abs() / ulp);
            }
            assert!(worst <= 2.5, "{isa:?}, factor {factor}: {worst} ulp");
        }
    }
    for_each_f32_isa!(check);
}

#[test]
fn exp2_is_total() {
    fn check<I: Isa<Elem = f32>>(isa: I) {
        for zero in [f32::NEG_INFINITY, f32::MIN, -1e9, -200.0, -127.0] {
            assert_eq!(exp2_of(isa, zero).to_bits(), 0, "{isa:?} {zero}");
        }
        for one in [0.0, -0.0, -1e-40] {
            assert_eq!(exp2_of(isa, one), 1.0);
        }
        assert!(exp2_of(isa, f32::NAN).is_nan());
    }
    for_each_f32_isa!(check);
}

struct Reduce<I: Isa> {
    isa: I,
    a: Vec<I::Elem>,
    b: Vec<I::Elem>,
}

impl<I: Isa> Op for Reduce<I> {
    type Output = (I::Elem, I::Elem, Vec<I::Elem>, Vec<I::Elem>);
    #[inline(always)]
    fn eval(self) -> Self::Output {
        let Reduce { isa, a, b } = self;
        let (mut larger, mut gated) = (a.clone(), a.clone());
        // SAFETY: each vector is LANES long.
        unsafe {
            let (x, y) = (isa.load(a.as_ptr()), isa.load(b.as_ptr()));
            isa.store(larger.as_mut_ptr(), isa.max(x, y));
            isa.store(gated.as_mut_ptr(), isa.zero_unless(y, x));
            (isa.reduce_max(x), isa.reduce_add(x), larger, gated)
        }
    }
}

#[test]
fn max_gives_its_second_operand_for_nan_and_reductions_pass_over_it() {
    fn check<I: Isa<Elem = f32>>(isa: I) {
        for lane in 0..I::LANES {
            let mut a: Vec<f32> = (0..I::LANES).map(|n| n as f32 - 40.0).collect();
            let mut b = vec![-35.0; I::LANES];
            b[lane] = f32::NAN;
            let (max, sum, larger, gated) = isa.run(Reduce { isa, a: a.clone(), b: b.clone() });
            assert_eq!(max, I::LANES as f32 - 41.0);
            assert_eq!(sum, a.iter().sum::<f32>());
            assert!(larger[lane].is_nan());
            assert_eq!(gated, a);
            a[lane] = f32::NAN;
            b[lane] = 0.0;
            let (max, sum, larger, gated) = isa.run(Reduce { isa, a, b });
            assert!(!max.is_nan() && sum.is_nan());
            assert_eq!((larger[lane], gated[lane]), (0.0, 0.0));
        }
        let nan = vec![f32::NAN; I::LANES];
        assert_eq!(isa.run(Reduce { isa, a: nan.clone(), b: nan }).0, f32::NEG_INFINITY);
    }
    for_each_f32_isa!(check);
}

struct Halves<'x, I: Isa> {
    isa: I,
    halves: &'x mut [f16],
    wide: &'x mut [I::Elem],
}

impl<I: Isa> Op for Halves<'_, I> {
    type Output = ();
    #[inline(always)]
    fn eval(self) {
        let pairs =
            self.halves.chunks_exact_mut(I::LANES).zip(self.wide.chunks_exact_mut(I::LANES));
        for (halves, wide) in pairs {
            // SAFETY: both chunks are one vector long.
            unsafe {
                let x = self.isa.load(wide.as_ptr());
                self.isa.store(wide.as_mut_ptr(), self.isa.widen_f16(halves.as_ptr()));
                self.isa.narrow_f16(halves.as_mut_ptr(), x);
            }
        }
    }
}

#[test]
fn halves_are_widened_and_rounded_as_defined() {
    fn check<I: Isa>(isa: I) {
        let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        // Each half, and numbers between it and the next: to be rounded down, to even, and up.
        for step in [0u32, 0x0800, 0x1000, 0x1001, 0x1FFF] {
            let near = |x: &f16| f32::from_bits(x.to_f32().to_bits() + step);
            let numbers: Vec<f32> = all.iter().map(near).collect();
            let mut wide: Vec<I::Elem> = numbers.iter().map(|&x| I::Elem::from_f32(x)).collect();
            let mut halves = all.clone();
            isa.run(Halves { isa, halves: &mut halves, wide: &mut wide });
            for (n, &x) in numbers.iter().enumerate() {
                let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
                assert!(same(wide[n].to_f32(), all[n].to_f32()), "{isa:?} {n:#x}");
                let (ours, theirs) = (halves[n].to_f32(), f16::from_f32(x).to_f32());
                assert!(same(ours, theirs), "{isa:?} {x:e}: {ours:e}, not {theirs:e}");
            }
        }
    }
    for_each_f32_isa!(check);
}

struct Brains<'x, I: Isa> {
    isa: I,
    numbers: &'x [bf16],
    wide: &'x mut [I::Elem],
}

impl<I: Isa> Op for Brains<'_, I> {
    type Output = ();
    #[inline(always)]
    fn eval(self) {
        for (numbers, wide) in
            self.numbers.chunks_exact(I::LANES).zip(self.wide.chunks_exact_mut(I::LANES))
        {
            // SAFETY: both chunks are one vector long.
            unsafe { self.isa.store(wide.as_mut_ptr(), self.isa.widen_bf16(numbers.as_ptr())) };
        }
    }
}

#[test]
fn every_bf16_is_widened_to_its_value() {
    fn check<I: Isa>(isa: I) {
        let all: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
        let mut wide = vec![I::Elem::ZERO; all.len()];
        isa.run(Brains { isa, numbers: &all, wide: &mut wide });
        for (x, wide) in all.iter().zip(wide) {
            let (x, wide) = (x.to_f32(), wide.to_f32());
            assert!(x == wide || (x.is_nan() && wide.is_nan()), "{isa:?} {x} {wide}");
            assert_eq!(x.is_sign_negative(), wide.is_sign_negative(), "{isa:?} {x}");
        }
    }
    for_each_f32_isa!(check);
}
