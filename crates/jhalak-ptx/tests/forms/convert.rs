//! Conversions.

use super::case::{ALWAYS, Form, SM80, Versions};

const SM80_IN_7_1: Versions = ["-", "7.1", "7.8", "8.0"];
/// Hopper had it first, with PTX 7.8.
const E4M3: Versions = ["-", "-", "8.1", "8.0"];

pub fn forms() -> Vec<Form> {
    vec![
        Form::new(ALWAYS, "cvt.rn.f32.u32 %f8, %r0;", |k, i| {
            k.cvt_f32_u32(i.r[0]);
        }),
        Form::new(ALWAYS, "cvt.rn.f32.s32 %f8, %r0;", |k, i| {
            k.cvt_f32_s32(i.r[0]);
        }),
        Form::new(ALWAYS, "cvt.rzi.u32.f32 %r8, %f0;", |k, i| {
            k.cvt_rzi_u32_f32(i.f[0]);
        }),
        Form::new(ALWAYS, "cvt.rzi.s32.f32 %r8, %f0;", |k, i| {
            k.cvt_rzi_s32_f32(i.f[0]);
        }),
        Form::new(ALWAYS, "cvt.rni.s32.f32 %r8, %f0;", |k, i| {
            k.cvt_rni_s32_f32(i.f[0]);
        }),
        Form::new(ALWAYS, "cvt.rn.f16.f32 %h4, %f0;", |k, i| {
            k.cvt_f16_f32(i.f[0]);
        }),
        Form::new(SM80, "cvt.rn.bf16.f32 %h4, %f0;", |k, i| {
            k.cvt_bf16_f32(i.f[0]);
        }),
        Form::new(ALWAYS, "cvt.f32.f16 %f8, %h0;", |k, i| {
            k.cvt_f32_f16(i.h[0]);
        }),
        Form::new(SM80_IN_7_1, "cvt.f32.bf16 %f8, %h0;", |k, i| {
            k.cvt_f32_bf16(i.h[0]);
        }),
        Form::new(E4M3, "cvt.rn.satfinite.e4m3x2.f16x2 %h4, %r0;", |k, i| {
            k.cvt_e4m3x2_f16x2(i.r[0]);
        }),
        Form::new(E4M3, "cvt.rn.f16x2.e4m3x2 %r8, %h0;", |k, i| {
            k.cvt_f16x2_e4m3x2(i.h[0]);
        }),
        Form::new(ALWAYS, "cvt.u64.u32 %rd4, %r0;", |k, i| {
            k.cvt_u64_u32(i.r[0]);
        }),
        Form::new(ALWAYS, "cvt.s64.s32 %rd4, %r0;", |k, i| {
            k.cvt_s64_s32(i.r[0]);
        }),
        Form::new(ALWAYS, "cvt.u32.u64 %r8, %rd0;", |k, i| {
            k.cvt_u32_u64(i.rd[0]);
        }),
        Form::new(SM80, "cvt.rn.f16x2.f32 %r8, %f1, %f0;", |k, i| {
            k.cvt_f16x2_f32(i.f[0], i.f[1]);
        }),
        Form::new(SM80, "cvt.rn.bf16x2.f32 %r8, %f1, %f0;", |k, i| {
            k.cvt_bf16x2_f32(i.f[0], i.f[1]);
        }),
        Form::new(E4M3, "cvt.rn.satfinite.e4m3x2.f32 %h4, %f1, %f0;", |k, i| {
            k.cvt_e4m3x2_f32(i.f[0], i.f[1]);
        }),
        Form::new(ALWAYS, "cvta.to.global.u64 %rd4, %rd0;", |k, i| {
            k.cvta_to_global(i.rd[0]);
        }),
    ]
}
