//! The gradient of the bias from its workspace, rounded to its type, or added to what is there.

use jhalak_ptx::Comparison::Lt;
use jhalak_ptx::{B32, B64, Error, F32, KernelBuilder, Module, ModuleBuilder, Special, Target};

use super::super::class::element_parameters;
use super::super::element::Element;
use super::super::parameters::{Axis, Inputs, Parameter, Tensor};
use super::THREADS;

/// The name of the kernel in its module.
pub const FINISH_DBIAS: &str = "finish_dbias";

const WARP: u32 = 32;

/// The class of a kernel that finishes the gradient of the bias. Its grid is (tiles of rows · the
/// bias's sequences, the bias's heads).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FinishDbiasClass {
    /// The architecture it is written for.
    pub target: Target,
    /// The type of the gradient.
    pub element: Element,
    /// Whether it is added to floats that are there.
    pub adds: bool,
}

impl FinishDbiasClass {
    /// Rows that a block takes at once, a tile of the grid: each warp takes one.
    pub const TILE_ROWS: u32 = THREADS / WARP;

    /// The parameters of the kernel, in order.
    pub fn parameters(&self) -> Vec<Parameter> {
        let mut list = [Tensor::DbiasSum, Tensor::Dbias].map(element_parameters).concat();
        list.extend([Parameter::BiasRows, Parameter::BiasColumns, Parameter::RowTiles]);
        list
    }
}

/// The module of a class.
///
/// # Errors
///
/// Whatever [`ModuleBuilder::build`] finds: sm_75 has no bf16.
pub fn finish_dbias(class: &FinishDbiasClass) -> Result<Module, Error> {
    let mut module = ModuleBuilder::new(class.target);
    module.kernel(FINISH_DBIAS, |k| write(k, class));
    module.build()
}

fn write(k: &mut KernelBuilder, class: &FinishDbiasClass) {
    k.maxntid(THREADS);
    let inputs = Inputs::declare(k, &class.parameters());
    let (thread, block, head) = (k.tid_x(), k.ctaid_x(), k.special(Special::CtaidY));
    let (warp, lane) = (k.div_u32(thread, WARP), k.rem_u32(thread, WARP));
    let tiles = inputs.u32(k, Parameter::RowTiles);
    let (batch, tile) = (k.div_u32(block, tiles), k.rem_u32(block, tiles));
    let rows = inputs.u32(k, Parameter::BiasRows);
    let columns = inputs.u32(k, Parameter::BiasColumns);
    let step = k.mul_lo_u32(tiles, FinishDbiasClass::TILE_ROWS);
    let row = k.mad_lo_u32(tile, FinishDbiasClass::TILE_ROWS, warp);
    k.while_(
        |k| k.setp_u32(Lt, row, rows),
        |k| {
            let [sums, dbias] = [Tensor::DbiasSum, Tensor::Dbias]
                .map(|tensor| row_address(k, &inputs, tensor, [batch, head, row]));
            k.for_range(lane, columns, WARP, |k, column| {
                let sum = inputs.advance(k, sums, column, Tensor::DbiasSum, Axis::Column);
                let place = inputs.advance(k, dbias, column, Tensor::Dbias, Axis::Column);
                let sum: F32 = k.ld(sum);
                let value = if class.adds {
                    let before = class.element.load(k, place);
                    k.add_f32(before, sum)
                } else {
                    sum
                };
                class.element.store(k, place, value);
            });
            k.add_u32_to(row, row, step);
        },
    );
}

fn row_address(
    k: &mut KernelBuilder,
    inputs: &Inputs,
    tensor: Tensor,
    [batch, head, row]: [B32; 3],
) -> B64 {
    let base = inputs.base(k, tensor);
    let place = inputs.advance(k, base, batch, tensor, Axis::Batch);
    let place = inputs.advance(k, place, head, tensor, Axis::Head);
    inputs.advance(k, place, row, tensor, Axis::Row)
}
