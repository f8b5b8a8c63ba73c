//! What a kernel is compiled for. Equal classes are one kernel; whatever differs from call to call
//! is a parameter.

use jhalak_ptx::Target;

use super::element::Element;
use super::parameters::{Axis, Parameter, Tensor};

/// How tensors of rows are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// 16 bytes at once: rows are contiguous and everything is aligned to 16 bytes.
    Vectors,
    /// Element by element, with any strides.
    Elements,
}

/// How much of the work a block does at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Rows of queries, a multiple of 16 · warps.
    pub rows: u32,
    /// Keys, a multiple of 16.
    pub keys: u32,
    /// Warps of a block.
    pub warps: u32,
}

impl Tile {
    /// Threads of a block.
    pub fn threads(self) -> u32 {
        32 * self.warps
    }

    /// Fragments of 16 rows of each warp.
    pub fn row_fragments(self) -> usize {
        (self.rows / (16 * self.warps)) as usize
    }
}

/// Whose lengths differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lengths {
    /// Sequences lie one after the other; otherwise they are rows of a batch.
    pub packed: bool,
    /// Used queries are given for each sequence.
    pub used_q: bool,
    /// Used keys are given for each sequence.
    pub used_k: bool,
}

/// Which bounds of visibility there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// Early keys are hidden: a window's left side.
    pub lower: bool,
    /// Late keys are hidden: causal, or a window's right side.
    pub upper: bool,
}

/// How a score is made of a product.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scores {
    /// The scale is above 0 and nothing else happens to a product: it goes into the exponent.
    pub folded: bool,
    /// Scores are capped.
    pub softcap: bool,
    /// A bias is added.
    pub bias: Option<Element>,
    /// A boolean mask hides keys.
    pub mask: bool,
    /// ALiBi slopes.
    pub alibi: bool,
}

/// The class of a forward kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ForwardClass {
    /// The architecture it is written for.
    pub target: Target,
    /// The type of q, k and v.
    pub element: Element,
    /// The type of out.
    pub out: Element,
    /// D.
    pub head_dim: u32,
    /// Dv.
    pub head_dim_v: u32,
    /// How q, k, v and out are reached.
    pub access: Access,
    /// The work of a block.
    pub tile: Tile,
    /// A tile's rows are all heads of a group, position by position, so that short queries fill it.
    pub grouped: bool,
    /// A block takes a part of a tile's keys; out and lse have a dimension more, for the parts.
    pub split: bool,
    /// Sequences of different lengths.
    pub lengths: Lengths,
    /// Visibility by position.
    pub bounds: Bounds,
    /// Scores.
    pub scores: Scores,
    /// The type of the sinks, where there are any.
    pub sinks: Option<Element>,
    /// Whether weights are dropped.
    pub dropout: bool,
}

impl ForwardClass {
    /// Whether some keys of a sequence may be hidden from some of its queries.
    pub fn hides(&self) -> bool {
        let Scores { bias, mask, .. } = self.scores;
        self.bounds.lower || self.bounds.upper || bias.is_some() || mask
    }

    /// The parameters of the kernel, in order.
    pub fn parameters(&self) -> Vec<Parameter> {
        let rows = |tensor| rows_parameters(tensor, self.access);
        let mut list = [Tensor::Q, Tensor::K, Tensor::V, Tensor::Out].map(rows).concat();
        list.extend(row_parameters(Tensor::Lse));
        if self.split {
            list.push(Parameter::Parts);
            list.extend(
                [Tensor::Out, Tensor::Lse].map(|tensor| Parameter::Stride(tensor, Axis::Part)),
            );
        }
        list.extend(shared_parameters(self.lengths, self.scores, self.dropout));
        if self.scores.folded {
            list.push(Parameter::Slack);
        }
        if self.sinks.is_some() {
            list.extend(tensor_parameters(Tensor::Sinks, [Some(Axis::Head), None, None, None]));
        }
        list
    }
}

/// What a forward and a backward kernel are given of the call, beside the tensors of rows.
pub(crate) fn shared_parameters(lengths: Lengths, scores: Scores, dropout: bool) -> Vec<Parameter> {
    use Axis::{Batch, Column, Head, Row};
    let all = [Some(Batch), Some(Head), Some(Row), Some(Column)];
    let list_of = |given: bool, tensor| {
        if given { tensor_parameters(tensor, [Some(Row), None, None, None]) } else { Vec::new() }
    };
    let Lengths { packed, used_q, used_k } = lengths;
    let mut list = vec![Parameter::RowsQ, Parameter::RowsK, Parameter::RowTiles, Parameter::Group];
    list.extend([Parameter::Aligned, Parameter::Low, Parameter::High]);
    list.extend(list_of(packed, Tensor::CuQ));
    list.extend(list_of(packed, Tensor::CuK));
    if packed {
        list.push(Parameter::Batch);
    }
    list.extend(list_of(used_q, Tensor::UsedQ));
    list.extend(list_of(used_k, Tensor::UsedK));
    list.push(Parameter::Scale);
    if scores.folded {
        list.push(Parameter::ScaleLog2);
    }
    if scores.softcap {
        list.extend([Parameter::Softcap, Parameter::ScaleOverCap]);
    }
    if scores.bias.is_some() {
        list.extend(tensor_parameters(Tensor::Bias, all));
    }
    if scores.mask {
        list.extend(tensor_parameters(Tensor::Mask, all));
    }
    if scores.bias.is_some() || scores.mask {
        list.extend([Parameter::ScoreRows, Parameter::ScoreColumns]);
    }
    if scores.alibi {
        list.extend(tensor_parameters(Tensor::Alibi, [Some(Batch), Some(Head), None, None]));
        list.push(Parameter::Start);
    }
    if dropout {
        list.extend(DROPOUT);
    }
    list
}

const DROPOUT: [Parameter; 9] = [
    Parameter::HeadsQ,
    Parameter::DropoutQuery,
    Parameter::DropoutShift,
    Parameter::DropoutBlock,
    Parameter::SeedLow,
    Parameter::SeedHigh,
    Parameter::Offset,
    Parameter::Threshold,
    Parameter::Keep,
];

/// A tensor of rows: its address and strides.
pub(crate) fn rows_parameters(tensor: Tensor, access: Access) -> Vec<Parameter> {
    match access {
        Access::Vectors => row_parameters(tensor),
        Access::Elements => element_parameters(tensor),
    }
}

/// The parameters of a tensor with one number for each row, or with rows that are contiguous.
pub(crate) fn row_parameters(tensor: Tensor) -> Vec<Parameter> {
    tensor_parameters(tensor, [Some(Axis::Batch), Some(Axis::Head), Some(Axis::Row), None])
}

/// The parameters of a tensor with any strides.
pub(crate) fn element_parameters(tensor: Tensor) -> Vec<Parameter> {
    let axes = [Axis::Batch, Axis::Head, Axis::Row, Axis::Column];
    tensor_parameters(tensor, axes.map(Some))
}

/// A tensor's address, and its strides along these axes.
pub(crate) fn tensor_parameters(tensor: Tensor, axes: [Option<Axis>; 4]) -> Vec<Parameter> {
    let strides = axes.into_iter().flatten().map(|axis| Parameter::Stride(tensor, axis));
    std::iter::once(Parameter::Base(tensor)).chain(strides).collect()
}
