//! Loads, stores, prefetches.

use super::case::{ALWAYS, Form, Versions};
use jhalak_ptx::Order::*;
use jhalak_ptx::{Access, B16, B32, B64, F32, L1, Scope};

const HINT: Versions = ["7.4", "7.4", "7.8", "8.0"];
const POLICY: Versions = ["-", "7.4", "7.8", "8.0"];

pub fn forms() -> Vec<Form> {
    vec![
        Form::new(ALWAYS, "ld.global.b32 %r8, [%rd0];", |k, i| {
            let _: B32 = k.ld(i.rd[0]);
        }),
        Form::new(ALWAYS, "ld.global.f32 %f8, [%rd0+16];", |k, i| {
            let _: F32 = k.ld((i.rd[0], 16));
        }),
        Form::new(ALWAYS, "ld.global.b64 %rd4, [%rd0+-8];", |k, i| {
            let _: B64 = k.ld((i.rd[0], -8));
        }),
        Form::new(ALWAYS, "ld.global.b16 %h4, [%rd0];", |k, i| {
            let _: B16 = k.ld(i.rd[0]);
        }),
        Form::new(ALWAYS, "ld.global.u8 %r8, [%rd0];", |k, i| {
            k.ld_u8(i.rd[0]);
        }),
        Form::new(ALWAYS, "ld.shared.u16 %r8, [%r0];", |k, i| {
            k.ld_u16(i.r[0]);
        }),
        Form::new(ALWAYS, "ld.shared.v4.b32 {%r8, %r9, %r10, %r11}, [%r0+32];", |k, i| {
            let _: [B32; 4] = k.ld_vector((i.r[0], 32u32));
        }),
        Form::new(ALWAYS, "ld.shared.v2.f32 {%f8, %f9}, [%r0];", |k, i| {
            let _: [F32; 2] = k.ld_vector(i.r[0]);
        }),
        Form::new(ALWAYS, "ld.global.v2.b64 {%rd4, %rd5}, [%rd0];", |k, i| {
            let _: [B64; 2] = k.ld_vector(i.rd[0]);
        }),
        Form::new(ALWAYS, "ld.global.f32 %f0, [%rd0+4];", |k, i| {
            k.ld_to(i.f[0], (i.rd[0], 4));
        }),
        Form::new(ALWAYS, "ld.shared.b32 %r8, [form_dynamic+64];", |k, _| {
            k.dynamic_shared("first", 64, 16);
            let second = k.dynamic_shared("second", 64, 16);
            let _: B32 = k.ld(second);
        }),
        Form::new(ALWAYS, "ld.shared.b32 %r8, [form_static+12];", |k, _| {
            let one = k.static_shared("one", 64, 16);
            let _: B32 = k.ld((one, 12));
        }),
        Form::new(ALWAYS, "ld.global.nc.v4.f32 {%f0, %f1, %f2, %f3}, [%rd0];", |k, i| {
            k.ld_with([i.f[0], i.f[1], i.f[2], i.f[3]], i.rd[0], Access::new(ReadOnly));
        }),
        Form::new(ALWAYS, "ld.volatile.shared.b32 %r0, [%r1];", |k, i| {
            k.ld_with([i.r[0]], i.r[1], Access::new(Volatile));
        }),
        Form::new(ALWAYS, "ld.shared.b32 %r0, [%r1];", |k, i| {
            k.ld_with([i.r[0]], i.r[1], Access::default());
        }),
        Form::new(ALWAYS, "ld.acquire.gpu.global.b32 %r0, [%rd0];", |k, i| {
            k.ld_with([i.r[0]], i.rd[0], Access::new(Acquire(Scope::Gpu)));
        }),
        Form::new(ALWAYS, "ld.relaxed.sys.global.b64 %rd0, [%rd1];", |k, i| {
            k.ld_with([i.rd[0]], i.rd[1], Access::new(Relaxed(Scope::Sys)));
        }),
        Form::new(HINT, "ld.global.L1::no_allocate.b32 %r0, [%rd0];", |k, i| {
            k.ld_with([i.r[0]], i.rd[0], Access::new(Weak).l1(L1::NoAllocate));
        }),
        Form::new(HINT, "ld.global.nc.L1::evict_first.b32 %r0, [%rd0];", |k, i| {
            k.ld_with([i.r[0]], i.rd[0], Access::new(ReadOnly).l1(L1::EvictFirst));
        }),
        Form::new(
            POLICY,
            "ld.global.L1::evict_last.L2::cache_hint.v2.b32 {%r0, %r1}, [%rd0], %rd1;",
            |k, i| {
                k.ld_with(
                    [i.r[0], i.r[1]],
                    i.rd[0],
                    Access::new(Weak).l1(L1::EvictLast).policy(i.rd[1]),
                );
            },
        ),
        Form::new(ALWAYS, "ld.param.b32 %r8, [param_n];", |k, _| {
            let n = k.param_u32("n");
            k.ld_param(n);
        }),
        Form::new(ALWAYS, "ld.param.b64 %rd4, [param_n];", |k, _| {
            let n = k.param_u64("n");
            k.ld_param(n);
        }),
        Form::new(ALWAYS, "ld.param.b64 %rd4, [param_q];", |k, _| {
            let q = k.param_pointer("q", 16);
            k.ld_param(q);
        }),
        Form::new(ALWAYS, "ld.param.f32 %f8, [param_scale];", |k, _| {
            let scale = k.param_f32("scale");
            k.ld_param(scale);
        }),
        Form::new(ALWAYS, "st.global.f32 [%rd0], %f0;", |k, i| {
            k.st(i.rd[0], i.f[0]);
        }),
        Form::new(ALWAYS, "st.shared.b16 [%r0+2], %h0;", |k, i| {
            k.st((i.r[0], 2), i.h[0]);
        }),
        Form::new(ALWAYS, "st.global.v4.b32 [%rd0], {%r0, %r1, %r2, %r3};", |k, i| {
            k.st_vector(i.rd[0], [i.r[0], i.r[1], i.r[2], i.r[3]]);
        }),
        Form::new(ALWAYS, "st.global.u8 [%rd0], %r0;", |k, i| {
            k.st_u8(i.rd[0], i.r[0]);
        }),
        Form::new(ALWAYS, "st.shared.u16 [%r0], %r1;", |k, i| {
            k.st_u16(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "st.volatile.shared.b32 [%r0], %r1;", |k, i| {
            k.st_with(i.r[0], [i.r[1]], Access::new(Volatile));
        }),
        Form::new(ALWAYS, "st.release.gpu.global.b32 [%rd0], %r0;", |k, i| {
            k.st_with(i.rd[0], [i.r[0]], Access::new(Release(Scope::Gpu)));
        }),
        Form::new(ALWAYS, "st.relaxed.cta.shared.b32 [%r0], %r1;", |k, i| {
            k.st_with(i.r[0], [i.r[1]], Access::new(Relaxed(Scope::Cta)));
        }),
        Form::new(HINT, "st.global.L1::no_allocate.b32 [%rd0], %r0;", |k, i| {
            k.st_with(i.rd[0], [i.r[0]], Access::new(Weak).l1(L1::NoAllocate));
        }),
        Form::new(POLICY, "st.global.L2::cache_hint.v2.f32 [%rd0], {%f0, %f1}, %rd1;", |k, i| {
            k.st_with(i.rd[0], [i.f[0], i.f[1]], Access::new(Weak).policy(i.rd[1]));
        }),
        Form::new(ALWAYS, "prefetch.global.L2 [%rd0];", |k, i| {
            k.prefetch(i.rd[0]);
        }),
    ]
}
