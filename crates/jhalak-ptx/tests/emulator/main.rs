//! What the emulator computes, and that it lets good programs pass.

mod block_reduction;
mod vector_add;

use jhalak_ptx::{KernelBuilder, Module, ModuleBuilder, Target};

/// A module of one kernel, `kernel`, for the newest target.
fn module(body: impl FnOnce(&mut KernelBuilder)) -> Module {
    let mut module = ModuleBuilder::new(Target::Sm90a);
    module.kernel("kernel", body);
    module.build().unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a program once for each of many seeds.
fn for_seeds(run: impl Fn(u64) -> Result<(), Box<dyn std::error::Error + Send + Sync>> + Sync) {
    if let Err((seed, error)) = jhalak_ptx::emulator::run_seeds(0..100, run) {
        panic!("seed {seed}: {error}");
    }
}
