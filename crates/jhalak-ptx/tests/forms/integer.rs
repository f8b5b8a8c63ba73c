//! Integers.

use super::case::{ALWAYS, Form};

pub fn forms() -> Vec<Form> {
    vec![
        Form::new(ALWAYS, "add.u32 %r8, %r0, %r1;", |k, i| {
            k.add_u32(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "sub.u32 %r8, %r0, %r1;", |k, i| {
            k.sub_u32(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "mul.lo.u32 %r8, %r0, %r1;", |k, i| {
            k.mul_lo_u32(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "mul.hi.u32 %r8, %r0, %r1;", |k, i| {
            k.mul_hi_u32(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "mul.hi.s32 %r8, %r0, %r1;", |k, i| {
            k.mul_hi_s32(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "div.u32 %r8, %r0, %r1;", |k, i| {
            k.div_u32(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "div.s32 %r8, %r0, %r1;", |k, i| {
            k.div_s32(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "rem.u32 %r8, %r0, %r1;", |k, i| {
            k.rem_u32(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "rem.s32 %r8, %r0, %r1;", |k, i| {
            k.rem_s32(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "min.u32 %r8, %r0, %r1;", |k, i| {
            k.min_u32(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "min.s32 %r8, %r0, %r1;", |k, i| {
            k.min_s32(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "max.u32 %r8, %r0, %r1;", |k, i| {
            k.max_u32(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "max.s32 %r8, %r0, %r1;", |k, i| {
            k.max_s32(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "and.b32 %r8, %r0, %r1;", |k, i| {
            k.and_b32(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "or.b32 %r8, %r0, %r1;", |k, i| {
            k.or_b32(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "xor.b32 %r8, %r0, %r1;", |k, i| {
            k.xor_b32(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "shl.b32 %r8, %r0, %r1;", |k, i| {
            k.shl_b32(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "shr.u32 %r8, %r0, %r1;", |k, i| {
            k.shr_u32(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "shr.s32 %r8, %r0, %r1;", |k, i| {
            k.shr_s32(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "add.u64 %rd4, %rd0, %rd1;", |k, i| {
            k.add_u64(i.rd[0], i.rd[1]);
        }),
        Form::new(ALWAYS, "sub.u64 %rd4, %rd0, %rd1;", |k, i| {
            k.sub_u64(i.rd[0], i.rd[1]);
        }),
        Form::new(ALWAYS, "mul.lo.u64 %rd4, %rd0, %rd1;", |k, i| {
            k.mul_lo_u64(i.rd[0], i.rd[1]);
        }),
        Form::new(ALWAYS, "div.u64 %rd4, %rd0, %rd1;", |k, i| {
            k.div_u64(i.rd[0], i.rd[1]);
        }),
        Form::new(ALWAYS, "rem.u64 %rd4, %rd0, %rd1;", |k, i| {
            k.rem_u64(i.rd[0], i.rd[1]);
        }),
        Form::new(ALWAYS, "and.b64 %rd4, %rd0, %rd1;", |k, i| {
            k.and_b64(i.rd[0], i.rd[1]);
        }),
        Form::new(ALWAYS, "or.b64 %rd4, %rd0, %rd1;", |k, i| {
            k.or_b64(i.rd[0], i.rd[1]);
        }),
        Form::new(ALWAYS, "xor.b64 %rd4, %rd0, %rd1;", |k, i| {
            k.xor_b64(i.rd[0], i.rd[1]);
        }),
        Form::new(ALWAYS, "shl.b64 %rd4, %rd0, %r1;", |k, i| {
            k.shl_b64(i.rd[0], i.r[1]);
        }),
        Form::new(ALWAYS, "shr.u64 %rd4, %rd0, %r1;", |k, i| {
            k.shr_u64(i.rd[0], i.r[1]);
        }),
        Form::new(ALWAYS, "not.b32 %r8, %r0;", |k, i| {
            k.not_b32(i.r[0]);
        }),
        Form::new(ALWAYS, "neg.s32 %r8, %r0;", |k, i| {
            k.neg_s32(i.r[0]);
        }),
        Form::new(ALWAYS, "abs.s32 %r8, %r0;", |k, i| {
            k.abs_s32(i.r[0]);
        }),
        Form::new(ALWAYS, "popc.b32 %r8, %r0;", |k, i| {
            k.popc_b32(i.r[0]);
        }),
        Form::new(ALWAYS, "not.b64 %rd4, %rd0;", |k, i| {
            k.not_b64(i.rd[0]);
        }),
        Form::new(ALWAYS, "mul.wide.u32 %rd4, %r0, %r1;", |k, i| {
            k.mul_wide_u32(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "mul.wide.s32 %rd4, %r0, %r1;", |k, i| {
            k.mul_wide_s32(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "mad.lo.u32 %r8, %r0, %r1, %r2;", |k, i| {
            k.mad_lo_u32(i.r[0], i.r[1], i.r[2]);
        }),
        Form::new(ALWAYS, "mad.lo.u64 %rd4, %rd0, %rd1, %rd2;", |k, i| {
            k.mad_lo_u64(i.rd[0], i.rd[1], i.rd[2]);
        }),
        Form::new(ALWAYS, "mad.wide.u32 %rd4, %r0, %r1, %rd2;", |k, i| {
            k.mad_wide_u32(i.r[0], i.r[1], i.rd[2]);
        }),
        Form::new(ALWAYS, "mad.wide.s32 %rd4, %r0, %r1, %rd2;", |k, i| {
            k.mad_wide_s32(i.r[0], i.r[1], i.rd[2]);
        }),
        Form::new(ALWAYS, "bfe.u32 %r8, %r0, 4, 3;", |k, i| {
            k.bfe_u32(i.r[0], 4, 3);
        }),
        Form::new(ALWAYS, "bfi.b32 %r8, %r0, %r1, 16, 8;", |k, i| {
            k.bfi_b32(i.r[0], i.r[1], 16, 8);
        }),
        Form::new(ALWAYS, "prmt.b32 %r8, %r0, %r1, 21520;", |k, i| {
            k.prmt_b32(i.r[0], i.r[1], 0x5410);
        }),
        Form::new(ALWAYS, "lop3.b32 %r8, %r0, %r1, %r2, 150;", |k, i| {
            k.lop3_b32(i.r[0], i.r[1], i.r[2], 0x96);
        }),
        Form::new(ALWAYS, "add.u32 %r0, %r0, 8;", |k, i| {
            k.add_u32_to(i.r[0], i.r[0], 8);
        }),
        Form::new(ALWAYS, "and.b32 %r8, %r0, 0xfffffc00;", |k, i| {
            k.and_b32(i.r[0], 0xffff_fc00u32);
        }),
        Form::new(ALWAYS, "max.s32 %r8, %r0, 0xfffffff8;", |k, i| {
            k.max_s32(i.r[0], -8);
        }),
        Form::new(ALWAYS, "add.u64 %rd4, %rd0, 0xffffffffffffe000;", |k, i| {
            k.add_u64(i.rd[0], -8192);
        }),
        Form::new(ALWAYS, "mad.lo.u32 %r8, %r0, 16, 3;", |k, i| {
            k.mad_lo_u32(i.r[0], 16, 3);
        }),
    ]
}
