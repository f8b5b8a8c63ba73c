//! The gradient of the sinks: Σ exp(sink − lse) · (dlse − delta) over all rows of a head.
//!
//! A head has one block, which adds in a fixed order: equal calls give equal bits. Rows that are
//! not used have a delta' of 0, and whatever else they hold adds nothing.

use jhalak_ptx::Comparison::{Eq, Ge, Lt, Neu};
use jhalak_ptx::{B32, B64, Error, F32, KernelBuilder, Module, ModuleBuilder, Target};

use super::super::class::{row_parameters, tensor_parameters};
use super::super::element::Element;
use super::super::parameters::{Axis, Inputs, Parameter, Tensor};
use super::compensated::Compensated;

/// The name of the kernel in its module.
pub const DSINKS: &str = "dsinks";

const WARP: u32 = 32;
const LOG2_E: f32 = std::f32::consts::LOG2_E;

/// The class of a kernel that computes the gradient of the sinks. Its grid is (heads).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DsinksClass {
    /// The architecture it is written for.
    pub target: Target,
    /// The type of the sinks.
    pub sinks: Element,
    /// The type of their gradient.
    pub dsinks: Element,
    /// Whether it is added to floats that are there.
    pub adds: bool,
}

impl DsinksClass {
    /// Threads of a block.
    pub const THREADS: u32 = 1024;

    /// The parameters of the kernel, in order.
    pub fn parameters(&self) -> Vec<Parameter> {
        let heads = |tensor| tensor_parameters(tensor, [Some(Axis::Head), None, None, None]);
        let mut list = [heads(Tensor::Sinks), heads(Tensor::Dsinks)].concat();
        list.extend([Tensor::Lse, Tensor::Delta].map(row_parameters).concat());
        list.extend([Parameter::Storages, Parameter::RowsQ]);
        list
    }
}

/// The module of a class.
///
/// # Errors
///
/// Whatever [`ModuleBuilder::build`] finds: sm_75 has no bf16.
pub fn dsinks(class: &DsinksClass) -> Result<Module, Error> {
    let mut module = ModuleBuilder::new(class.target);
    module.kernel(DSINKS, |k| write(k, class));
    module.build()
}

fn write(k: &mut KernelBuilder, class: &DsinksClass) {
    k.maxntid(DsinksClass::THREADS);
    let inputs = Inputs::declare(k, &class.parameters());
    let (thread, head) = (k.tid_x(), k.ctaid_x());
    let of_head = |k: &mut KernelBuilder, tensor| {
        let base = inputs.base(k, tensor);
        inputs.advance(k, base, head, tensor, Axis::Head)
    };
    let place = of_head(k, Tensor::Sinks);
    let sink = class.sinks.load(k, place);
    let sum = Compensated::zero(k);
    let (lse, delta) = (of_head(k, Tensor::Lse), of_head(k, Tensor::Delta));
    for_each_row(k, &inputs, thread, |k, storage, i| {
        let number = |k: &mut KernelBuilder, head: B64, tensor| -> F32 {
            let row = inputs.advance(k, head, storage, tensor, Axis::Batch);
            let row = inputs.advance(k, row, i, tensor, Axis::Row);
            k.ld(row)
        };
        let (lse, delta) = (number(k, lse, Tensor::Lse), number(k, delta, Tensor::Delta));
        let exponent = k.sub_f32(sink, lse);
        let exponent = k.mul_f32(exponent, LOG2_E);
        let weight = k.ex2_f32(exponent);
        let term = k.mul_f32(weight, delta);
        let term = k.neg_f32(term);
        let counts = k.setp_f32(Neu, delta, 0.0);
        let term = k.selp_f32(term, 0.0, counts);
        sum.add(k, term);
    });
    over_block(k, thread, sum);
    let last = k.setp_u32(Eq, thread, 0);
    let place = of_head(k, Tensor::Dsinks);
    k.if_(last, |k| {
        // A sink of −∞ is none.
        let none = k.setp_f32(Eq, sink, f32::NEG_INFINITY);
        for part in [sum.sum, sum.dropped] {
            k.selp_f32_to(part, 0.0, part, none);
        }
        if class.adds {
            let before = class.dsinks.load(k, place);
            sum.add(k, before);
        }
        let value = sum.value(k);
        class.dsinks.store(k, place, value);
    });
}

/// Runs the body for the thread's rows: the sequence's index in dense tensors, and the row in it.
fn for_each_row(
    k: &mut KernelBuilder,
    inputs: &Inputs,
    thread: B32,
    body: impl FnOnce(&mut KernelBuilder, B32, B32),
) {
    let (storages, rows) = (inputs.u32(k, Parameter::Storages), inputs.u32(k, Parameter::RowsQ));
    let empty = k.setp_u32(Eq, rows, 0);
    let storages = k.selp_b32(0, storages, empty);
    let rows = k.selp_b32(1, rows, empty);
    let threads = k.mov_b32(DsinksClass::THREADS);
    let (step_storage, step) = (k.div_u32(threads, rows), k.rem_u32(threads, rows));
    let (storage, i) = (k.div_u32(thread, rows), k.rem_u32(thread, rows));
    k.while_(
        |k| k.setp_u32(Lt, storage, storages),
        |k| {
            body(k, storage, i);
            k.add_u32_to(i, i, step);
            k.add_u32_to(storage, storage, step_storage);
            let next = k.setp_u32(Ge, i, rows);
            k.when(next, |k| {
                k.sub_u32_to(i, i, rows);
                k.add_u32_to(storage, storage, 1);
            });
        },
    );
}

/// Adds up the sums of all threads; the whole is in thread 0.
fn over_block(k: &mut KernelBuilder, thread: B32, sum: Compensated) {
    over_warp(k, sum);
    let parts = k.static_shared("parts", 8 * DsinksClass::THREADS / WARP, 8);
    let parts = k.shared_address(parts);
    let (warp, lane) = (k.shr_u32(thread, WARP.ilog2()), k.and_b32(thread, WARP - 1));
    let mine = k.mad_lo_u32(warp, 8, parts);
    let first = k.setp_u32(Eq, lane, 0);
    k.when(first, |k| k.st_vector(mine, [sum.sum, sum.dropped]));
    k.bar_sync_all();
    let first = k.setp_u32(Eq, warp, 0);
    k.if_(first, |k| {
        let place = k.mad_lo_u32(lane, 8, parts);
        let [part, dropped]: [F32; 2] = k.ld_vector(place);
        k.mov_f32_to(sum.sum, part);
        k.mov_f32_to(sum.dropped, dropped);
        over_warp(k, sum);
    });
}

fn over_warp(k: &mut KernelBuilder, sum: Compensated) {
    let mut distance = WARP / 2;
    while distance > 0 {
        let other = Compensated {
            sum: k.shfl_down_f32(sum.sum, distance),
            dropped: k.shfl_down_f32(sum.dropped, distance),
        };
        sum.add_sum(k, other);
        distance /= 2;
    }
}
