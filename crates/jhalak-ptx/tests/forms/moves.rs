//! Copies, constants, halves, addresses and special registers.

use super::case::{ALWAYS, Form, Versions};
use jhalak_ptx::Special::*;

const CVTA_PARAM: Versions = ["7.7", "7.7", "7.8", "8.0"];

pub fn forms() -> Vec<Form> {
    vec![
        Form::new(ALWAYS, "mov.f32 %f8, %f0;", |k, i| {
            k.mov_f32(i.f[0]);
        }),
        Form::new(ALWAYS, "mov.f32 %f8, 0f3F800000;", |k, _| {
            k.mov_f32(1.0);
        }),
        Form::new(ALWAYS, "mov.b16 %h4, 15360;", |k, _| {
            k.mov_b16(0x3c00);
        }),
        Form::new(ALWAYS, "mov.b32 %r8, 0x3f803f80;", |k, _| {
            k.mov_b32(0x3f80_3f80);
        }),
        Form::new(ALWAYS, "mov.b64 %rd4, 0x14f0000000000000;", |k, _| {
            k.mov_b64(0x14f0_0000_0000_0000u64);
        }),
        Form::new(ALWAYS, "mov.pred %p4, %p0;", |k, i| {
            k.mov_pred(i.p[0]);
        }),
        Form::new(ALWAYS, "mov.pred %p4, 1;", |k, _| {
            k.mov_pred(true);
        }),
        Form::new(ALWAYS, "mov.b32 %r8, %f0;", |k, i| {
            k.bits_of_f32(i.f[0]);
        }),
        Form::new(ALWAYS, "mov.b32 %f8, %r0;", |k, i| {
            k.f32_of_bits(i.r[0]);
        }),
        Form::new(ALWAYS, "mov.b32 %r8, {%h0, %h1};", |k, i| {
            k.pack_b32(i.h[0], i.h[1]);
        }),
        Form::new(ALWAYS, "mov.b64 %rd4, {%r0, %r1};", |k, i| {
            k.pack_b64(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "mov.b32 {%h4, %h5}, %r0;", |k, i| {
            k.unpack_b32(i.r[0]);
        }),
        Form::new(ALWAYS, "mov.b64 {%r8, %r9}, %rd0;", |k, i| {
            k.unpack_b64(i.rd[0]);
        }),
        Form::new(ALWAYS, "mov.b32 %r8, form_dynamic;", |k, _| {
            let tile = k.dynamic_shared("tile", 64, 16);
            k.shared_address(tile);
        }),
        Form::new(ALWAYS, "mov.b32 %r8, form_static+64;", |k, _| {
            k.static_shared("first", 64, 16);
            let second = k.static_shared("second", 64, 16);
            k.shared_address(second);
        }),
        Form::new(CVTA_PARAM, "mov.b64 %rd4, param_map;\ncvta.param.u64 %rd5, %rd4;", |k, _| {
            let map = k.param_tensor_map("map");
            k.tensor_map_address(map);
        }),
        Form::new(ALWAYS, "mov.u32 %r8, %tid.x;", |k, _| {
            k.special(TidX);
        }),
        Form::new(ALWAYS, "mov.u32 %r8, %tid.y;", |k, _| {
            k.special(TidY);
        }),
        Form::new(ALWAYS, "mov.u32 %r8, %tid.z;", |k, _| {
            k.special(TidZ);
        }),
        Form::new(ALWAYS, "mov.u32 %r8, %ntid.x;", |k, _| {
            k.special(NtidX);
        }),
        Form::new(ALWAYS, "mov.u32 %r8, %ntid.y;", |k, _| {
            k.special(NtidY);
        }),
        Form::new(ALWAYS, "mov.u32 %r8, %ntid.z;", |k, _| {
            k.special(NtidZ);
        }),
        Form::new(ALWAYS, "mov.u32 %r8, %ctaid.x;", |k, _| {
            k.special(CtaidX);
        }),
        Form::new(ALWAYS, "mov.u32 %r8, %ctaid.y;", |k, _| {
            k.special(CtaidY);
        }),
        Form::new(ALWAYS, "mov.u32 %r8, %ctaid.z;", |k, _| {
            k.special(CtaidZ);
        }),
        Form::new(ALWAYS, "mov.u32 %r8, %nctaid.x;", |k, _| {
            k.special(NctaidX);
        }),
        Form::new(ALWAYS, "mov.u32 %r8, %nctaid.y;", |k, _| {
            k.special(NctaidY);
        }),
        Form::new(ALWAYS, "mov.u32 %r8, %nctaid.z;", |k, _| {
            k.special(NctaidZ);
        }),
        Form::new(ALWAYS, "mov.u32 %r8, %laneid;", |k, _| {
            k.special(LaneId);
        }),
        Form::new(ALWAYS, "mov.u32 %r8, %tid.x;", |k, _| {
            k.tid_x();
        }),
        Form::new(ALWAYS, "mov.u32 %r8, %ctaid.x;", |k, _| {
            k.ctaid_x();
        }),
    ]
}
