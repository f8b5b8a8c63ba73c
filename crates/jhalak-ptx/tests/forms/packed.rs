//! Pairs of 16-bit floats.

use super::case::{ALWAYS, Form, SM80, SM90, Versions};

const EX2_F16: Versions = ["7.0", "7.0", "7.8", "8.0"];

pub fn forms() -> Vec<Form> {
    vec![
        Form::new(ALWAYS, "add.rn.f16x2 %r8, %r0, %r1;", |k, i| {
            k.add_f16x2(i.r[0], i.r[1]);
        }),
        Form::new(SM90, "add.rn.bf16x2 %r8, %r0, %r1;", |k, i| {
            k.add_bf16x2(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "sub.rn.f16x2 %r8, %r0, %r1;", |k, i| {
            k.sub_f16x2(i.r[0], i.r[1]);
        }),
        Form::new(SM90, "sub.rn.bf16x2 %r8, %r0, %r1;", |k, i| {
            k.sub_bf16x2(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "mul.rn.f16x2 %r8, %r0, %r1;", |k, i| {
            k.mul_f16x2(i.r[0], i.r[1]);
        }),
        Form::new(SM90, "mul.rn.bf16x2 %r8, %r0, %r1;", |k, i| {
            k.mul_bf16x2(i.r[0], i.r[1]);
        }),
        Form::new(SM80, "min.f16x2 %r8, %r0, %r1;", |k, i| {
            k.min_f16x2(i.r[0], i.r[1]);
        }),
        Form::new(SM80, "min.bf16x2 %r8, %r0, %r1;", |k, i| {
            k.min_bf16x2(i.r[0], i.r[1]);
        }),
        Form::new(SM80, "max.f16x2 %r8, %r0, %r1;", |k, i| {
            k.max_f16x2(i.r[0], i.r[1]);
        }),
        Form::new(SM80, "max.bf16x2 %r8, %r0, %r1;", |k, i| {
            k.max_bf16x2(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "fma.rn.f16x2 %r8, %r0, %r1, %r2;", |k, i| {
            k.fma_f16x2(i.r[0], i.r[1], i.r[2]);
        }),
        Form::new(SM80, "fma.rn.bf16x2 %r8, %r0, %r1, %r2;", |k, i| {
            k.fma_bf16x2(i.r[0], i.r[1], i.r[2]);
        }),
        Form::new(EX2_F16, "ex2.approx.f16x2 %r8, %r0;", |k, i| {
            k.ex2_f16x2(i.r[0]);
        }),
        Form::new(SM90, "ex2.approx.ftz.bf16x2 %r8, %r0;", |k, i| {
            k.ex2_bf16x2(i.r[0]);
        }),
    ]
}
