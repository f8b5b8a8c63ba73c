//! What Hopper brought: barriers in shared memory, the copy engine, products of a warpgroup.

use super::case::{Form, SM90, Versions};
use jhalak_ptx::{B64, F32, KernelBuilder, ProxySpace, WgmmaLeft, WgmmaRight};

/// `.shared::cta` in the text of an older instruction.
const CTA: Versions = ["-", "7.8", "7.8", "8.0"];
const IN_7_8: Versions = ["7.8", "7.8", "7.8", "8.0"];

pub fn forms() -> Vec<Form> {
    [barriers(), tensors(), pieces(), products()].concat()
}

fn barriers() -> Vec<Form> {
    vec![
        Form::new(CTA, "mbarrier.init.shared::cta.b64 [%r0], 3;", |k, i| {
            k.mbarrier_init(i.r[0], 3)
        }),
        Form::new(CTA, "mbarrier.init.shared::cta.b64 [%r0+8], %r1;", |k, i| {
            k.mbarrier_init((i.r[0], 8), i.r[1])
        }),
        Form::new(CTA, "mbarrier.inval.shared::cta.b64 [%r0];", |k, i| k.mbarrier_inval(i.r[0])),
        Form::new(CTA, "mbarrier.arrive.shared::cta.b64 _, [%r0];", |k, i| {
            k.mbarrier_arrive(i.r[0])
        }),
        Form::new(SM90, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r0], 16384;", |k, i| {
            k.mbarrier_arrive_expect_tx(i.r[0], 16384)
        }),
        Form::new(SM90, "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r0], %r1;", |k, i| {
            k.mbarrier_expect_tx(i.r[0], i.r[1])
        }),
        Form::new(CTA, "mbarrier.test_wait.parity.shared::cta.b64 %p4, [%r0], 1;", |k, i| {
            k.mbarrier_test_wait(i.r[0], 1);
        }),
        Form::new(SM90, "mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r0], %r1;", |k, i| {
            k.mbarrier_try_wait(i.r[0], i.r[1]);
        }),
        Form::new(
            SM90,
            "$L0:\nmbarrier.try_wait.parity.shared::cta.b64 %p4, [%r0], 0;\n@!%p4 bra $L0;\n$L1:",
            |k, i| k.mbarrier_wait(i.r[0], 0),
        ),
        Form::new(CTA, "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r0];", |k, i| {
            k.cp_async_mbarrier_arrive(i.r[0])
        }),
        Form::new(SM90, "fence.mbarrier_init.release.cluster;", |k, _| k.fence_mbarrier_init()),
        Form::new(SM90, "fence.proxy.async.shared::cta;", |k, _| {
            k.fence_proxy_async(ProxySpace::Shared)
        }),
        Form::new(SM90, "fence.proxy.async.global;", |k, _| {
            k.fence_proxy_async(ProxySpace::Global)
        }),
        Form::new(SM90, "fence.proxy.async;", |k, _| k.fence_proxy_async(ProxySpace::All)),
        Form::new(SM90, "setmaxnreg.inc.sync.aligned.u32 240;", |k, _| {
            k.maxntid(384);
            k.setmaxnreg_inc(240);
        }),
        Form::new(SM90, "setmaxnreg.dec.sync.aligned.u32 24;", |k, _| {
            k.maxnreg(168);
            k.setmaxnreg_dec(24);
        }),
        Form::new(SM90, "griddepcontrol.wait;", |k, _| k.griddepcontrol_wait()),
        Form::new(SM90, "griddepcontrol.launch_dependents;", |k, _| {
            k.griddepcontrol_launch_dependents()
        }),
    ]
}

fn tensors() -> Vec<Form> {
    vec![
        Form::new(
            SM90,
            "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r0], [%rd0, {%r1}], [%r2+8];",
            |k, i| k.tma_load(i.r[0], i.rd[0], [i.r[1]], (i.r[2], 8), None),
        ),
        Form::new(
            SM90,
            "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%r0+1024], [%rd0, {%r1, %r2, %r3, %r4}], [%r5], %rd1;",
            |k, i| {
                let place = [i.r[1], i.r[2], i.r[3], i.r[4]];
                k.tma_load((i.r[0], 1024), i.rd[0], place, i.r[5], Some(i.rd[1]));
            },
        ),
        Form::new(
            SM90,
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r0], [%rd0, {64, 0}], [%r2];",
            |k, i| k.tma_load(i.r[0], i.rd[0], [64, 0], i.r[2], None),
        ),
        Form::new(
            SM90,
            "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%rd0, {%r1, %r2, %r3}], [%r0];",
            |k, i| k.tma_store(i.rd[0], [i.r[1], i.r[2], i.r[3]], i.r[0], None),
        ),
        Form::new(
            SM90,
            "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group.L2::cache_hint [%rd0, {%r1, %r2, %r3, %r4, %r5}], [%r0], %rd1;",
            |k, i| {
                let place = [i.r[1], i.r[2], i.r[3], i.r[4], i.r[5]];
                k.tma_store(i.rd[0], place, i.r[0], Some(i.rd[1]));
            },
        ),
        Form::new(
            SM90,
            "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%rd0, {%r1, %r2}], [%r0];",
            |k, i| k.tma_reduce_add(i.rd[0], [i.r[1], i.r[2]], i.r[0], None),
        ),
        Form::new(
            SM90,
            "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd0, {%r1, %r2}];",
            |k, i| k.tma_prefetch(i.rd[0], [i.r[1], i.r[2]]),
        ),
        Form::new(SM90, "prefetch.tensormap [%rd0];", |k, i| k.prefetch_tensor_map(i.rd[0])),
    ]
}

