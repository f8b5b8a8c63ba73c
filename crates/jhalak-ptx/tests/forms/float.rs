//! Floats.

use super::case::{ALWAYS, Form, Versions};

const SM75_IN_7_0: Versions = ["7.0", "7.0", "7.8", "8.0"];

pub fn forms() -> Vec<Form> {
    vec![
        Form::new(ALWAYS, "add.rn.f32 %f8, %f0, %f1;", |k, i| {
            k.add_f32(i.f[0], i.f[1]);
        }),
        Form::new(ALWAYS, "add.rn.ftz.f32 %f8, %f0, %f1;", |k, i| {
            k.add_ftz_f32(i.f[0], i.f[1]);
        }),
        Form::new(ALWAYS, "sub.rn.f32 %f8, %f0, %f1;", |k, i| {
            k.sub_f32(i.f[0], i.f[1]);
        }),
        Form::new(ALWAYS, "sub.rn.ftz.f32 %f8, %f0, %f1;", |k, i| {
            k.sub_ftz_f32(i.f[0], i.f[1]);
        }),
        Form::new(ALWAYS, "mul.rn.f32 %f8, %f0, %f1;", |k, i| {
            k.mul_f32(i.f[0], i.f[1]);
        }),
        Form::new(ALWAYS, "mul.rn.ftz.f32 %f8, %f0, %f1;", |k, i| {
            k.mul_ftz_f32(i.f[0], i.f[1]);
        }),
        Form::new(ALWAYS, "min.f32 %f8, %f0, %f1;", |k, i| {
            k.min_f32(i.f[0], i.f[1]);
        }),
        Form::new(ALWAYS, "max.f32 %f8, %f0, %f1;", |k, i| {
            k.max_f32(i.f[0], i.f[1]);
        }),
        Form::new(ALWAYS, "fma.rn.f32 %f8, %f0, %f1, %f2;", |k, i| {
            k.fma_f32(i.f[0], i.f[1], i.f[2]);
        }),
        Form::new(ALWAYS, "fma.rn.ftz.f32 %f8, %f0, %f1, %f2;", |k, i| {
            k.fma_ftz_f32(i.f[0], i.f[1], i.f[2]);
        }),
        Form::new(ALWAYS, "neg.f32 %f8, %f0;", |k, i| {
            k.neg_f32(i.f[0]);
        }),
        Form::new(ALWAYS, "abs.f32 %f8, %f0;", |k, i| {
            k.abs_f32(i.f[0]);
        }),
        Form::new(ALWAYS, "ex2.approx.ftz.f32 %f8, %f0;", |k, i| {
            k.ex2_f32(i.f[0]);
        }),
        Form::new(ALWAYS, "lg2.approx.ftz.f32 %f8, %f0;", |k, i| {
            k.lg2_f32(i.f[0]);
        }),
        Form::new(ALWAYS, "rcp.approx.ftz.f32 %f8, %f0;", |k, i| {
            k.rcp_f32(i.f[0]);
        }),
        Form::new(ALWAYS, "sqrt.approx.ftz.f32 %f8, %f0;", |k, i| {
            k.sqrt_f32(i.f[0]);
        }),
        Form::new(ALWAYS, "rsqrt.approx.ftz.f32 %f8, %f0;", |k, i| {
            k.rsqrt_f32(i.f[0]);
        }),
        Form::new(SM75_IN_7_0, "tanh.approx.f32 %f8, %f0;", |k, i| {
            k.tanh_f32(i.f[0]);
        }),
        Form::new(ALWAYS, "fma.rn.f32 %f0, %f0, 0f3F000000, %f1;", |k, i| {
            k.fma_f32_to(i.f[0], i.f[0], 0.5, i.f[1]);
        }),
        Form::new(ALWAYS, "max.f32 %f8, %f0, 0fFF800000;", |k, i| {
            k.max_f32(i.f[0], f32::NEG_INFINITY);
        }),
    ]
}
