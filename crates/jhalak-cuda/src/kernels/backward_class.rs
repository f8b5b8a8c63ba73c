//! What a backward kernel is compiled for.

use jhalak_ptx::Target;

use super::class::{
    Access, Bounds, Lengths, Scores, Tile, element_parameters, row_parameters, rows_parameters,
    shared_parameters,
};
use super::element::Element;
use super::parameters::{Parameter, Tensor};

/// How a gradient is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Store {
    /// It replaces what is there.
    Write(Element),
    /// It is added to floats that are there.
    Add,
}

impl Store {
    /// The type of the gradient in memory.
    pub fn element(self) -> Element {
        match self {
            Store::Write(element) => element,
            Store::Add => Element::F32,
        }
    }
}

/// The class of a backward kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BackwardClass {
    /// The architecture it is written for.
    pub target: Target,
    /// The type of q, k and v.
    pub element: Element,
    /// The type of dout; if it is another one, dout is reached element by element.
    pub dout: Element,
    /// D.
    pub head_dim: u32,
    /// Dv.
    pub head_dim_v: u32,
    /// How q, k, v, dout, dk and dv are reached.
    pub access: Access,
    /// The work of a block: its keys, and the rows of queries that it takes at once. Both are
    /// multiples of 16; with f32, rows may be a multiple of 8. The warps are a multiple of
    /// [`key_warps`](Self::key_warps) and of the tile's fragments of rows, or divide them.
    pub tile: Tile,
    /// Sequences of different lengths.
    pub lengths: Lengths,
    /// Visibility by position.
    pub bounds: Bounds,
    /// Scores.
    pub scores: Scores,
    /// Whether weights are dropped.
    pub dropout: bool,
    /// Whether dq is summed in its workspace.
    pub dq: bool,
    /// How dk is written, if it is asked for.
    pub dk: Option<Store>,
    /// How dv is written, if it is asked for.
    pub dv: Option<Store>,
    /// Whether the gradient of the bias is summed in its workspace.
    pub dbias: bool,
    /// Whether blocks take turns in adding to dq, so that its bits are the same every time.
    pub ordered: bool,
}

impl BackwardClass {
    /// The parameters of the kernel, in order.
    pub fn parameters(&self) -> Vec<Parameter> {
        let rows = |tensor| rows_parameters(tensor, self.access);
        let mut list = [Tensor::Q, Tensor::K, Tensor::V].map(rows).concat();
        list.extend(rows_parameters(Tensor::Dout, self.access_of(Tensor::Dout)));
        list.extend([Tensor::Lse, Tensor::Delta].map(row_parameters).concat());
        if self.dq {
            list.extend(row_parameters(Tensor::DqSum));
        }
        if self.dbias {
            list.extend(element_parameters(Tensor::DbiasSum));
        }
        list.extend(self.dk.map(|_| rows(Tensor::Dk)).unwrap_or_default());
        list.extend(self.dv.map(|_| rows(Tensor::Dv)).unwrap_or_default());
        list.extend(shared_parameters(self.lengths, self.scores, self.dropout));
        if self.ordered {
            list.extend([Parameter::Base(Tensor::Turns), Parameter::QueryTiles]);
            if !self.dropout {
                list.push(Parameter::HeadsQ);
            }
        }
        list
    }

    /// How a tensor of rows is reached.
    pub(crate) fn access_of(&self, tensor: Tensor) -> Access {
        match tensor {
            Tensor::Dout if self.dout != self.element => Access::Elements,
            _ => self.access,
        }
    }

    /// The type of an input's elements.
    pub(crate) fn element_of(&self, tensor: Tensor) -> Element {
        if tensor == Tensor::Dout { self.dout } else { self.element }
    }

    /// Whether the gradient of the scores is needed.
    pub(crate) fn needs_scores(&self) -> bool {
        self.dq || self.dk.is_some() || self.dbias
    }

    /// Warps that share the keys of a tile; as many again share the columns of their gradients.
    pub fn key_warps(&self) -> u32 {
        self.tile.warps.min(self.tile.keys / 16)
    }

    /// Fragments of 16 keys of each warp.
    pub(crate) fn key_fragments(&self) -> usize {
        (self.tile.keys / (16 * self.key_warps())) as usize
    }
}
