//! dq from its workspace: scale · Σ dS·k, rounded to its type, or added to what is there.

use jhalak_ptx::{Error, KernelBuilder, Module, ModuleBuilder, Target};

use super::super::class::{Access, Lengths, element_parameters, row_parameters};
use super::super::element::Element;
use super::super::parameters::{Inputs, Parameter, Tensor};
use super::THREADS;
use super::lanes::{Lanes, Split};
use super::rows::{self, BlockRows};

/// The name of the kernel in its module.
pub const FINISH_DQ: &str = "finish_dq";

/// The class of a kernel that finishes dq.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FinishDqClass {
    /// The architecture it is written for.
    pub target: Target,
    /// The type of dq.
    pub element: Element,
    /// D.
    pub head_dim: u32,
    /// How dq is reached. The workspace has rows of contiguous floats; for vectors they begin at
    /// multiples of 16 bytes.
    pub access: Access,
    /// Sequences of different lengths.
    pub lengths: Lengths,
    /// Used rows are added to floats that are there, and others left alone; otherwise rows replace
    /// what is there, with 0 where they are not used.
    pub adds: bool,
}

impl FinishDqClass {
    /// The parameters of the kernel, in order.
    pub fn parameters(&self) -> Vec<Parameter> {
        let mut list = row_parameters(Tensor::DqSum);
        list.extend(match self.access {
            Access::Vectors => row_parameters(Tensor::Dq),
            Access::Elements => element_parameters(Tensor::Dq),
        });
        list.push(Parameter::Scale);
        list.extend(rows::parameters(self.lengths));
        list
    }

    /// Rows that a block takes at once, a tile of the grid.
    pub fn tile_rows(&self) -> u32 {
        self.split().rows()
    }

    fn split(&self) -> Split {
        Split::new(self.access, &[self.element, Element::F32], self.head_dim)
    }
}

/// The module of a class.
///
/// # Errors
///
/// Whatever [`ModuleBuilder::build`] finds: sm_75 has no bf16.
pub fn finish_dq(class: &FinishDqClass) -> Result<Module, Error> {
    let mut module = ModuleBuilder::new(class.target);
    module.kernel(FINISH_DQ, |k| write(k, class));
    module.build()
}

fn write(k: &mut KernelBuilder, class: &FinishDqClass) {
    k.maxntid(THREADS);
    let inputs = Inputs::declare(k, &class.parameters());
    let lanes = Lanes::new(k, class.split());
    let rows = BlockRows::new(k, class.lengths, inputs);
    let scale = rows.inputs.f32(k, Parameter::Scale);
    rows.for_each(k, class.tile_rows(), lanes.row, |k, row| {
        let (sums, dq) = (rows.place(k, Tensor::DqSum, row), rows.place(k, Tensor::Dq, row));
        let sums = lanes.load(k, Element::F32, sums, row.used);
        if class.adds {
            let before = lanes.load(k, class.element, dq, row.used);
            let after: Vec<_> =
                sums.iter().zip(before).map(|(&sum, b)| k.fma_f32(sum, scale, b)).collect();
            lanes.store(k, class.element, dq, &after, row.used);
        } else {
            let values: Vec<_> = sums.iter().map(|&sum| k.mul_f32(sum, scale)).collect();
            lanes.store(k, class.element, dq, &values, row.exists);
        }
    });
}
