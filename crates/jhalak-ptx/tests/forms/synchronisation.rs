//! Barriers, fences, asynchronous copies, and guards.

use super::case::{ALWAYS, Form, SM80, SM90};
use jhalak_ptx::{AsyncMemory, FenceOrder, Scope};

pub fn forms() -> Vec<Form> {
    vec![
        Form::new(ALWAYS, "bar.sync 0;", |k, _| k.bar_sync_all()),
        Form::new(ALWAYS, "bar.sync 1, 256;", |k, _| k.bar_sync(1, 256)),
        Form::new(ALWAYS, "bar.sync %r0, 160;", |k, i| k.bar_sync(i.r[0], 160)),
        Form::new(ALWAYS, "bar.arrive %r0, 160;", |k, i| k.bar_arrive(i.r[0], 160)),
        Form::new(ALWAYS, "bar.warp.sync 0xffffffff;", |k, _| k.bar_warp_sync()),
        Form::new(ALWAYS, "fence.acq_rel.cta;", |k, _| k.fence(FenceOrder::AcqRel, Scope::Cta)),
        Form::new(ALWAYS, "fence.acq_rel.gpu;", |k, _| k.fence(FenceOrder::AcqRel, Scope::Gpu)),
        Form::new(ALWAYS, "fence.acq_rel.sys;", |k, _| k.fence(FenceOrder::AcqRel, Scope::Sys)),
        Form::new(ALWAYS, "fence.sc.cta;", |k, _| k.fence(FenceOrder::Sc, Scope::Cta)),
        Form::new(ALWAYS, "fence.sc.gpu;", |k, _| k.fence(FenceOrder::Sc, Scope::Gpu)),
        Form::new(ALWAYS, "fence.sc.sys;", |k, _| k.fence(FenceOrder::Sc, Scope::Sys)),
        Form::new(SM90, "fence.mbarrier_init.release.cluster;", |k, _| k.fence_mbarrier_init()),
        Form::new(SM90, "fence.proxy.async;", |k, _| k.fence_proxy_async(AsyncMemory::All)),
        Form::new(SM90, "fence.proxy.async.global;", |k, _| {
            k.fence_proxy_async(AsyncMemory::Global)
        }),
        Form::new(SM90, "fence.proxy.async.shared::cta;", |k, _| {
            k.fence_proxy_async(AsyncMemory::Shared)
        }),
        Form::new(SM90, "setmaxnreg.inc.sync.aligned.u32 240;", |k, _| {
            k.reqntid(384);
            k.minnctapersm(1);
            k.setmaxnreg_inc(240);
        }),
        Form::new(SM90, "setmaxnreg.dec.sync.aligned.u32 24;", |k, _| {
            k.maxnreg(168);
            k.setmaxnreg_dec(24);
        }),
        Form::new(SM90, "griddepcontrol.launch_dependents;", |k, _| {
            k.griddepcontrol_launch_dependents()
        }),
        Form::new(SM90, "griddepcontrol.wait;", |k, _| k.griddepcontrol_wait()),
        Form::new(SM80, "cp.async.ca.shared.global [%r0], [%rd0], 4;", |k, i| {
            k.cp_async(i.r[0], i.rd[0], 4)
        }),
        Form::new(SM80, "cp.async.ca.shared.global [%r0], [%rd0+8], 8;", |k, i| {
            k.cp_async(i.r[0], (i.rd[0], 8), 8)
        }),
        Form::new(SM80, "cp.async.cg.shared.global [%r0+64], [%rd0], 16;", |k, i| {
            k.cp_async((i.r[0], 64), i.rd[0], 16)
        }),
        Form::new(SM80, "cp.async.cg.shared.global [%r0], [%rd0], 16, %r1;", |k, i| {
            k.cp_async_zero_fill(i.r[0], i.rd[0], 16, i.r[1])
        }),
        Form::new(SM80, "cp.async.commit_group;", |k, _| k.cp_async_commit_group()),
        Form::new(SM80, "cp.async.wait_group 1;", |k, _| k.cp_async_wait_group(1)),
        Form::new(ALWAYS, "@%p0 st.global.b32 [%rd0], %r0;", |k, i| {
            k.when(i.p[0], |k| k.st(i.rd[0], i.r[0]))
        }),
        Form::new(ALWAYS, "@!%p0 st.global.b32 [%rd0], %r0;", |k, i| {
            k.when(!i.p[0], |k| k.st(i.rd[0], i.r[0]))
        }),
    ]
}
