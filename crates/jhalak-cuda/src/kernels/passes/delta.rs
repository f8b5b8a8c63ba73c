//! Before the backward pass: delta' = rowsum(dout ∘ out) − dlse for each row, and zeros in the
//! workspace of dq.
//!
//! Rows that are not used get 0 without being read. So do rows that see no key: their out is the
//! constant 0, and whatever dout holds flows nowhere.

use jhalak_ptx::Comparison::{Eq, Gtu, Neu};
use jhalak_ptx::{Connective, Error, F32, KernelBuilder, Module, ModuleBuilder, Pred, Target};

use super::super::class::{Access, Lengths, element_parameters, row_parameters, tensor_parameters};
use super::super::element::Element;
use super::super::guarded::load_float;
use super::super::parameters::{Axis, Inputs, Parameter, Tensor};
use super::THREADS;
use super::lanes::{Lanes, Split};
use super::rows::{self, BlockRow, BlockRows};

/// The name of the kernel in its module.
pub const DELTA: &str = "delta";

/// What delta is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delta {
    /// The forward's out and its gradient.
    Out {
        /// The type of out.
        out: Element,
        /// The type of dout.
        dout: Element,
        /// Dv.
        head_dim_v: u32,
        /// How out and dout are reached.
        access: Access,
        /// The type of the sinks, where there are any.
        sinks: Option<Element>,
    },
    /// Delta itself, which was given.
    Given,
}

/// The class of a kernel that computes delta'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeltaClass {
    /// The architecture it is written for.
    pub target: Target,
    /// What delta is made of.
    pub delta: Delta,
    /// Whether lse has a gradient.
    pub dlse: bool,
    /// Sequences of different lengths.
    pub lengths: Lengths,
    /// Floats of a row of the workspace of dq, a multiple of 4, where it is filled with zeros. Its
    /// rows begin at multiples of 16 bytes.
    pub dq_sum: Option<u32>,
}

impl DeltaClass {
    /// The parameters of the kernel, in order.
    pub fn parameters(&self) -> Vec<Parameter> {
        let mut list = match self.delta {
            Delta::Given => row_parameters(Tensor::GivenDelta),
            Delta::Out { access, sinks, .. } => {
                let tensor = match access {
                    Access::Vectors => row_parameters,
                    Access::Elements => element_parameters,
                };
                let mut list = [Tensor::Out, Tensor::Dout].map(tensor).concat();
                list.extend(row_parameters(Tensor::Lse));
                if sinks.is_some() {
                    let axes = [Some(Axis::Head), None, None, None];
                    list.extend(tensor_parameters(Tensor::Sinks, axes));
                }
                list
            }
        };
        if self.dlse {
            list.extend(row_parameters(Tensor::Dlse));
        }
        list.extend(row_parameters(Tensor::Delta));
        if self.dq_sum.is_some() {
            list.extend(row_parameters(Tensor::DqSum));
        }
        list.extend(rows::parameters(self.lengths));
        list
    }

    /// Rows that a block takes at once, a tile of the grid.
    pub fn tile_rows(&self) -> u32 {
        self.split().rows()
    }

    fn split(&self) -> Split {
        match self.delta {
            Delta::Out { out, dout, head_dim_v, access, .. } => {
                Split::new(access, &[out, dout], head_dim_v)
            }
            Delta::Given => Split::new(Access::Vectors, &[Element::F32], self.dq_sum.unwrap_or(1)),
        }
    }
}

/// The module of a class.
///
/// # Errors
///
/// Whatever [`ModuleBuilder::build`] finds.
pub fn delta(class: &DeltaClass) -> Result<Module, Error> {
    let mut module = ModuleBuilder::new(class.target);
    module.kernel(DELTA, |k| write(k, class));
    module.build()
}

fn write(k: &mut KernelBuilder, class: &DeltaClass) {
    k.maxntid(THREADS);
    let inputs = Inputs::declare(k, &class.parameters());
    let lanes = Lanes::new(k, class.split());
    let rows = BlockRows::new(k, class.lengths, inputs);
    rows.for_each(k, class.tile_rows(), lanes.row, |k, row| {
        let mut delta = match class.delta {
            Delta::Out { out, dout, sinks, .. } => {
                let sink = sinks.map(|element| {
                    let base = rows.inputs.base(k, Tensor::Sinks);
                    let place = rows.inputs.advance(k, base, rows.head, Tensor::Sinks, Axis::Head);
                    element.load(k, place)
                });
                row_sum(k, &rows, &lanes, row, [out, dout], sink)
            }
            Delta::Given => number(k, &rows, Tensor::GivenDelta, row),
        };
        if class.dlse {
            let dlse = number(k, &rows, Tensor::Dlse, row);
            delta = k.sub_f32(delta, dlse);
        }
        let place = rows.address(k, Tensor::Delta, row);
        let first = k.setp_u32_with(Eq, lanes.lane, 0, Connective::And, row.exists);
        k.when(first, |k| k.st(place, delta));
        if let Some(columns) = class.dq_sum {
            let place = rows.place(k, Tensor::DqSum, row);
            let lanes = lanes.of_vectors(columns);
            let zero = k.mov_f32(0.0);
            lanes.store(k, Element::F32, place, &vec![zero; lanes.values()], row.exists);
        }
    });
}

/// rowsum(dout ∘ out), by pairs.
fn row_sum(
    k: &mut KernelBuilder,
    rows: &BlockRows,
    lanes: &Lanes,
    row: BlockRow,
    [out, dout]: [Element; 2],
    sink: Option<F32>,
) -> F32 {
    let (out_place, dout_place) =
        (rows.place(k, Tensor::Out, row), rows.place(k, Tensor::Dout, row));
    let out = lanes.load(k, out, out_place, row.used);
    let dout = lanes.load(k, dout, dout_place, row.used);
    let lse = number(k, rows, Tensor::Lse, row);
    let seen = sees_keys(k, lse, sink);
    let mut terms: Vec<F32> = out
        .into_iter()
        .zip(dout)
        .map(|(out, dout)| {
            let counts = k.setp_f32_with(Neu, out, 0.0, Connective::Or, seen);
            let dout = k.selp_f32(dout, 0.0, counts);
            k.mul_f32(out, dout)
        })
        .collect();
    while terms.len() > 1 {
        terms = terms
            .chunks(2)
            .map(|pair| match *pair {
                [a, b] => k.add_f32(a, b),
                _ => pair[0],
            })
            .collect();
    }
    lanes.sum(k, terms[0])
}

/// Whether a row may see keys: without any, nothing but its sink is in lse, up to the rounding of a
/// forward pass that counts in powers of 2.
fn sees_keys(k: &mut KernelBuilder, lse: F32, sink: Option<F32>) -> Pred {
    let Some(sink) = sink else { return k.setp_f32(Neu, lse, f32::NEG_INFINITY) };
    let distance = k.sub_f32(lse, sink);
    let distance = k.abs_f32(distance);
    let size = k.abs_f32(sink);
    let near = k.mul_f32(size, 4.0 * f32::EPSILON);
    // Of a sink of −∞, only −∞ is near.
    let near = k.min_f32(near, 1.0);
    let far = k.setp_f32(Gtu, distance, near);
    k.setp_f32_with(Neu, lse, sink, Connective::And, far)
}

/// A row's number, or 0 where the row is not used.
fn number(k: &mut KernelBuilder, rows: &BlockRows, tensor: Tensor, row: BlockRow) -> F32 {
    let place = rows.address(k, tensor, row);
    load_float(k, Element::F32, row.used, place)
}
