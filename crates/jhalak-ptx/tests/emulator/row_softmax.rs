//! The softmax of rows of 128 numbers, a warp for each row, by shuffles.

use jhalak_ptx::emulator::{Launch, Memory};
use jhalak_ptx::{F32, KernelBuilder};

use crate::{for_seeds, module};

fn all_lanes(
    k: &mut KernelBuilder,
    mut value: F32,
    combine: impl Fn(&mut KernelBuilder, F32, F32) -> F32,
) -> F32 {
    for distance in [16, 8, 4, 2, 1] {
        let other = k.shfl_bfly_f32(value, distance);
        value = combine(k, value, other);
    }
    value
}

fn softmax(k: &mut KernelBuilder) {
    let (rows, out) = (k.param_pointer("rows", 16), k.param_pointer("out", 16));
    let (rows, out) = (k.ld_param(rows), k.ld_param(out));
    let (thread, block) = (k.tid_x(), k.ctaid_x());
    let first = k.mad_lo_u32(block, 128, thread);
    let [from, to] = [rows, out].map(|base| k.mad_wide_u32(first, 16, base));
    let x: [F32; 4] = k.ld_vector(from);
    let max = x.into_iter().reduce(|a, b| k.max_f32(a, b)).unwrap();
    let max = all_lanes(k, max, |k, a, b| k.max_f32(a, b));
    let e = x.map(|x| {
        let below = k.sub_f32(x, max);
        let scaled = k.mul_f32(below, std::f32::consts::LOG2_E);
        k.ex2_f32(scaled)
    });
    let sum = e.into_iter().reduce(|a, b| k.add_f32(a, b)).unwrap();
    let sum = all_lanes(k, sum, |k, a, b| k.add_f32(a, b));
    let scale = k.rcp_f32(sum);
    let y = e.map(|e| k.mul_f32(e, scale));
    k.st_vector(to, y);
}

#[test]
fn a_row_softmax_by_shuffles_is_that_of_rust() {
    let module = module(softmax);
    let rows: Vec<f32> = (0..8 * 128).map(|i| ((i * 37) % 101) as f32 / 10.0).collect();
    for_seeds(|seed| {
        let mut memory = Memory::new();
        let (from, to) = (memory.alloc(&rows), memory.alloc_uninitialised(4 * rows.len()));
        let launch = Launch::new(&module, "kernel").grid(2, 1, 1).block(128).seed(seed);
        launch.arg(from).arg(to).run(&mut memory)?;
        let out: Vec<f32> = memory.read(to, rows.len())?;
        for (row, out) in rows.chunks(128).zip(out.chunks(128)) {
            let max = row.iter().copied().fold(f32::MIN, f32::max);
            let sum: f64 = row.iter().map(|x| f64::from(x - max).exp()).sum();
            for (x, y) in row.iter().zip(out) {
                let expected = f64::from(x - max).exp() / sum;
                assert!((expected - f64::from(*y)).abs() <= 1e-6 * expected + 1e-9);
            }
        }
        Ok(())
    });
}
