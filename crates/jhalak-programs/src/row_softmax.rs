//! The softmax of each row: a warp takes a row, and reads it twice.
//!
//! The first time it keeps, lane by lane, the largest element so far and the sum of powers relative
//! to it; the lanes then agree by shuffles. The second time it writes.

use jhalak_ptx::Comparison::{Ge, Lt};
use jhalak_ptx::{B32, B64, Error, F32, KernelBuilder, ModuleBuilder, Target};

use crate::program::{Argument, Buffer, Element, Launch, Program, Use};
use crate::reference::Meaning;

const WARPS: u32 = 4;
const NAME: &str = "row_softmax";
/// The special function is a power of two: 2^(x · log₂ e) = eˣ.
const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// Less than any element, yet finite, so that a difference of two is never NaN.
const LOWEST: f32 = f32::MIN;

/// The softmax of each of `rows` rows of `columns` floats.
///
/// # Errors
///
/// Whatever [`ModuleBuilder::build`] finds.
pub fn row_softmax(target: Target, rows: u32, columns: u32) -> Result<Program, Error> {
    let mut module = ModuleBuilder::new(target);
    module.kernel(NAME, write);
    let len = rows as usize * columns as usize;
    let buffer = |name, usage| Buffer { name, element: Element::F32, len, usage };
    let launch = Launch {
        kernel: NAME,
        grid: rows.div_ceil(WARPS),
        block: 32 * WARPS,
        shared_bytes: 0,
        buffers: vec![buffer("x", Use::Input), buffer("y", Use::Output)],
        arguments: vec![
            Argument::Address(0),
            Argument::Address(1),
            Argument::U32(rows),
            Argument::U32(columns),
        ],
    };
    let meaning = Meaning::RowSoftmax { columns: columns as usize };
    Ok(Program { module: module.build()?, launch, meaning })
}

fn write(k: &mut KernelBuilder) {
    k.maxntid(32 * WARPS);
    let (x, y) = (k.param_pointer("x", 4), k.param_pointer("y", 4));
    let (rows, columns) = (k.param_u32("rows"), k.param_u32("columns"));
    let (thread, block) = (k.tid_x(), k.ctaid_x());
    let (warp, lane) = (k.shr_u32(thread, 5), k.and_b32(thread, 31));
    let row = k.mad_lo_u32(block, WARPS, warp);
    let rows = k.ld_param(rows);
    let outside = k.setp_u32(Ge, row, rows);
    k.when(outside, |k| k.ret());

    let columns = k.ld_param(columns);
    let offset = k.mul_wide_u32(row, columns);
    let offset = k.shl_b64(offset, 2);
    let [x, y] = [x, y].map(|pointer| {
        let pointer = k.ld_param(pointer);
        k.add_u64(pointer, offset)
    });

    let largest = k.mov_f32(LOWEST);
    let sum = k.mov_f32(0.0);
    k.for_range(lane, columns, 32, |k, column| {
        let value = scaled(k, x, column);
        let before = k.mov_f32(largest);
        k.max_f32_to(largest, largest, value);
        let power = power_of_difference(k, value, largest);
        let factor = power_of_difference(k, before, largest);
        k.fma_f32_to(sum, sum, factor, power);
    });
    for mask in [16, 8, 4, 2, 1] {
        let other_largest = k.shfl_bfly_f32(largest, mask);
        let other_sum = k.shfl_bfly_f32(sum, mask);
        let both = k.max_f32(largest, other_largest);
        let factor = power_of_difference(k, largest, both);
        let other_factor = power_of_difference(k, other_largest, both);
        k.mul_f32_to(sum, sum, factor);
        k.fma_f32_to(sum, other_sum, other_factor, sum);
        k.mov_f32_to(largest, both);
    }
    let inverse = k.rcp_f32(sum);
    // A second way to walk: the loop's variable is the kernel's own.
    let column = k.mov_b32(lane);
    k.while_(
        |k| k.setp_u32(Lt, column, columns),
        |k| {
            let value = scaled(k, x, column);
            let power = power_of_difference(k, value, largest);
            let result = k.mul_f32(power, inverse);
            let place = k.mad_wide_u32(column, 4, y);
            k.st(place, result);
            k.add_u32_to(column, column, 32);
        },
    );
}

/// An element, times log₂ e.
fn scaled(k: &mut KernelBuilder, row: B64, column: B32) -> F32 {
    let place = k.mad_wide_u32(column, 4, row);
    let value: F32 = k.ld(place);
    k.mul_f32(value, LOG2_E)
}

fn power_of_difference(k: &mut KernelBuilder, a: F32, b: F32) -> F32 {
    let difference = k.sub_f32(a, b);
    k.ex2_f32(difference)
}
