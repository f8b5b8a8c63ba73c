//! Pairs of f16 and bf16, against the crate `half`.

use half::{bf16, f16};
use jhalak_ptx::{B32, KernelBuilder};

use crate::{evaluate, pairs};

const F16: [f32; 9] = [0.0, 1.0, -2.5, 0.333, 65504.0, -60000.0, 6e-8, 1e-5, 1000.5];

/// A form's name, the form, and what it is before rounding.
type Case = (&'static str, fn(&mut KernelBuilder, [B32; 2]) -> B32, fn(f32, f32) -> f64);

/// Both halves of each input are the same number.
fn check(
    to_bits: fn(f32) -> u16,
    from_bits: fn(u16) -> f32,
    round: fn(f64) -> u16,
    cases: &[Case],
) {
    let words: Vec<u32> = F16.iter().map(|x| 0x1_0001 * u32::from(to_bits(*x))).collect();
    let inputs = pairs(&words);
    for (name, form, expected) in cases {
        for ([a, b], result) in inputs.iter().zip(evaluate(&inputs, form)) {
            let (a, b) = (from_bits(*a as u16), from_bits(*b as u16));
            let expected = u32::from(round(expected(a, b)));
            assert_eq!(result, 0x1_0001 * expected, "{name} of {a}, {b}");
        }
    }
}

#[test]
fn pairs_of_f16_round_once() {
    check(
        |x| f16::from_f32(x).to_bits(),
        |bits| f16::from_bits(bits).to_f32(),
        |x| f16::from_f64(x).to_bits(),
        &[
            ("add", |k, [a, b]| k.add_f16x2(a, b), |a, b| f64::from(a) + f64::from(b)),
            ("sub", |k, [a, b]| k.sub_f16x2(a, b), |a, b| f64::from(a) - f64::from(b)),
            ("mul", |k, [a, b]| k.mul_f16x2(a, b), |a, b| f64::from(a) * f64::from(b)),
            ("max", |k, [a, b]| k.max_f16x2(a, b), |a, b| a.max(b).into()),
            (
                "fma",
                |k, [a, b]| k.fma_f16x2(a, b, b),
                |a, b| f64::from(a) * f64::from(b) + f64::from(b),
            ),
        ],
    );
}

#[test]
fn pairs_of_bf16_round_once() {
    check(
        |x| bf16::from_f32(x).to_bits(),
        |bits| bf16::from_bits(bits).to_f32(),
        |x| bf16::from_f64(x).to_bits(),
        &[
            ("add", |k, [a, b]| k.add_bf16x2(a, b), |a, b| f64::from(a) + f64::from(b)),
            ("mul", |k, [a, b]| k.mul_bf16x2(a, b), |a, b| f64::from(a) * f64::from(b)),
            ("min", |k, [a, b]| k.min_bf16x2(a, b), |a, b| a.min(b).into()),
        ],
    );
}

#[test]
fn a_fused_product_is_not_rounded_on_the_way() {
    // 1.0078125² is half-way between two bf16; the tiny third number decides.
    let word = |x: f32| u32::from(bf16::from_f32(x).to_bits()) * 0x1_0001;
    let inputs = [[word(1.0078125), word(1e-30)], [word(1.0078125), word(-1e-30)]];
    let results = evaluate(&inputs, |k, [a, c]| k.fma_bf16x2(a, a, c));
    let exact = 1.0078125f64 * 1.0078125;
    let (low, high) = (1.015625f32, 1.0234375f32);
    assert!(f64::from(low) < exact && exact < f64::from(high));
    assert_eq!(results, [word(1.015625); 2]);
}
