//! Integers, floats, comparisons and selection, against plain Rust.

use std::cmp::Ordering;

use jhalak_ptx::{B32, Comparison, KernelBuilder};

use crate::{evaluate, pairs};

const INTEGERS: [u32; 12] =
    [0, 1, 2, 5, 31, 32, 33, 0x1234_5678, 0x7fff_ffff, 0x8000_0000, 0xffff_fff9, 0xffff_ffff];

/// Zeros, ones, subnormals, the largest and smallest numbers, infinities, NaN.
const FLOATS: [u32; 14] = [
    0,
    0x8000_0000,
    0x3f80_0000,
    0xbf80_0000,
    0x4049_0fdb,
    0xc2f6_e979,
    0x0000_0001,
    0x807f_ffff,
    0x0080_0000,
    0x7f7f_ffff,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0xffff_ffff,
];

/// A form's name, the form, and what it is in Rust.
type Case = (&'static str, fn(&mut KernelBuilder, [B32; 2]) -> B32, fn(u32, u32) -> u32);

fn check_binary(values: &[u32], cases: &[Case]) {
    let inputs = pairs(values);
    for (name, form, expected) in cases {
        for ([a, b], result) in inputs.iter().zip(evaluate(&inputs, form)) {
            assert_eq!(result, expected(*a, *b), "{name} {a:#x}, {b:#x}");
        }
    }
}

#[test]
fn integers_are_those_of_rust_and_long_shifts_give_nothing() {
    check_binary(
        &INTEGERS,
        &[
            ("add", |k, [a, b]| k.add_u32(a, b), u32::wrapping_add),
            ("sub", |k, [a, b]| k.sub_u32(a, b), u32::wrapping_sub),
            ("mul.lo", |k, [a, b]| k.mul_lo_u32(a, b), u32::wrapping_mul),
            (
                "mul.hi.u32",
                |k, [a, b]| k.mul_hi_u32(a, b),
                |a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32,
            ),
            (
                "mul.hi.s32",
                |k, [a, b]| k.mul_hi_s32(a, b),
                |a, b| ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32,
            ),
            ("min.u32", |k, [a, b]| k.min_u32(a, b), u32::min),
            ("max.u32", |k, [a, b]| k.max_u32(a, b), u32::max),
            ("min.s32", |k, [a, b]| k.min_s32(a, b), |a, b| (a as i32).min(b as i32) as u32),
            ("max.s32", |k, [a, b]| k.max_s32(a, b), |a, b| (a as i32).max(b as i32) as u32),
            ("and", |k, [a, b]| k.and_b32(a, b), |a, b| a & b),
            ("or", |k, [a, b]| k.or_b32(a, b), |a, b| a | b),
            ("xor", |k, [a, b]| k.xor_b32(a, b), |a, b| a ^ b),
            ("shl", |k, [a, b]| k.shl_b32(a, b), |a, b| if b < 32 { a << b } else { 0 }),
            ("shr.u32", |k, [a, b]| k.shr_u32(a, b), |a, b| if b < 32 { a >> b } else { 0 }),
            ("shr.s32", |k, [a, b]| k.shr_s32(a, b), |a, b| ((a as i32) >> b.min(31)) as u32),
            ("not", |k, [a, _]| k.not_b32(a), |a, _| !a),
            ("neg", |k, [a, _]| k.neg_s32(a), |a, _| a.wrapping_neg()),
            ("abs", |k, [a, _]| k.abs_s32(a), |a, _| (a as i32).wrapping_abs() as u32),
            ("popc", |k, [a, _]| k.popc_b32(a), |a, _| a.count_ones()),
            ("mad.lo", |k, [a, b]| k.mad_lo_u32(a, b, 7), |a, b| a.wrapping_mul(b).wrapping_add(7)),
            (
                "prmt",
                |k, [a, b]| k.prmt_b32(a, b, 0x9610),
                |a, b| {
                    let sign = if a & 0x8000 == 0 { 0 } else { 0xff };
                    u32::from_le_bytes([a as u8, (a >> 8) as u8, (b >> 16) as u8, sign])
                },
            ),
            ("lop3", |k, [a, b]| k.lop3_b32(a, b, a, 0xe8), |a, _| a),
            (
                "bfe",
                |k, [a, b]| k.bfe_u32(a, b, 8),
                |a, b| if b & 0xff < 32 { a >> (b & 0xff) & 0xff } else { 0 },
            ),
            ("bfi", |k, [a, b]| k.bfi_b32(a, b, 8, 4), |a, b| (b & !0xf00) | ((a & 0xf) << 8)),
        ],
    );
}

#[test]
fn quotients_are_those_of_rust_where_there_are_any() {
    let nonzero: Vec<u32> = INTEGERS[1..].to_vec();
    check_binary(
        &nonzero,
        &[
            ("div.u32", |k, [a, b]| k.div_u32(a, b), |a, b| a / b),
            ("rem.u32", |k, [a, b]| k.rem_u32(a, b), |a, b| a % b),
            (
                "div.s32",
                |k, [a, b]| k.div_s32(a, b),
                |a, b| (a as i32).wrapping_div(b as i32) as u32,
            ),
            (
                "rem.s32",
                |k, [a, b]| k.rem_s32(a, b),
                |a, b| (a as i32).wrapping_rem(b as i32) as u32,
            ),
        ],
    );
}

#[test]
fn sixty_four_bits_carry_over() {
    check_binary(
        &INTEGERS,
        &[
            (
                "mad.wide",
                |k, [a, b]| {
                    let wide = k.mad_wide_u32(a, b, 0xffff_ffff_u64);
                    let [low, high] = k.unpack_b64(wide);
                    k.xor_b32(low, high)
                },
                |a, b| {
                    let wide = (u64::from(a) * u64::from(b)).wrapping_add(0xffff_ffff);
                    wide as u32 ^ (wide >> 32) as u32
                },
            ),
            (
                "shl.b64",
                |k, [a, b]| {
                    let wide = k.pack_b64(a, b);
                    let shifted = k.shl_b64(wide, b);
                    let [low, high] = k.unpack_b64(shifted);
                    k.xor_b32(low, high)
                },
                |a, b| {
                    let wide = u64::from(b) << 32 | u64::from(a);
                    let shifted = if b < 64 { wide << b } else { 0 };
                    shifted as u32 ^ (shifted >> 32) as u32
                },
            ),
        ],
    );
}

/// The bits of a float, with the hardware's NaN.
fn bits(x: f32) -> u32 {
    if x.is_nan() { 0x7fff_ffff } else { x.to_bits() }
}

fn float_form(
    k: &mut KernelBuilder,
    [a, b]: [B32; 2],
    form: fn(&mut KernelBuilder, [jhalak_ptx::F32; 2]) -> jhalak_ptx::F32,
) -> B32 {
    let inputs = [k.f32_of_bits(a), k.f32_of_bits(b)];
    let result = form(k, inputs);
    k.bits_of_f32(result)
}

#[test]
fn floats_round_once_and_nan_has_one_form() {
    check_binary(
        &FLOATS,
        &[
            (
                "add",
                |k, v| float_form(k, v, |k, [a, b]| k.add_f32(a, b)),
                |a, b| bits(f32::from_bits(a) + f32::from_bits(b)),
            ),
            (
                "sub",
                |k, v| float_form(k, v, |k, [a, b]| k.sub_f32(a, b)),
                |a, b| bits(f32::from_bits(a) - f32::from_bits(b)),
            ),
            (
                "mul",
                |k, v| float_form(k, v, |k, [a, b]| k.mul_f32(a, b)),
                |a, b| bits(f32::from_bits(a) * f32::from_bits(b)),
            ),
            (
                "fma",
                |k, v| float_form(k, v, |k, [a, b]| k.fma_f32(a, b, a)),
                |a, b| {
                    let (a, b) = (f32::from_bits(a), f32::from_bits(b));
                    bits(a.mul_add(b, a))
                },
            ),
            (
                "max",
                |k, v| float_form(k, v, |k, [a, b]| k.max_f32(a, b)),
                |a, b| extremum(a, b, Ordering::Greater),
            ),
            (
                "min",
                |k, v| float_form(k, v, |k, [a, b]| k.min_f32(a, b)),
                |a, b| extremum(a, b, Ordering::Less),
            ),
            (
                "mul.ftz",
                |k, v| float_form(k, v, |k, [a, b]| k.mul_ftz_f32(a, b)),
                |a, b| {
                    let flush = |x: f32| if x.is_subnormal() { x * 0.0 } else { x };
                    bits(flush(flush(f32::from_bits(a)) * flush(f32::from_bits(b))))
                },
            ),
        ],
    );
}

/// The one of two floats that comes first in an order; -0 before +0; the other one of a NaN.
fn extremum(a: u32, b: u32, wanted: Ordering) -> u32 {
    let (x, y) = (f32::from_bits(a), f32::from_bits(b));
    match (x.is_nan(), y.is_nan()) {
        (true, true) => bits(f32::NAN),
        (true, false) => b,
        (false, true) => a,
        _ if x.total_cmp(&y) == wanted => a,
        _ => b,
    }
}

#[test]
fn approximate_functions_are_near_and_right_at_the_edges() {
    type Function =
        (&'static str, fn(&mut KernelBuilder, jhalak_ptx::F32) -> jhalak_ptx::F32, fn(f64) -> f64);
    let cases: [Function; 6] = [
        ("ex2", |k, a| k.ex2_f32(a), f64::exp2),
        ("lg2", |k, a| k.lg2_f32(a), f64::log2),
        ("rcp", |k, a| k.rcp_f32(a), f64::recip),
        ("sqrt", |k, a| k.sqrt_f32(a), f64::sqrt),
        ("rsqrt", |k, a| k.rsqrt_f32(a), |x| 1.0 / x.sqrt()),
        ("tanh", |k, a| k.tanh_f32(a), f64::tanh),
    ];
    let inputs: Vec<[u32; 1]> = FLOATS.map(|bits| [bits]).to_vec();
    for (name, form, expected) in cases {
        let results = evaluate(&inputs, |k, [a]| {
            let a = k.f32_of_bits(a);
            let result = form(k, a);
            k.bits_of_f32(result)
        });
        for ([input], result) in inputs.iter().zip(results) {
            let (x, y) = (f32::from_bits(*input), f32::from_bits(result));
            let flushed = if name != "tanh" && x.is_subnormal() { x * 0.0 } else { x };
            let expected = expected(flushed.into()) as f32;
            let equal = expected.is_nan() && y.is_nan()
                || expected == y
                || expected.is_subnormal() && y == 0.0
                || (expected - y).abs() <= expected.abs() * 1e-6;
            assert!(equal, "{name} of {x}: {y}, not {expected}");
        }
    }
    let of_infinity = evaluate(&[[f32::NEG_INFINITY.to_bits()]], |k, [a]| {
        let a = k.f32_of_bits(a);
        let result = k.ex2_f32(a);
        k.bits_of_f32(result)
    });
    assert_eq!(of_infinity, [0], "2^-inf is 0");
}

#[test]
fn comparisons_know_of_nan_and_of_signs() {
    use Comparison::*;
    let inputs = pairs(&FLOATS);
    for comparison in [Eq, Ne, Lt, Le, Gt, Ge, Equ, Neu, Ltu, Leu, Gtu, Geu, Num, Nan] {
        let results = evaluate(&inputs, |k, [a, b]| {
            let (a, b) = (k.f32_of_bits(a), k.f32_of_bits(b));
            let holds = k.setp_f32(comparison, a, b);
            k.selp_b32(1, 0, holds)
        });
        for ([a, b], result) in inputs.iter().zip(results) {
            let (a, b) = (f32::from_bits(*a), f32::from_bits(*b));
            let unordered = a.is_nan() || b.is_nan();
            let expected = match comparison {
                Eq => a == b,
                Ne => a != b && !unordered,
                Lt => a < b,
                Le => a <= b,
                Gt => a > b,
                Ge => a >= b,
                Equ => a == b || unordered,
                Neu => a != b,
                Ltu => a < b || unordered,
                Leu => a <= b || unordered,
                Gtu => a > b || unordered,
                Geu => a >= b || unordered,
                Num => !unordered,
                Nan => unordered,
            };
            assert_eq!(result == 1, expected, "{comparison:?} {a} {b}");
        }
    }
    check_binary(
        &INTEGERS,
        &[
            (
                "setp.lt.s32",
                |k, [a, b]| {
                    let less = k.setp_s32(Lt, a, b);
                    k.selp_b32(a, b, less)
                },
                |a, b| (a as i32).min(b as i32) as u32,
            ),
            (
                "setp.lt.u32",
                |k, [a, b]| {
                    let less = k.setp_u32(Lt, a, b);
                    let not = k.not_pred(less);
                    k.selp_b32(b, a, not)
                },
                u32::min,
            ),
        ],
    );
}
