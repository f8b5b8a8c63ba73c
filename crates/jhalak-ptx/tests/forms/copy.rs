//! Copies by the copy engine: boxes of tensors, and contiguous bytes.

use super::case::{Form, SM90};

pub fn forms() -> Vec<Form> {
    [tensors(), bytes()].concat()
}

fn tensors() -> Vec<Form> {
    vec![
        Form::new(
            SM90,
            "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r0], [%rd0, {%r1}], [%r2];",
            |k, i| k.tensor_load(i.r[0], i.rd[0], &[i.r[1].into()], i.r[2], None),
        ),
        Form::new(
            SM90,
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%r0+8192], [%rd0, {64, %r1}], [%r2+8], %rd1;",
            |k, i| {
                let corner = [64.into(), i.r[1].into()];
                k.tensor_load((i.r[0], 8192), i.rd[0], &corner, (i.r[2], 8), Some(i.rd[1]));
            },
        ),
        Form::new(
            SM90,
            "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [form_dynamic], [%rd0, {0, %r1, %r2}], [form_static];",
            |k, i| {
                let tile = k.dynamic_shared("tile", 1024, 1024);
                let barrier = k.static_shared("barrier", 8, 8);
                let corner = [0.into(), i.r[1].into(), i.r[2].into()];
                k.tensor_load(tile, i.rd[0], &corner, barrier, None);
            },
        ),
        Form::new(
            SM90,
            "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r0], [%rd0, {0, %r1, 0xffffffff, %r2}], [%r3];",
            |k, i| {
                let corner = [0.into(), i.r[1].into(), (-1).into(), i.r[2].into()];
                k.tensor_load(i.r[0], i.rd[0], &corner, i.r[3], None);
            },
        ),
        Form::new(
            SM90,
            "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r0], [%rd0, {%r1, %r2, %r3, %r4, %r5}], [%r6];",
            |k, i| {
                let corner = [1, 2, 3, 4, 5].map(|axis| i.r[axis].into());
                k.tensor_load(i.r[0], i.rd[0], &corner, i.r[6], None);
            },
        ),
        Form::new(
            SM90,
            "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd0, {0, %r1}], [%r0];",
            |k, i| k.tensor_store(i.rd[0], &[0.into(), i.r[1].into()], i.r[0], None),
        ),
        Form::new(
            SM90,
            "cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group.L2::cache_hint [%rd0, {%r1}], [%r0], %rd1;",
            |k, i| k.tensor_store(i.rd[0], &[i.r[1].into()], i.r[0], Some(i.rd[1])),
        ),
        Form::new(
            SM90,
            "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%rd0, {0, %r1, %r2}], [%r0];",
            |k, i| {
                let corner = [0.into(), i.r[1].into(), i.r[2].into()];
                k.tensor_reduce_add(i.rd[0], &corner, i.r[0], None);
            },
        ),
        Form::new(
            SM90,
            "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group.L2::cache_hint [%rd0, {%r1}], [%r0], %rd1;",
            |k, i| k.tensor_reduce_add(i.rd[0], &[i.r[1].into()], i.r[0], Some(i.rd[1])),
        ),
        Form::new(
            SM90,
            "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd0, {0, %r1}];",
            |k, i| k.tensor_prefetch(i.rd[0], &[0.into(), i.r[1].into()]),
        ),
        Form::new(SM90, "prefetch.tensormap [%rd0];", |k, i| k.prefetch_tensor_map(i.rd[0])),
    ]
}

fn bytes() -> Vec<Form> {
    vec![
        Form::new(
            SM90,
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%rd0+32], 256, [%r1];",
            |k, i| k.bulk_load(i.r[0], (i.rd[0], 32), 256, i.r[1], None),
        ),
        Form::new(
            SM90,
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%r0], [%rd0], %r2, [%r1], %rd1;",
            |k, i| k.bulk_load(i.r[0], i.rd[0], i.r[2], i.r[1], Some(i.rd[1])),
        ),
        Form::new(
            SM90,
            "cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r0], 256;",
            |k, i| k.bulk_store(i.rd[0], i.r[0], 256, None),
        ),
        Form::new(
            SM90,
            "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%rd0], [%r0], %r1, %rd1;",
            |k, i| k.bulk_store(i.rd[0], i.r[0], i.r[1], Some(i.rd[1])),
        ),
        Form::new(
            SM90,
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd0], [%r0], 256;",
            |k, i| k.bulk_reduce_add_f32(i.rd[0], i.r[0], 256, None),
        ),
        Form::new(
            SM90,
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.add.f32 [%rd0], [%r0], %r1, %rd1;",
            |k, i| k.bulk_reduce_add_f32(i.rd[0], i.r[0], i.r[1], Some(i.rd[1])),
        ),
        Form::new(
            SM90,
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16 [%rd0], [%r0], 256;",
            |k, i| k.bulk_reduce_add_f16(i.rd[0], i.r[0], 256, None),
        ),
        Form::new(
            SM90,
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 [%rd0], [%r0], 256;",
            |k, i| k.bulk_reduce_add_bf16(i.rd[0], i.r[0], 256, None),
        ),
        Form::new(SM90, "cp.async.bulk.commit_group;", |k, _| k.bulk_commit_group()),
        Form::new(SM90, "cp.async.bulk.wait_group 1;", |k, _| k.bulk_wait_group(1)),
        Form::new(SM90, "cp.async.bulk.wait_group.read 0;", |k, _| k.bulk_wait_group_read(0)),
    ]
}
