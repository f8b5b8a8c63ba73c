//! How fast the matrix products by warpgroups are. Figures for whoever runs them beside cuBLAS.

use jhalak_cuda::driver::Context;
use jhalak_programs::{Program, Size, matmul_fp8, matmul_wgmma, matmul_wgmma_registers};
use jhalak_ptx::Major;

use crate::device::OnDevice;
use crate::shared::gpu;

const SIZE: u32 = 8192;

/// The median of ten launches, in TFLOP/s.
fn rate(context: &Context, program: &Program) -> f64 {
    let stream = context.stream().unwrap();
    let placed = OnDevice::new(context, program, &program.inputs(1));
    let mut rates = Vec::new();
    for round in 0..15 {
        let (start, end) = (context.event().unwrap(), context.event().unwrap());
        start.record(&stream).unwrap();
        placed.run(&stream);
        end.record(&stream).unwrap();
        end.synchronize().unwrap();
        let seconds = f64::from(start.milliseconds_until(&end).unwrap()) / 1e3;
        if round >= 5 {
            rates.push(2.0 * f64::from(SIZE).powi(3) / seconds / 1e12);
        }
    }
    // Nothing is left as it was: every element is a number.
    assert!(placed.output(&stream).iter().all(|value| value.is_finite()));
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

#[test]
#[ignore = "needs an NVIDIA GPU: make test-gpu"]
fn large_products_tell_their_rates() {
    let context = gpu();
    let properties = context.device().properties().unwrap();
    if properties.compute_capability != (9, 0) {
        let found = properties.compute_capability;
        println!("NOT TESTED: wgmma needs compute capability 9.0, this GPU has {found:?}");
        return;
    }
    let (size, blocks) = (Size { m: SIZE, n: SIZE, k: SIZE }, properties.multiprocessors);
    let programs = [
        ("matmul_wgmma_k_major", matmul_wgmma(size, Major::K, blocks)),
        ("matmul_wgmma_mn_major", matmul_wgmma(size, Major::Mn, blocks)),
        ("matmul_wgmma_registers", matmul_wgmma_registers(size, blocks)),
        ("matmul_fp8", matmul_fp8(size, blocks)),
    ];
    for (name, program) in programs {
        println!("{name} {SIZE}^3: median {:.0} TFLOP/s", rate(&context, &program.unwrap()));
    }
}
