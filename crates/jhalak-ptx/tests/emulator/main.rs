//! What the emulator computes, that it lets good programs pass, and that it finds planted faults.

mod arithmetic;
mod atomics;
mod block_reduction;
mod conversions;
mod faults;
mod host;
mod matrix_product;
mod packed;
mod pipeline;
mod products;
mod row_softmax;
mod tensors;
mod vector_add;
mod warp_wide;

use std::error::Error;

use jhalak_ptx::emulator::{Launch, Memory, run_seeds};
use jhalak_ptx::{B32, B64, KernelBuilder, Module, ModuleBuilder, Target};

/// A module of one kernel, `kernel`, for the newest target.
fn module(body: impl FnOnce(&mut KernelBuilder)) -> Module {
    let mut module = ModuleBuilder::new(Target::Sm90a);
    module.kernel("kernel", body);
    module.build().unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a program once for each of many seeds.
fn for_seeds(run: impl Fn(u64) -> Result<(), Box<dyn Error + Send + Sync>> + Sync) {
    if let Err((seed, error)) = run_seeds(0..100, run) {
        panic!("seed {seed}: {error}");
    }
}

/// Words that N inputs become, one thread for each row of inputs.
fn evaluate<const N: usize>(
    inputs: &[[u32; N]],
    body: impl FnOnce(&mut KernelBuilder, [B32; N]) -> B32,
) -> Vec<u32> {
    let module = module(|k| {
        let [input, output] = ["input", "output"].map(|name| k.param_pointer(name, 4));
        let [input, output]: [B64; 2] = [k.ld_param(input), k.ld_param(output)];
        let thread = thread_of_grid(k);
        let row = k.mad_wide_u32(thread, 4 * N as u32, input);
        let values = std::array::from_fn(|i| k.ld((row, 4 * i as u32)));
        let result = body(k, values);
        let place = k.mad_wide_u32(thread, 4, output);
        k.st(place, result);
    });
    let mut padded = inputs.to_vec();
    padded.resize(inputs.len().next_multiple_of(32), [1; N]);
    let mut memory = Memory::new();
    let input = memory.alloc(&padded.concat());
    let output = memory.alloc_uninitialised(4 * padded.len());
    let blocks = (padded.len() / 32) as u32;
    let launch = Launch::new(&module, "kernel").grid(blocks, 1, 1).block(32);
    launch.arg(input).arg(output).run(&mut memory).unwrap_or_else(|report| panic!("{report}"));
    memory.read(output, inputs.len()).unwrap_or_else(|fault| panic!("{fault}"))
}

/// The thread's number in a grid of blocks of 32 threads.
fn thread_of_grid(k: &mut KernelBuilder) -> B32 {
    let (thread, block) = (k.tid_x(), k.ctaid_x());
    k.mad_lo_u32(block, 32, thread)
}

/// All pairs of values.
fn pairs(values: &[u32]) -> Vec<[u32; 2]> {
    values.iter().flat_map(|a| values.iter().map(|b| [*a, *b])).collect()
}
