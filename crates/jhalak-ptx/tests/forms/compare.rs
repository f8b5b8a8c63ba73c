//! Comparisons, selection, logic.

use super::case::{ALWAYS, Form};
use jhalak_ptx::Comparison::*;
use jhalak_ptx::Connective::*;

pub fn forms() -> Vec<Form> {
    vec![
        Form::new(ALWAYS, "setp.eq.u32 %p4, %r0, %r1;", |k, i| {
            k.setp_u32(Eq, i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "setp.ne.u32 %p4, %r0, %r1;", |k, i| {
            k.setp_u32(Ne, i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "setp.lt.u32 %p4, %r0, %r1;", |k, i| {
            k.setp_u32(Lt, i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "setp.le.u32 %p4, %r0, %r1;", |k, i| {
            k.setp_u32(Le, i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "setp.gt.u32 %p4, %r0, %r1;", |k, i| {
            k.setp_u32(Gt, i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "setp.ge.u32 %p4, %r0, %r1;", |k, i| {
            k.setp_u32(Ge, i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "setp.eq.f32 %p4, %f0, %f1;", |k, i| {
            k.setp_f32(Eq, i.f[0], i.f[1]);
        }),
        Form::new(ALWAYS, "setp.ne.f32 %p4, %f0, %f1;", |k, i| {
            k.setp_f32(Ne, i.f[0], i.f[1]);
        }),
        Form::new(ALWAYS, "setp.lt.f32 %p4, %f0, %f1;", |k, i| {
            k.setp_f32(Lt, i.f[0], i.f[1]);
        }),
        Form::new(ALWAYS, "setp.le.f32 %p4, %f0, %f1;", |k, i| {
            k.setp_f32(Le, i.f[0], i.f[1]);
        }),
        Form::new(ALWAYS, "setp.gt.f32 %p4, %f0, %f1;", |k, i| {
            k.setp_f32(Gt, i.f[0], i.f[1]);
        }),
        Form::new(ALWAYS, "setp.ge.f32 %p4, %f0, %f1;", |k, i| {
            k.setp_f32(Ge, i.f[0], i.f[1]);
        }),
        Form::new(ALWAYS, "setp.equ.f32 %p4, %f0, %f1;", |k, i| {
            k.setp_f32(Equ, i.f[0], i.f[1]);
        }),
        Form::new(ALWAYS, "setp.neu.f32 %p4, %f0, %f1;", |k, i| {
            k.setp_f32(Neu, i.f[0], i.f[1]);
        }),
        Form::new(ALWAYS, "setp.ltu.f32 %p4, %f0, %f1;", |k, i| {
            k.setp_f32(Ltu, i.f[0], i.f[1]);
        }),
        Form::new(ALWAYS, "setp.leu.f32 %p4, %f0, %f1;", |k, i| {
            k.setp_f32(Leu, i.f[0], i.f[1]);
        }),
        Form::new(ALWAYS, "setp.gtu.f32 %p4, %f0, %f1;", |k, i| {
            k.setp_f32(Gtu, i.f[0], i.f[1]);
        }),
        Form::new(ALWAYS, "setp.geu.f32 %p4, %f0, %f1;", |k, i| {
            k.setp_f32(Geu, i.f[0], i.f[1]);
        }),
        Form::new(ALWAYS, "setp.num.f32 %p4, %f0, %f1;", |k, i| {
            k.setp_f32(Num, i.f[0], i.f[1]);
        }),
        Form::new(ALWAYS, "setp.nan.f32 %p4, %f0, %f1;", |k, i| {
            k.setp_f32(Nan, i.f[0], i.f[1]);
        }),
        Form::new(ALWAYS, "setp.lt.s32 %p4, %r0, 0xffffffff;", |k, i| {
            k.setp_s32(Lt, i.r[0], -1);
        }),
        Form::new(ALWAYS, "setp.ge.u64 %p4, %rd0, %rd1;", |k, i| {
            k.setp_u64(Ge, i.rd[0], i.rd[1]);
        }),
        Form::new(ALWAYS, "setp.gt.s64 %p4, %rd0, 5;", |k, i| {
            k.setp_s64(Gt, i.rd[0], 5);
        }),
        Form::new(ALWAYS, "setp.eq.u32 %p0, %r0, 7;", |k, i| {
            k.setp_u32_to(i.p[0], Eq, i.r[0], 7);
        }),
        Form::new(ALWAYS, "setp.lt.and.u32 %p4, %r0, %r1, %p0;", |k, i| {
            k.setp_u32_with(Lt, i.r[0], i.r[1], And, i.p[0]);
        }),
        Form::new(ALWAYS, "setp.lt.or.s32 %p4, %r0, %r1, !%p0;", |k, i| {
            k.setp_s32_with(Lt, i.r[0], i.r[1], Or, !i.p[0]);
        }),
        Form::new(ALWAYS, "setp.eq.xor.f32 %p4, %f0, 0f3F800000, %p0;", |k, i| {
            k.setp_f32_with(Eq, i.f[0], 1.0, Xor, i.p[0]);
        }),
        Form::new(ALWAYS, "setp.ne.and.u64 %p4, %rd0, %rd1, %p0;", |k, i| {
            k.setp_u64_with(Ne, i.rd[0], i.rd[1], And, i.p[0]);
        }),
        Form::new(ALWAYS, "selp.f32 %f8, %f0, 0fFF800000, %p0;", |k, i| {
            k.selp_f32(i.f[0], f32::NEG_INFINITY, i.p[0]);
        }),
        Form::new(ALWAYS, "selp.b32 %r8, %r0, %r1, %p0;", |k, i| {
            k.selp_b32(i.r[0], i.r[1], i.p[0]);
        }),
        Form::new(ALWAYS, "selp.b64 %rd4, %rd0, 0, %p0;", |k, i| {
            k.selp_b64(i.rd[0], 0, i.p[0]);
        }),
        Form::new(ALWAYS, "and.pred %p4, %p0, %p1;", |k, i| {
            k.and_pred(i.p[0], i.p[1]);
        }),
        Form::new(ALWAYS, "or.pred %p4, %p0, %p1;", |k, i| {
            k.or_pred(i.p[0], i.p[1]);
        }),
        Form::new(ALWAYS, "xor.pred %p4, %p0, %p1;", |k, i| {
            k.xor_pred(i.p[0], i.p[1]);
        }),
        Form::new(ALWAYS, "not.pred %p4, %p0;", |k, i| {
            k.not_pred(i.p[0]);
        }),
    ]
}
