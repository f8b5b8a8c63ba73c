//! The sum of a block's numbers, through shared memory and a tree of barriers.

use jhalak_ptx::Comparison::{Eq, Lt};
use jhalak_ptx::emulator::{Launch, Memory};
use jhalak_ptx::{F32, KernelBuilder};

use crate::{for_seeds, module};

fn block_sum(k: &mut KernelBuilder) {
    k.reqntid(128);
    let (values, sums) = (k.param_pointer("values", 4), k.param_pointer("sums", 4));
    let partial = k.static_shared("partial", 128 * 4, 16);
    let (thread, block) = (k.tid_x(), k.ctaid_x());
    let (values, sums) = (k.ld_param(values), k.ld_param(sums));
    let index = k.mad_lo_u32(block, 128, thread);
    let place = k.mad_wide_u32(index, 4, values);
    let value: F32 = k.ld(place);
    let base = k.shared_address(partial);
    let own = k.mad_lo_u32(thread, 4, base);
    k.st(own, value);
    for half in [64, 32, 16, 8, 4, 2, 1] {
        k.bar_sync_all();
        let below = k.setp_u32(Lt, thread, half);
        k.if_(below, |k| {
            let (a, b): (F32, F32) = (k.ld(own), k.ld((own, 4 * half)));
            let sum = k.add_f32(a, b);
            k.st(own, sum);
        });
    }
    let first = k.setp_u32(Eq, thread, 0);
    k.when(first, |k| {
        let sum: F32 = k.ld(own);
        let place = k.mad_wide_u32(block, 4, sums);
        k.st(place, sum);
    });
}

#[test]
fn a_tree_of_barriers_sums_a_block() {
    let module = module(block_sum);
    let values: Vec<f32> = (0..5 * 128).map(|i| (i % 97) as f32).collect();
    for_seeds(|seed| {
        let mut memory = Memory::new();
        let device = memory.alloc(&values);
        let sums = memory.alloc_uninitialised(5 * 4);
        let launch = Launch::new(&module, "kernel").grid(5, 1, 1).block(128).seed(seed);
        launch.arg(device).arg(sums).run(&mut memory)?;
        let expected: Vec<f32> = values.chunks(128).map(|block| block.iter().sum()).collect();
        assert_eq!(memory.read::<f32>(sums, 5)?, expected);
        Ok(())
    });
}
