//! The sum of each column: a block sums a strip of rows and lets the copy engine add its part to the
//! result. The sum's order is not fixed, so its last bits may differ from run to run.

use jhalak_ptx::Comparison::{Eq, Lt};
use jhalak_ptx::{AsyncMemory, Error, F32, KernelBuilder, ModuleBuilder, Special, Target};

use crate::program::{Argument, Buffer, Element, Launch, Program, Use};
use crate::reference::Meaning;

const THREADS: u32 = 256;
/// Columns of a thread: 16 bytes.
const PER_THREAD: u32 = 4;
/// Columns of a block.
const COLUMNS: u32 = THREADS * PER_THREAD;
const NAME: &str = "column_sums";

/// The sums of the columns of a matrix of `rows` × `columns` floats (`columns` a multiple of 4).
/// Each group of 1024 columns is summed by `strips` blocks.
///
/// # Errors
///
/// Whatever [`ModuleBuilder::build`] finds.
pub fn column_sums(rows: u32, columns: u32, strips: u32) -> Result<Program, Error> {
    let mut module = ModuleBuilder::new(Target::Sm90a);
    module.kernel(NAME, write);
    let (rows_len, columns_len) = (rows as usize, columns as usize);
    let buffer = |name, len, usage| Buffer { name, element: Element::F32, len, usage };
    let launch = Launch {
        kernel: NAME,
        grid: columns.div_ceil(COLUMNS) * strips,
        block: THREADS,
        shared_bytes: 0,
        buffers: vec![
            buffer("x", rows_len * columns_len, Use::Input),
            buffer("sums", columns_len, Use::Accumulator),
        ],
        arguments: vec![
            Argument::Address(0),
            Argument::Address(1),
            Argument::U32(rows),
            Argument::U32(columns),
            Argument::U32(strips),
        ],
    };
    let meaning = Meaning::ColumnSums { columns: columns_len };
    Ok(Program { module: module.build()?, launch, meaning })
}

fn write(k: &mut KernelBuilder) {
    k.reqntid(THREADS);
    let (x, sums) = (k.param_pointer("x", 16), k.param_pointer("sums", 16));
    let [rows, columns, strips] = ["rows", "columns", "strips"].map(|name| k.param_u32(name));
    let part = k.static_shared("part", 4 * COLUMNS, 128);
    let [rows, columns, strips] = [rows, columns, strips].map(|size| k.ld_param(size));
    let (thread, block) = (k.tid_x(), k.special(Special::CtaidX));
    let group = k.div_u32(block, strips);
    let first_row = k.rem_u32(block, strips);
    let first = k.mul_lo_u32(group, COLUMNS);
    let column = k.mad_lo_u32(thread, PER_THREAD, first);

    let inside = k.setp_u32(Lt, column, columns);
    k.if_(inside, |k| {
        let total: [F32; 4] = std::array::from_fn(|_| k.mov_f32(0.0));
        let x = k.ld_param(x);
        let x = k.mad_wide_u32(column, 4, x);
        let pitch = k.mul_lo_u32(columns, 4);
        // A strip is every so manieth row.
        let row = k.mov_b32(first_row);
        k.while_(
            |k| k.setp_u32(Lt, row, rows),
            |k| {
                let place = k.mad_wide_u32(row, pitch, x);
                let values: [F32; 4] = k.ld_vector(place);
                total.iter().zip(values).for_each(|(sum, value)| k.add_f32_to(*sum, *sum, value));
                k.add_u32_to(row, row, strips);
            },
        );
        let part = k.shared_address(part);
        let place = k.mad_lo_u32(thread, 16, part);
        k.st_vector(place, total);
        k.fence_proxy_async(AsyncMemory::Shared);
    });
    k.bar_sync_all();

    let one = k.setp_u32(Eq, thread, 0);
    k.if_(one, |k| {
        let sums = k.ld_param(sums);
        let sums = k.mad_wide_u32(first, 4, sums);
        let left = k.sub_u32(columns, first);
        let count = k.min_u32(left, COLUMNS);
        let bytes = k.mul_lo_u32(count, 4);
        k.bulk_reduce_add_f32(sums, part, bytes, None);
        k.bulk_commit_group();
        // Shared memory must live until it was read, and the block ends with this thread.
        k.bulk_wait_group(0);
    });
}
