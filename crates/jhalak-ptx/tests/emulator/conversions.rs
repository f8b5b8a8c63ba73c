//! Conversions, against plain Rust and the crate `half`.

use half::{bf16, f16};
use jhalak_ptx::{B32, F32, KernelBuilder};

use crate::evaluate;

const VALUES: [f32; 22] = [
    0.0,
    -0.0,
    0.5,
    1.5,
    2.5,
    -2.5,
    -0.75,
    1.0 / 3.0,
    448.0,
    449.0,
    -500.0,
    65504.0,
    65520.0,
    -1e5,
    3e9,
    -3e9,
    1e20,
    1e-8,
    6e-5,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
];

fn check(name: &str, form: fn(&mut KernelBuilder, F32) -> B32, expected: impl Fn(f32) -> u32) {
    let inputs = VALUES.map(|value| [value.to_bits()]);
    let results = evaluate(&inputs, |k, [a]| {
        let a = k.f32_of_bits(a);
        form(k, a)
    });
    for (value, result) in VALUES.iter().zip(results) {
        assert_eq!(result, expected(*value), "{name} of {value}");
    }
}

#[test]
fn floats_become_integers_as_near_as_they_can() {
    check("cvt.rzi.u32", |k, a| k.cvt_rzi_u32_f32(a), |a| a as u32);
    check("cvt.rzi.s32", |k, a| k.cvt_rzi_s32_f32(a), |a| a as i32 as u32);
    check("cvt.rni.s32", |k, a| k.cvt_rni_s32_f32(a), |a| a.round_ties_even() as i32 as u32);
}

#[test]
fn floats_become_halves_to_nearest_even() {
    let f16_bits = |a: f32| if a.is_nan() { 0x7fff } else { f16::from_f32(a).to_bits() };
    let bf16_bits = |a: f32| if a.is_nan() { 0x7fff } else { bf16::from_f32(a).to_bits() };
    let pair = |bits: u16| u32::from(bits) << 16 | 0x3c00;
    check("cvt.f16x2", |k, a| k.cvt_f16x2_f32(1.0, a), |a| pair(f16_bits(a)));
    let pair = |bits: u16| u32::from(bits) << 16 | 0x3f80;
    check("cvt.bf16x2", |k, a| k.cvt_bf16x2_f32(1.0, a), |a| pair(bf16_bits(a)));
    check(
        "cvt.f16 and back",
        |k, a| {
            let half = k.cvt_f16_f32(a);
            let wide = k.cvt_f32_f16(half);
            k.bits_of_f32(wide)
        },
        |a| if a.is_nan() { 0x7fff_e000 } else { f16::from_f32(a).to_f32().to_bits() },
    );
}

#[test]
fn e4m3_saturates_and_keeps_nan() {
    let expected = |a: f32| -> u32 {
        let sign = if a.is_sign_negative() { 0x80 } else { 0 };
        match a.abs() {
            a if a.is_nan() => 0x7f,
            a if a >= 448.0 => sign | 0x7e,
            0.0 => sign,
            0.5 => sign | 0x30,
            0.75 => sign | 0x34,
            1.5 => sign | 0x3c,
            2.5 => sign | 0x42,
            a if a < 0.001 => sign,
            _ => sign | 0x2b, // a third: between 0.3125 and 0.34375
        }
    };
    check(
        "cvt.e4m3x2",
        |k, a| {
            let pair = k.cvt_e4m3x2_f32(a, 0.0);
            let zero = k.mov_b16(0);
            k.pack_b32(pair, zero)
        },
        expected,
    );
}

#[test]
fn integers_become_floats_to_nearest_even() {
    let inputs: Vec<[u32; 1]> =
        [0, 1, 0x0100_0001, 0x0100_0003, 0x7fff_ffff, u32::MAX].map(|a| [a]).to_vec();
    let unsigned = evaluate(&inputs, |k, [a]| {
        let float = k.cvt_f32_u32(a);
        k.bits_of_f32(float)
    });
    let signed = evaluate(&inputs, |k, [a]| {
        let float = k.cvt_f32_s32(a);
        k.bits_of_f32(float)
    });
    for (index, [a]) in inputs.iter().enumerate() {
        assert_eq!(unsigned[index], (*a as f32).to_bits());
        assert_eq!(signed[index], (*a as i32 as f32).to_bits());
    }
}
