//! Atomic operations.

use super::case::{ALWAYS, Form, SM90, Versions};
use jhalak_ptx::AtomicOperator::*;
use jhalak_ptx::AtomicOrder::*;
use jhalak_ptx::Scope;

const RED_V4: Versions = ["-", "-", "-", "8.1"];

pub fn forms() -> Vec<Form> {
    vec![
        Form::new(ALWAYS, "atom.relaxed.gpu.global.add.u32 %r8, [%rd0], %r0;", |k, i| {
            k.atom_u32(Add, i.rd[0], i.r[0], Relaxed, Scope::Gpu);
        }),
        Form::new(ALWAYS, "atom.relaxed.gpu.global.inc.u32 %r8, [%rd0], %r0;", |k, i| {
            k.atom_u32(Inc, i.rd[0], i.r[0], Relaxed, Scope::Gpu);
        }),
        Form::new(ALWAYS, "atom.relaxed.gpu.global.min.u32 %r8, [%rd0], %r0;", |k, i| {
            k.atom_u32(Min, i.rd[0], i.r[0], Relaxed, Scope::Gpu);
        }),
        Form::new(ALWAYS, "atom.relaxed.gpu.global.max.u32 %r8, [%rd0], %r0;", |k, i| {
            k.atom_u32(Max, i.rd[0], i.r[0], Relaxed, Scope::Gpu);
        }),
        Form::new(ALWAYS, "atom.relaxed.gpu.global.and.b32 %r8, [%rd0], %r0;", |k, i| {
            k.atom_u32(And, i.rd[0], i.r[0], Relaxed, Scope::Gpu);
        }),
        Form::new(ALWAYS, "atom.relaxed.gpu.global.or.b32 %r8, [%rd0], %r0;", |k, i| {
            k.atom_u32(Or, i.rd[0], i.r[0], Relaxed, Scope::Gpu);
        }),
        Form::new(ALWAYS, "atom.relaxed.gpu.global.xor.b32 %r8, [%rd0], %r0;", |k, i| {
            k.atom_u32(Xor, i.rd[0], i.r[0], Relaxed, Scope::Gpu);
        }),
        Form::new(ALWAYS, "atom.relaxed.gpu.global.exch.b32 %r8, [%rd0], %r0;", |k, i| {
            k.atom_u32(Exch, i.rd[0], i.r[0], Relaxed, Scope::Gpu);
        }),
        Form::new(ALWAYS, "atom.acq_rel.cta.shared.add.u32 %r8, [%r0+8], 1;", |k, i| {
            k.atom_u32(Add, (i.r[0], 8), 1, AcqRel, Scope::Cta);
        }),
        Form::new(ALWAYS, "atom.acquire.sys.global.max.s32 %r8, [%rd0], %r0;", |k, i| {
            k.atom_s32(Max, i.rd[0], i.r[0], Acquire, Scope::Sys);
        }),
        Form::new(ALWAYS, "atom.release.gpu.global.add.u64 %rd4, [%rd0], %rd1;", |k, i| {
            k.atom_u64(Add, i.rd[0], i.rd[1], Release, Scope::Gpu);
        }),
        Form::new(ALWAYS, "atom.relaxed.gpu.global.exch.b64 %rd4, [%rd0], %rd1;", |k, i| {
            k.atom_u64(Exch, i.rd[0], i.rd[1], Relaxed, Scope::Gpu);
        }),
        Form::new(ALWAYS, "atom.relaxed.gpu.global.add.f32 %f8, [%rd0], %f0;", |k, i| {
            k.atom_add_f32(i.rd[0], i.f[0], Relaxed, Scope::Gpu);
        }),
        Form::new(ALWAYS, "atom.relaxed.gpu.global.cas.b32 %r8, [%rd0], %r0, %r1;", |k, i| {
            k.atom_cas_b32(i.rd[0], i.r[0], i.r[1], Relaxed, Scope::Gpu);
        }),
        Form::new(ALWAYS, "red.release.gpu.global.add.u32 [%rd0], 1;", |k, i| {
            k.red_u32(Add, i.rd[0], 1, Release, Scope::Gpu);
        }),
        Form::new(ALWAYS, "red.relaxed.cta.shared.or.b32 [%r0], %r1;", |k, i| {
            k.red_u32(Or, i.r[0], i.r[1], Relaxed, Scope::Cta);
        }),
        Form::new(ALWAYS, "red.relaxed.gpu.global.min.s32 [%rd0], %r0;", |k, i| {
            k.red_s32(Min, i.rd[0], i.r[0], Relaxed, Scope::Gpu);
        }),
        Form::new(ALWAYS, "red.relaxed.gpu.global.max.u64 [%rd0], %rd1;", |k, i| {
            k.red_u64(Max, i.rd[0], i.rd[1], Relaxed, Scope::Gpu);
        }),
        Form::new(ALWAYS, "red.relaxed.gpu.global.add.f32 [%rd0], %f0;", |k, i| {
            k.red_add_f32(i.rd[0], i.f[0], Relaxed, Scope::Gpu);
        }),
        Form::new(ALWAYS, "red.relaxed.gpu.global.add.noftz.f16x2 [%rd0+4], %r0;", |k, i| {
            k.red_add_f16x2((i.rd[0], 4), i.r[0], Scope::Gpu);
        }),
        Form::new(SM90, "red.relaxed.cta.global.add.noftz.bf16x2 [%rd0], %r0;", |k, i| {
            k.red_add_bf16x2(i.rd[0], i.r[0], Scope::Cta);
        }),
        Form::new(
            RED_V4,
            "red.relaxed.gpu.global.add.v4.f32 [%rd0], {%f0, %f1, %f2, %f3};",
            |k, i| {
                k.red_add_v4_f32(i.rd[0], [i.f[0], i.f[1], i.f[2], i.f[3]], Scope::Gpu, None);
            },
        ),
        Form::new(
            RED_V4,
            "red.relaxed.gpu.global.add.L2::cache_hint.v4.f32 [%rd0], {%f0, %f1, %f2, %f3}, %rd1;",
            |k, i| {
                k.red_add_v4_f32(
                    i.rd[0],
                    [i.f[0], i.f[1], i.f[2], i.f[3]],
                    Scope::Gpu,
                    Some(i.rd[1]),
                );
            },
        ),
    ]
}