fn pieces() -> Vec<Form> {
    vec![
        Form::new(
            SM90,
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%rd0+16], 256, [%r1];",
            |k, i| k.bulk_load(i.r[0], (i.rd[0], 16), 256, i.r[1], None),
        ),
        Form::new(
            SM90,
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%r0], [%rd0], %r2, [%r1], %rd1;",
            |k, i| k.bulk_load(i.r[0], i.rd[0], i.r[2], i.r[1], Some(i.rd[1])),
        ),
        Form::new(
            SM90,
            "cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r0], 512;",
            |k, i| k.bulk_store(i.rd[0], i.r[0], 512, None),
        ),
        Form::new(
            SM90,
            "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%rd0], [%r0], %r1, %rd1;",
            |k, i| k.bulk_store(i.rd[0], i.r[0], i.r[1], Some(i.rd[1])),
        ),
        Form::new(
            SM90,
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd0], [%r0], 512;",
            |k, i| k.bulk_reduce_add_f32(i.rd[0], i.r[0], 512, None),
        ),
        Form::new(
            SM90,
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.add.f32 [%rd0], [%r0], %r1, %rd1;",
            |k, i| k.bulk_reduce_add_f32(i.rd[0], i.r[0], i.r[1], Some(i.rd[1])),
        ),
        Form::new(SM90, "cp.async.bulk.commit_group;", |k, _| k.bulk_commit_group()),
        Form::new(SM90, "cp.async.bulk.wait_group 0;", |k, _| k.bulk_wait_group(0)),
        Form::new(SM90, "cp.async.bulk.wait_group.read 1;", |k, _| k.bulk_wait_group_read(1)),
        Form::new(SM90, "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r0], {%r1};", |k, i| {
            k.stmatrix(i.r[0], [i.r[1]])
        }),
        Form::new(
            SM90,
            "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%r0+16], {%r1, %r2, %r3, %r4};",
            |k, i| k.stmatrix_trans((i.r[0], 16), [i.r[1], i.r[2], i.r[3], i.r[4]]),
        ),
        Form::new(SM90, "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r0], {%r1, %r2};", |k, i| {
            k.stmatrix(i.r[0], [i.r[1], i.r[2]])
        }),
        Form::new(IN_7_8, "movmatrix.sync.aligned.m8n8.trans.b16 %r8, %r0;", |k, i| {
            k.movmatrix_trans(i.r[0]);
        }),
    ]
}

fn products() -> Vec<Form> {
    vec![
        Form::new(SM90, "wgmma.fence.sync.aligned;", |k, _| k.wgmma_fence()),
        Form::new(SM90, "wgmma.commit_group.sync.aligned;", |k, _| k.wgmma_commit_group()),
        Form::new(SM90, "wgmma.wait_group.sync.aligned 0;", |k, _| k.wgmma_wait_group(0)),
        Form::new(
            SM90,
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd0, %rd1, %p0, 1, 1, 0, 1;",
            |k, i| {
                let a = WgmmaLeft::Shared { descriptor: i.rd[0], transposed: false };
                let b = WgmmaRight { descriptor: i.rd[1], transposed: true };
                k.wgmma_bf16(&i.f[..4], a, b, i.p[0]);
            },
        ),
        Form::new(
            SM90,
            "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, {%r0, %r1, %r2, %r3}, %rd1, 1, 1, 1, 0;",
            |k, i| {
                let a = WgmmaLeft::Registers([i.r[0], i.r[1], i.r[2], i.r[3]]);
                let b = WgmmaRight { descriptor: i.rd[1], transposed: false };
                k.wgmma_f16(&i.f, a, b, true);
            },
        ),
        Form::new(
            SM90,
            "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f0, %f1, %f2, %f3}, %rd0, %rd1, 0, 1, 1;",
            |k, i| {
                let a = WgmmaLeft::Shared { descriptor: i.rd[0], transposed: false };
                let b = WgmmaRight { descriptor: i.rd[1], transposed: false };
                k.wgmma_e4m3(&i.f[..4], a, b, false);
            },
        ),
        Form::new(
            SM90,
            "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, %rd1, %p0, 1, 1;",
            |k, i| {
                let a = WgmmaLeft::Registers([i.r[0], i.r[1], i.r[2], i.r[3]]);
                let b = WgmmaRight { descriptor: i.rd[1], transposed: false };
                k.wgmma_e4m3(&i.f[..4], a, b, i.p[0]);
            },
        ),
    ]
}

/// A product of every width there is.
pub fn every_width(k: &mut KernelBuilder) {
    let [a, b]: [B64; 2] = k.registers();
    for columns in (8..=256).step_by(8) {
        let d: Vec<F32> = k.fragment(columns / 2);
        for &d in &d {
            k.mov_f32_to(d, 0.0);
        }
        k.wgmma_fence();
        let left = WgmmaLeft::Shared { descriptor: a, transposed: false };
        let right = WgmmaRight { descriptor: b, transposed: false };
        k.wgmma_bf16(&d, left, right, true);
        k.wgmma_commit_group();
        k.wgmma_wait_group(0);
    }
}
