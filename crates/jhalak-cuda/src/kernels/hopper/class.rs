//! The class of a forward kernel for Hopper: what it computes, and how its pipeline is made.

use super::super::class::ForwardClass;
use super::super::element::Element;
use super::super::parameters::{Parameter, Tensor};
use super::memory;

/// Whose turn it is to issue products, so that one warpgroup's run while another one is busy with
/// its softmax.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HopperOrder {
    /// One after the other at the begin of a tile; that sets them apart for the rest of it.
    First,
    /// One after the other for every block of keys.
    Every,
}

/// What the weights of a block of keys that all rows see are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HopperSoftmax {
    /// The maximum so far, this block's included: it is looked for before anything else.
    Followed,
    /// The maximum of the blocks before, as long as the weights stay small. Nothing waits for a
    /// maximum; a block whose weights grow too large is weighed once more.
    Assumed,
}

/// How the pipeline of a kernel is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HopperTuning {
    /// Tiles of K, of V, and of Q in shared memory.
    pub stages: [u32; 3],
    /// The softmax.
    pub softmax: HopperSoftmax,
    /// The order of products.
    pub order: HopperOrder,
}

/// The class of a forward kernel for Hopper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HopperClass {
    /// What is computed, and the tile: 64 rows for each warpgroup but the first.
    pub attention: ForwardClass,
    /// How.
    pub tuning: HopperTuning,
}

/// How results leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leave {
    /// By way of shared memory and the copy engine.
    Copied,
    /// By way of shared memory, row by row: the tile may end in the middle of the tensor.
    Rows,
    /// From registers, as floats.
    Floats,
}

impl HopperClass {
    /// Warpgroups that multiply.
    pub(super) fn consumers(&self) -> u32 {
        self.attention.tile.rows / 64
    }

    /// Registers of a thread of the first warpgroup, and of the others.
    pub(super) fn registers(&self) -> [u32; 2] {
        if self.consumers() == 2 { [40, 232] } else { [32, 160] }
    }

    pub(super) fn leave(&self) -> Leave {
        match self.attention.out {
            Element::F32 => Leave::Floats,
            _ if self.attention.lengths.packed => Leave::Rows,
            _ => Leave::Copied,
        }
    }

    /// Whether tiles of V may hold rows that do not belong to the sequence.
    pub(super) fn clears(&self) -> bool {
        self.attention.lengths.packed || self.attention.lengths.used_k
    }

    /// The parameters of the kernel, in order.
    pub fn parameters(&self) -> Vec<Parameter> {
        let mut list = vec![Tensor::Q, Tensor::K, Tensor::V];
        if self.leave() == Leave::Copied {
            list.push(Tensor::Out);
        }
        let maps = list.into_iter().map(Parameter::Map);
        let counts = [Parameter::HeadsQ, Parameter::Units];
        maps.chain(counts).chain(self.attention.parameters()).collect()
    }

    /// Units of work of a head with so many tiles of rows.
    pub fn units_of_head(&self, tiles: usize) -> usize {
        if self.attention.bounds.upper { tiles.div_ceil(2) } else { tiles }
    }

    /// Rows of the box in which a tensor is copied.
    pub fn box_rows(&self, tensor: Tensor) -> u32 {
        match tensor {
            Tensor::Q => self.attention.tile.rows,
            Tensor::Out => 64,
            _ => self.attention.tile.keys,
        }
    }

    /// Dynamic shared memory of a block, in bytes.
    pub fn shared_bytes(&self) -> u32 {
        memory::tile_bytes(self).iter().zip(self.tuning.stages).map(|(bytes, n)| bytes * n).sum()
    }
}
