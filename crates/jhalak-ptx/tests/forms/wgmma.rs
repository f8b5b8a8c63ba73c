//! Products of a warpgroup, and descriptors.

use super::case::{ALWAYS, Form, SM90};
use jhalak_ptx::{B32, B64, Descriptor, F32, KernelBuilder, Major, MatrixLayout, Swizzle};

const PANEL: MatrixLayout = MatrixLayout::k_major(Swizzle::Bytes128);
const WIDE: MatrixLayout = MatrixLayout::mn_major(Swizzle::Bytes128, 16384);

/// A descriptor that begins in a register. It takes `%r8`, `%r9` and so on, `%rd4` and so on.
fn at(k: &mut KernelBuilder, place: B32, layout: MatrixLayout) -> Descriptor {
    k.descriptor(place, layout)
}

pub fn forms() -> Vec<Form> {
    [descriptors(), products(), order()].concat()
}

fn descriptors() -> Vec<Form> {
    vec![
        Form::new(
            ALWAYS,
            "bfe.u32 %r8, %r0, 4, 14;\nor.b32 %r8, %r8, 0x10000;\nmov.b32 %r9, 0x40000040;\nmov.b64 %rd4, {%r8, %r9};",
            |k, i| {
                at(k, i.r[0], PANEL);
            },
        ),
        Form::new(
            ALWAYS,
            "mov.b32 %r8, form_dynamic+1024;\nbfe.u32 %r9, %r8, 4, 14;\nor.b32 %r9, %r9, 0x4000000;\nmov.b32 %r10, 0x40000040;\nmov.b64 %rd4, {%r9, %r10};",
            |k, _| {
                let tile = k.dynamic_shared("tile", 2048, 1024);
                k.descriptor((tile, 1024), WIDE);
            },
        ),
        Form::new(
            ALWAYS,
            "add.u32 %r8, %r0, 512;\nbfe.u32 %r9, %r8, 4, 14;\nor.b32 %r9, %r9, 0x10000;\nmov.b32 %r10, 0x80000020;\nmov.b64 %rd4, {%r9, %r10};",
            |k, i| {
                k.descriptor((i.r[0], 512), MatrixLayout::k_major(Swizzle::Bytes64));
            },
        ),
        Form::new(
            ALWAYS,
            "bfe.u32 %r8, %r0, 4, 14;\nor.b32 %r8, %r8, 0x10000;\nmov.b32 %r9, 0xc0000010;\nmov.b64 %rd4, {%r8, %r9};\nadd.u64 %rd5, %rd4, 2;\nadd.u64 %rd6, %rd4, 0xfffffffffffffffe;\nmad.wide.u32 %rd7, %r1, 1024, %rd4;",
            |k, i| {
                let first = at(k, i.r[0], MatrixLayout::k_major(Swizzle::Bytes32));
                k.descriptor_advance(first, 0);
                k.descriptor_advance(first, 32);
                k.descriptor_advance(first, -32);
                k.descriptor_at(first, i.r[1], 16384);
            },
        ),
        Form::new(
            ALWAYS,
            "bfe.u32 %r8, %r0, 4, 14;\nor.b32 %r8, %r8, 0x80000;\nmov.b32 %r9, 16;\nmov.b64 %rd4, {%r8, %r9};",
            |k, i| {
                at(k, i.r[0], MatrixLayout::unswizzled(Major::K, 128, 256));
            },
        ),
    ]
}

/// What `at` writes before the product.
macro_rules! after_descriptors {
    ($text:literal) => {
        concat!(
            "bfe.u32 %r8, %r0, 4, 14;\nor.b32 %r8, %r8, 0x10000;\nmov.b32 %r9, 0x40000040;\nmov.b64 %rd4, {%r8, %r9};\n",
            $text
        )
    };
}

fn products() -> Vec<Form> {
    vec![
        Form::new(
            SM90,
            after_descriptors!(
                "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd4, %rd4, %p0, 1, 1, 0, 0;"
            ),
            |k, i| {
                let tile = at(k, i.r[0], PANEL);
                k.wgmma_bf16(&i.f[..4], tile, tile, i.p[0]);
            },
        ),
        Form::new(
            SM90,
            after_descriptors!(
                "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, %rd4, %rd4, 0, -1, 1, 0, 0;"
            ),
            |k, i| {
                let tile = at(k, i.r[0], PANEL);
                k.wgmma_f16(&i.f, -tile, tile, false);
            },
        ),
        Form::new(
            SM90,
            after_descriptors!(
                "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, %rd4, 1, 1, -1, 0;"
            ),
            |k, i| {
                let tile = at(k, i.r[0], PANEL);
                let a = [i.r[0], i.r[1], i.r[2], i.r[3]];
                k.wgmma_bf16(&i.f[..4], a, -tile, true);
            },
        ),
        Form::new(
            SM90,
            after_descriptors!(
                "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f0, %f1, %f2, %f3}, %rd4, %rd4, %p0, 1, 1;"
            ),
            |k, i| {
                let tile = at(k, i.r[0], PANEL);
                k.wgmma_e4m3(&i.f[..4], tile, tile, i.p[0]);
            },
        ),
        Form::new(
            SM90,
            after_descriptors!(
                "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, %rd4, %p0, 1, 1;"
            ),
            |k, i| {
                let tile = at(k, i.r[0], PANEL);
                let a = [i.r[0], i.r[1], i.r[2], i.r[3]];
                k.wgmma_e4m3(&i.f[..4], a, tile, i.p[0]);
            },
        ),
        Form::new(SM90, MN_MAJOR, |k, i| {
            let rows = at(k, i.r[0], WIDE);
            k.wgmma_f16(&i.f[..4], rows, rows, true);
            k.wgmma_f16(&i.f[..4], [i.r[0], i.r[1], i.r[2], i.r[3]], rows, true);
        }),
    ]
}

const MN_MAJOR: &str = "bfe.u32 %r8, %r0, 4, 14;\nor.b32 %r8, %r8, 0x4000000;\nmov.b32 %r9, 0x40000040;\nmov.b64 %rd4, {%r8, %r9};\n\
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd4, %rd4, 1, 1, 1, 1, 1;\n\
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, %rd4, 1, 1, 1, 1;";

fn order() -> Vec<Form> {
    vec![
        Form::new(SM90, "wgmma.fence.sync.aligned;", |k, _| k.wgmma_fence()),
        Form::new(SM90, "wgmma.commit_group.sync.aligned;", |k, _| k.wgmma_commit_group()),
        Form::new(SM90, "wgmma.wait_group.sync.aligned 1;", |k, _| k.wgmma_wait_group(1)),
    ]
}

/// All shapes in one kernel, for judges that read text.
#[test]
fn every_number_of_columns_has_its_name() {
    for columns in (8..=256).step_by(8) {
        let mut module = jhalak_ptx::ModuleBuilder::new(jhalak_ptx::Target::Sm90a);
        module.kernel("shape", |k| {
            let (place, d): (B32, Vec<F32>) = (k.register(), k.fragment(columns / 2));
            let _: B64 = k.register();
            let tile = at(k, place, PANEL);
            k.wgmma_bf16(&d, tile, tile, true);
            k.wgmma_e4m3(&d, tile, tile, true);
        });
        let text = module.build().unwrap().text();
        assert!(text.contains(&format!(".m64n{columns}k16.f32.bf16.bf16 {{%f0, ")), "{text}");
        assert!(text.contains(&format!(".m64n{columns}k32.f32.e4m3.e4m3 {{%f0, ")), "{text}");
    }
}
