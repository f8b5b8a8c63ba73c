//! One result from results over different keys: out = Σ w·out / Σ w and lse = max + ln Σ w, with
//! w = exp(lse − max).
//!
//! A part whose lse is −∞ or +∞ saw no key; its out is not read. Without any other a row is 0 and
//! −∞.

use jhalak_ptx::Comparison::{Eq, Neu};
use jhalak_ptx::{
    B32, B64, Connective, Error, F32, KernelBuilder, Module, ModuleBuilder, Pred, Target,
};

use super::super::class::{Access, Lengths, element_parameters, row_parameters};
use super::super::element::Element;
use super::super::guarded::load_float;
use super::super::parameters::{Axis, Inputs, Parameter, Tensor};
use super::super::softmax::finite_or_zero;
use super::THREADS;
use super::lanes::{Lanes, RowPlace, Split};
use super::rows::{self, BlockRow, BlockRows};

/// The name of the kernel in its module.
pub const MERGE: &str = "merge";

const LN_2: f32 = std::f32::consts::LN_2;
const LOG2_E: f32 = std::f32::consts::LOG2_E;

/// The results that are merged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Parts {
    /// Tensors of their own, with outs of these types; part n is [`Tensor::PartOut`] and
    /// [`Tensor::PartLse`] of n.
    Separate(Vec<Element>),
    /// Any number of parts in one tensor of floats, with strides along [`Axis::Part`]; part 0 is
    /// named as of separate ones.
    Stacked {
        /// A block shares the parts of one row: for few rows of many parts.
        shared: bool,
    },
}

/// The class of a kernel that merges.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MergeClass {
    /// The architecture it is written for.
    pub target: Target,
    /// What is merged.
    pub parts: Parts,
    /// The type of the merged out.
    pub out: Element,
    /// Dv.
    pub head_dim_v: u32,
    /// How all outs are reached.
    pub access: Access,
}

impl MergeClass {
    /// The parameters of the kernel, in order. Packed rows are one sequence here.
    pub fn parameters(&self) -> Vec<Parameter> {
        let tensor = match self.access {
            Access::Vectors => row_parameters,
            Access::Elements => element_parameters,
        };
        let part = |n| [tensor(Tensor::PartOut(n)), row_parameters(Tensor::PartLse(n))].concat();
        let mut list = [tensor(Tensor::Out), row_parameters(Tensor::Lse)].concat();
        match &self.parts {
            Parts::Separate(elements) => {
                list.extend((0..).zip(elements).flat_map(|(n, _)| part(n)));
            }
            Parts::Stacked { .. } => {
                list.extend(part(0));
                list.push(Parameter::Stride(Tensor::PartOut(0), Axis::Part));
                list.push(Parameter::Stride(Tensor::PartLse(0), Axis::Part));
                list.push(Parameter::Parts);
            }
        }
        list.extend(rows::parameters(Lengths::default()));
        list
    }

    /// Rows that a block takes at once, a tile of the grid.
    pub fn tile_rows(&self) -> u32 {
        if self.shares() { 1 } else { self.split().rows() }
    }

    fn shares(&self) -> bool {
        self.parts == Parts::Stacked { shared: true }
    }

    fn split(&self) -> Split {
        let mut elements = match &self.parts {
            Parts::Separate(elements) => elements.clone(),
            Parts::Stacked { .. } => vec![Element::F32],
        };
        elements.push(self.out);
        Split::new(self.access, &elements, self.head_dim_v)
    }
}

/// The module of a class.
///
/// # Errors
///
/// Whatever [`ModuleBuilder::build`] finds: sm_75 has no bf16; there are too many separate parts.
pub fn merge(class: &MergeClass) -> Result<Module, Error> {
    let mut module = ModuleBuilder::new(class.target);
    module.kernel(MERGE, |k| write(k, class));
    module.build()
}

fn write(k: &mut KernelBuilder, class: &MergeClass) {
    k.maxntid(THREADS);
    if class.parts == (Parts::Stacked { shared: false }) {
        // Left alone, ptxas spills for the sake of more blocks.
        k.minnctapersm(4);
    }
    let inputs = Inputs::declare(k, &class.parameters());
    let lanes = Lanes::new(k, class.split());
    let rows = BlockRows::new(k, Lengths::default(), inputs);
    let row = if class.shares() { k.mov_b32(0) } else { lanes.row };
    rows.for_each(k, class.tile_rows(), row, |k, row| {
        let part = Part { rows: &rows, lanes: &lanes, row };
        let (merged, mut stored) = match &class.parts {
            Parts::Separate(elements) => (separate(k, &part, elements), row.exists),
            Parts::Stacked { shared } => (stacked(k, &part, *shared), row.exists),
        };
        if class.shares() {
            merged.over_block(k, &lanes);
            stored = k.setp_u32_with(Eq, lanes.row, 0, Connective::And, stored);
        }
        merged.store(k, &part, class.out, stored);
    });
}

/// A row, and who reads it.
struct Part<'r> {
    rows: &'r BlockRows,
    lanes: &'r Lanes,
    row: BlockRow,
}

impl Part<'_> {
    /// The lse at an address; −∞ where no key was seen.
    fn lse(&self, k: &mut KernelBuilder, place: B64) -> F32 {
        let lse = load_float(k, Element::F32, self.row.exists, place);
        let size = k.abs_f32(lse);
        let infinite = k.setp_f32(Eq, size, f32::INFINITY);
        k.selp_f32(f32::NEG_INFINITY, lse, infinite)
    }
}

