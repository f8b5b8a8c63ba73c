//! The sum of two vectors of floats: a grid of any size walks over them.

use jhalak_ptx::{Comparison, Error, F32, Module, ModuleBuilder, Special, Target};

/// Threads of a block.
pub const THREADS: u32 = 256;

/// The kernel `vector_add(a, b, sum, count)`: three pointers to floats, and how many there are.
///
/// # Errors
/// None on the targets there are.
pub fn module(target: Target) -> Result<Module, Error> {
    let mut module = ModuleBuilder::new(target);
    module.kernel("vector_add", |k| {
        k.maxntid(THREADS);
        let pointers = ["a", "b", "sum"].map(|name| k.param_pointer(name, 4));
        let count = k.param_u32("count");
        let pointers = pointers.map(|pointer| k.ld_param(pointer));
        let count = k.ld_param(count);
        let (thread, block) = (k.tid_x(), k.ctaid_x());
        let first = k.mad_lo_u32(block, THREADS, thread);
        let blocks = k.special(Special::NctaidX);
        let step = k.mul_lo_u32(blocks, THREADS);
        let i = k.mov_b32(first);
        k.while_(
            |k| k.setp_u32(Comparison::Lt, i, count),
            |k| {
                let [a, b, sum] = pointers.map(|pointer| k.mad_wide_u32(i, 4, pointer));
                let (a, b): (F32, F32) = (k.ld(a), k.ld(b));
                let total = k.add_f32(a, b);
                k.st(sum, total);
                k.add_u32_to(i, i, step);
            },
        );
    });
    module.build()
}
