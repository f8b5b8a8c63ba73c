//! The sum of two vectors: four elements a thread, and a tail of single ones.

use jhalak_ptx::Comparison::{Ge, Gt};
use jhalak_ptx::{Error, F32, KernelBuilder, ModuleBuilder, Target};

use crate::program::{Argument, Buffer, Element, Launch, Program, Use};
use crate::reference::Meaning;

const THREADS: u32 = 256;
const PER_THREAD: u32 = 4;
const NAME: &str = "vector_add";

/// `sum = a + b`, each of `count` floats.
///
/// # Errors
///
/// Whatever [`ModuleBuilder::build`] finds.
pub fn vector_add(target: Target, count: u32) -> Result<Program, Error> {
    let mut module = ModuleBuilder::new(target);
    module.kernel(NAME, write);
    let buffer = |name, usage| Buffer { name, element: Element::F32, len: count as usize, usage };
    let launch = Launch {
        kernel: NAME,
        grid: count.div_ceil(THREADS * PER_THREAD),
        block: THREADS,
        shared_bytes: 0,
        buffers: vec![buffer("a", Use::Input), buffer("b", Use::Input), buffer("sum", Use::Output)],
        arguments: vec![
            Argument::Address(0),
            Argument::Address(1),
            Argument::Address(2),
            Argument::U32(count),
        ],
    };
    Ok(Program { module: module.build()?, launch, meaning: Meaning::Sum })
}

fn write(k: &mut KernelBuilder) {
    k.maxntid(THREADS);
    let pointers = ["a", "b", "sum"].map(|name| k.param_pointer(name, 16));
    let count = k.param_u32("count");
    let (thread, block) = (k.tid_x(), k.ctaid_x());
    let index = k.mad_lo_u32(block, THREADS, thread);
    let first = k.mul_lo_u32(index, PER_THREAD);
    let count = k.ld_param(count);
    let outside = k.setp_u32(Ge, first, count);
    k.when(outside, |k| k.ret());

    let places = pointers.map(|pointer| {
        let pointer = k.ld_param(pointer);
        k.mad_wide_u32(first, 4, pointer)
    });
    let left = k.sub_u32(count, first);
    let partial = k.setp_u32(Gt, PER_THREAD, left);
    k.if_else(
        partial,
        |k| {
            k.for_range(0, left, 1, |k, i| {
                let [a, b, sum] = places.map(|place| k.mad_wide_u32(i, 4, place));
                let (a, b): (F32, F32) = (k.ld(a), k.ld(b));
                let total = k.add_f32(a, b);
                k.st(sum, total);
            });
        },
        |k| {
            let [a, b, sum] = places;
            let (a, b): ([F32; 4], [F32; 4]) = (k.ld_vector(a), k.ld_vector(b));
            let total: [F32; 4] = std::array::from_fn(|i| k.add_f32(a[i], b[i]));
            k.st_vector(sum, total);
        },
    );
}
