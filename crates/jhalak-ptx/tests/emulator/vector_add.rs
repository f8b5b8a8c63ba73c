//! The sum of two vectors, with a tail that diverges.

use jhalak_ptx::Comparison::Ge;
use jhalak_ptx::emulator::{Launch, Memory};
use jhalak_ptx::{F32, KernelBuilder};

use crate::{for_seeds, module};

fn vector_add(k: &mut KernelBuilder) {
    let [a, b, sum] = ["a", "b", "sum"].map(|name| k.param_pointer(name, 4));
    let count = k.param_u32("count");
    let (thread, block) = (k.tid_x(), k.ctaid_x());
    let index = k.mad_lo_u32(block, 64, thread);
    let count = k.ld_param(count);
    let outside = k.setp_u32(Ge, index, count);
    k.if_(!outside, |k| {
        let [a, b, sum] = [a, b, sum].map(|pointer| {
            let pointer = k.ld_param(pointer);
            k.mad_wide_u32(index, 4, pointer)
        });
        let (a, b): (F32, F32) = (k.ld(a), k.ld(b));
        let total = k.add_f32(a, b);
        k.st(sum, total);
    });
}

#[test]
fn a_vector_sum_has_every_element_and_touches_nothing_else() {
    let module = module(vector_add);
    let count = 150;
    let a: Vec<f32> = (0..count).map(|i| i as f32).collect();
    let b: Vec<f32> = (0..count).map(|i| 0.5 * i as f32).collect();
    for_seeds(|seed| {
        let mut memory = Memory::new();
        let [a, b] = [memory.alloc(&a), memory.alloc(&b)];
        let sum = memory.alloc_uninitialised(4 * count as usize);
        let launch = Launch::new(&module, "kernel").grid(3, 1, 1).block(64).seed(seed);
        launch.arg(a).arg(b).arg(sum).arg(count).run(&mut memory)?;
        let sums: Vec<f32> = memory.read(sum, count as usize)?;
        assert!(sums.iter().enumerate().all(|(i, sum)| *sum == 1.5 * i as f32));
        Ok(())
    });
}
