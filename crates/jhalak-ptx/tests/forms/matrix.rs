//! Matrices: loads and products.

use super::case::{Form, SM80, SM90, Versions};
use jhalak_ptx::B32;

const SM75_IN_6_5: Versions = ["6.5", "7.0", "7.8", "8.0"];
const MOVMATRIX: Versions = ["7.8", "7.8", "7.8", "8.0"];
const E4M3: Versions = ["-", "-", "8.4", "8.4"];

pub fn forms() -> Vec<Form> {
    vec![
        Form::new(SM75_IN_6_5, "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r8}, [%r0];", |k, i| {
            let _: [B32; 1] = k.ldmatrix(i.r[0]);
        }),
        Form::new(
            SM75_IN_6_5,
            "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r8}, [%r0+16];",
            |k, i| {
                let _: [B32; 1] = k.ldmatrix_trans((i.r[0], 16));
            },
        ),
        Form::new(
            SM75_IN_6_5,
            "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r8, %r9}, [%r0];",
            |k, i| {
                let _: [B32; 2] = k.ldmatrix(i.r[0]);
            },
        ),
        Form::new(
            SM75_IN_6_5,
            "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r8, %r9}, [%r0+16];",
            |k, i| {
                let _: [B32; 2] = k.ldmatrix_trans((i.r[0], 16));
            },
        ),
        Form::new(
            SM75_IN_6_5,
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r8, %r9, %r10, %r11}, [%r0];",
            |k, i| {
                let _: [B32; 4] = k.ldmatrix(i.r[0]);
            },
        ),
        Form::new(
            SM75_IN_6_5,
            "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r8, %r9, %r10, %r11}, [%r0+16];",
            |k, i| {
                let _: [B32; 4] = k.ldmatrix_trans((i.r[0], 16));
            },
        ),
        Form::new(SM90, "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r0], {%r1};", |k, i| {
            k.stmatrix(i.r[0], [i.r[1]]);
        }),
        Form::new(
            SM90,
            "stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%r0+16], {%r1};",
            |k, i| {
                k.stmatrix_trans((i.r[0], 16), [i.r[1]]);
            },
        ),
        Form::new(SM90, "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r0], {%r1, %r2};", |k, i| {
            k.stmatrix(i.r[0], [i.r[1], i.r[2]]);
        }),
        Form::new(
            SM90,
            "stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%r0+16], {%r1, %r2};",
            |k, i| {
                k.stmatrix_trans((i.r[0], 16), [i.r[1], i.r[2]]);
            },
        ),
        Form::new(
            SM90,
            "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r0], {%r1, %r2, %r3, %r4};",
            |k, i| {
                k.stmatrix(i.r[0], [i.r[1], i.r[2], i.r[3], i.r[4]]);
            },
        ),
        Form::new(
            SM90,
            "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%r0+16], {%r1, %r2, %r3, %r4};",
            |k, i| {
                k.stmatrix_trans((i.r[0], 16), [i.r[1], i.r[2], i.r[3], i.r[4]]);
            },
        ),
        Form::new(MOVMATRIX, "movmatrix.sync.aligned.m8n8.trans.b16 %r8, %r0;", |k, i| {
            k.movmatrix_trans(i.r[0]);
        }),
        Form::new(
            SM75_IN_6_5,
            "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1}, {%r4}, {%f4, %f5, %f6, %f7};",
            |k, i| {
                let [d0, d1, d2, d3, c0, c1, c2, c3] = i.f;
                k.mma_m16n8k8_f16([d0, d1, d2, d3], [i.r[0], i.r[1]], [i.r[4]], [c0, c1, c2, c3]);
            },
        ),
        Form::new(
            SM80,
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f4, %f5, %f6, %f7};",
            |k, i| {
                let [d0, d1, d2, d3, c0, c1, c2, c3] = i.f;
                k.mma_m16n8k16_f16(
                    [d0, d1, d2, d3],
                    [i.r[0], i.r[1], i.r[2], i.r[3]],
                    [i.r[4], i.r[5]],
                    [c0, c1, c2, c3],
                );
            },
        ),
        Form::new(
            SM80,
            "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1}, {%r4}, {%f4, %f5, %f6, %f7};",
            |k, i| {
                let [d0, d1, d2, d3, c0, c1, c2, c3] = i.f;
                k.mma_m16n8k8_bf16([d0, d1, d2, d3], [i.r[0], i.r[1]], [i.r[4]], [c0, c1, c2, c3]);
            },
        ),
        Form::new(
            SM80,
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f4, %f5, %f6, %f7};",
            |k, i| {
                let [d0, d1, d2, d3, c0, c1, c2, c3] = i.f;
                k.mma_m16n8k16_bf16(
                    [d0, d1, d2, d3],
                    [i.r[0], i.r[1], i.r[2], i.r[3]],
                    [i.r[4], i.r[5]],
                    [c0, c1, c2, c3],
                );
            },
        ),
        Form::new(
            SM80,
            "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1}, {%r4}, {%f4, %f5, %f6, %f7};",
            |k, i| {
                let [d0, d1, d2, d3, c0, c1, c2, c3] = i.f;
                k.mma_m16n8k4_tf32([d0, d1, d2, d3], [i.r[0], i.r[1]], [i.r[4]], [c0, c1, c2, c3]);
            },
        ),
        Form::new(
            SM80,
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f4, %f5, %f6, %f7};",
            |k, i| {
                let [d0, d1, d2, d3, c0, c1, c2, c3] = i.f;
                k.mma_m16n8k8_tf32(
                    [d0, d1, d2, d3],
                    [i.r[0], i.r[1], i.r[2], i.r[3]],
                    [i.r[4], i.r[5]],
                    [c0, c1, c2, c3],
                );
            },
        ),
        Form::new(
            E4M3,
            "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f4, %f5, %f6, %f7};",
            |k, i| {
                let [d0, d1, d2, d3, c0, c1, c2, c3] = i.f;
                k.mma_m16n8k32_e4m3(
                    [d0, d1, d2, d3],
                    [i.r[0], i.r[1], i.r[2], i.r[3]],
                    [i.r[4], i.r[5]],
                    [c0, c1, c2, c3],
                );
            },
        ),
    ]
}