/// A row's sum so far.
struct Merged {
    /// What weights are compared with.
    reference: F32,
    weights: F32,
    values: Vec<F32>,
}

impl Merged {
    fn new(k: &mut KernelBuilder, max: F32, lanes: &Lanes) -> Self {
        Merged {
            reference: finite_or_zero(k, max),
            weights: k.mov_f32(0.0),
            values: (0..lanes.values()).map(|_| k.mov_f32(0.0)).collect(),
        }
    }

    fn add(
        &self,
        k: &mut KernelBuilder,
        part: &Part<'_>,
        lse: F32,
        element: Element,
        out: RowPlace,
    ) {
        let exponent = k.sub_f32(lse, self.reference);
        let exponent = k.mul_f32(exponent, LOG2_E);
        let weight = k.ex2_f32(exponent);
        let exists = part.row.exists;
        let seen = k.setp_f32_with(Neu, lse, f32::NEG_INFINITY, Connective::And, exists);
        let values = part.lanes.load(k, element, out, seen);
        k.add_f32_to(self.weights, self.weights, weight);
        for (&sum, value) in self.values.iter().zip(values) {
            k.fma_f32_to(sum, weight, value, sum);
        }
    }

    /// Adds up what the threads of a block have of one row, for the first of its lanes.
    fn over_block(&self, k: &mut KernelBuilder, lanes: &Lanes) {
        let all = || std::iter::once(&self.weights).chain(&self.values);
        let bytes = 4 * THREADS;
        let shared = k.static_shared("shares", bytes * all().count() as u32, 4);
        let shared = k.shared_address(shared);
        let thread = k.tid_x();
        let mine = k.mad_lo_u32(thread, 4, shared);
        for (n, &value) in (0..).zip(all()) {
            k.st((mine, n * bytes), value);
        }
        k.bar_sync_all();
        let first = k.setp_u32(Eq, lanes.row, 0);
        k.if_(first, |k| {
            k.for_range(4 * lanes.count(), bytes, 4 * lanes.count(), |k, other| {
                let place = k.add_u32(mine, other);
                for (n, &value) in (0..).zip(all()) {
                    let more: F32 = k.ld((place, n * bytes));
                    k.add_f32_to(value, value, more);
                }
            });
        });
        // The next row goes where this one is still read.
        k.bar_sync_all();
    }

    fn store(&self, k: &mut KernelBuilder, part: &Part<'_>, element: Element, stored: Pred) {
        let empty = k.setp_f32(Eq, self.weights, 0.0);
        let inverse = k.rcp_f32(self.weights);
        let inverse = k.selp_f32(0.0, inverse, empty);
        let values: Vec<F32> = self.values.iter().map(|&sum| k.mul_f32(sum, inverse)).collect();
        let out = part.rows.place(k, Tensor::Out, part.row);
        part.lanes.store(k, element, out, &values, stored);
        let log2 = k.lg2_f32(self.weights);
        let lse = k.fma_f32(log2, LN_2, self.reference);
        let place = part.rows.address(k, Tensor::Lse, part.row);
        let first = k.setp_u32_with(Eq, part.lanes.lane, 0, Connective::And, stored);
        k.when(first, |k| k.st(place, lse));
    }
}

/// Parts in tensors of their own.
fn separate(k: &mut KernelBuilder, part: &Part<'_>, elements: &[Element]) -> Merged {
    let max = k.mov_f32(f32::NEG_INFINITY);
    let mut lses = Vec::new();
    for n in 0..elements.len() as u8 {
        let place = part.rows.address(k, Tensor::PartLse(n), part.row);
        let lse = part.lse(k, place);
        k.max_f32_to(max, max, lse);
        lses.push(lse);
    }
    let merged = Merged::new(k, max, part.lanes);
    for ((n, &element), lse) in (0..).zip(elements).zip(lses) {
        let out = part.rows.place(k, Tensor::PartOut(n), part.row);
        merged.add(k, part, lse, element, out);
    }
    merged
}

/// Parts in one tensor; if they are shared, only every so manieth.
fn stacked(k: &mut KernelBuilder, part: &Part<'_>, shared: bool) -> Merged {
    let Part { rows, lanes, row } = part;
    let parts = rows.inputs.u32(k, Parameter::Parts);
    let lse = rows.address(k, Tensor::PartLse(0), *row);
    let out = rows.place(k, Tensor::PartOut(0), *row);
    let of_part = |k: &mut KernelBuilder, place: B64, tensor, n: B32| {
        rows.inputs.advance(k, place, n, tensor, Axis::Part)
    };
    let max = k.mov_f32(f32::NEG_INFINITY);
    k.for_range(lanes.lane, parts, lanes.count(), |k, n| {
        let place = of_part(k, lse, Tensor::PartLse(0), n);
        let lse = part.lse(k, place);
        k.max_f32_to(max, max, lse);
    });
    let max = lanes.combine(k, max, |k, a, b| k.max_f32(a, b));
    let merged = Merged::new(k, max, lanes);
    let (first, step) =
        if shared { (lanes.row, THREADS / lanes.count()) } else { (k.mov_b32(0), 1) };
    k.for_range(first, parts, step, |k, n| {
        let place = of_part(k, lse, Tensor::PartLse(0), n);
        let lse = part.lse(k, place);
        let first = of_part(k, out.first, Tensor::PartOut(0), n);
        merged.add(k, part, lse, Element::F32, RowPlace { first, ..out });
    });
    merged
}
