//! What kernels are given: addresses, strides and numbers, in an order that the class decides.
//!
//! A kernel asks for a [`Parameter`] by name; a launch gives its value by the same name. So the
//! order is written once.

use jhalak_ptx::{B32, B64, F32, KernelBuilder, Param, TensorMap};

/// A tensor that a kernel reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tensor {
    /// Queries.
    Q,
    /// Keys.
    K,
    /// Values.
    V,
    /// The result.
    Out,
    /// The logarithm of each row's sum of exponentials.
    Lse,
    /// The bias of the scores.
    Bias,
    /// The boolean mask.
    Mask,
    /// ALiBi slopes.
    Alibi,
    /// Sink logits.
    Sinks,
    /// Where packed queries begin.
    CuQ,
    /// Where packed keys begin.
    CuK,
    /// Used queries of each sequence.
    UsedQ,
    /// Used keys of each sequence.
    UsedK,
    /// The gradient of the result.
    Dout,
    /// rowsum(dout ∘ out), given instead of the result.
    GivenDelta,
    /// The gradient of lse.
    Dlse,
    /// rowsum(dout ∘ out) − dlse, which the backward pass reads.
    Delta,
    /// Sums of floats that become the gradient of q.
    DqSum,
    /// The gradient of q.
    Dq,
    /// The gradient of the sinks.
    Dsinks,
    /// The result over a part of the keys.
    PartOut(u8),
    /// The lse over a part of the keys.
    PartLse(u8),
    /// The gradient of k.
    Dk,
    /// The gradient of v.
    Dv,
    /// Sums of floats that become the gradient of the bias.
    DbiasSum,
    /// The gradient of the bias.
    Dbias,
    /// How many blocks have begun, and whose turn it is in each tile of dq.
    Turns,
}

/// A direction in which a tensor has a stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Axis {
    /// From one sequence to the next.
    Batch,
    /// From one head to the next.
    Head,
    /// From one position to the next.
    Row,
    /// From one element of a row to the next.
    Column,
    /// From one part of the keys to the next.
    Part,
}

/// One parameter of a kernel. Strides are in bytes, as the 64 bits of a signed number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parameter {
    /// The address of a tensor's first element.
    Base(Tensor),
    /// A tensor's stride.
    Stride(Tensor, Axis),
    /// What the copy engine must know of a tensor.
    Map(Tensor),
    /// Queries of a dense sequence; all rows of packed queries.
    RowsQ,
    /// Keys of a dense sequence; all rows of packed keys.
    RowsK,
    /// Packed sequences.
    Batch,
    /// Tiles of rows along the grid.
    RowTiles,
    /// Query heads.
    HeadsQ,
    /// Units of work of all sequences and heads.
    Units,
    /// Query heads of a key head.
    Group,
    /// 1 where the last query sits on the last key, 0 where positions are given.
    Aligned,
    /// The key on which query 0 sits, if positions are given; otherwise 0. Signed.
    Start,
    /// Query i sees keys from i + this on, before alignment. Signed.
    Low,
    /// Query i sees keys up to i + this, before alignment. Signed.
    High,
    /// What a product is multiplied by to be a score.
    Scale,
    /// What a product is multiplied by to be a power of two's exponent: scale · log₂ e.
    ScaleLog2,
    /// How far a row's maximum may rise, in products, before sums are rescaled.
    Slack,
    /// The cap of the scores.
    Softcap,
    /// Scale divided by the cap.
    ScaleOverCap,
    /// Rows of bias and mask, where they are not broadcast.
    ScoreRows,
    /// Columns of bias and mask, where they are not broadcast.
    ScoreColumns,
    /// Rows of the bias; 1 where they are broadcast.
    BiasRows,
    /// Columns of the bias; 1 where they are broadcast.
    BiasColumns,
    /// The position of query 0 for dropout, before alignment, modulo 2³².
    DropoutQuery,
    /// How far the first key lies after a multiple of 32 positions.
    DropoutShift,
    /// The first block of 32 positions for dropout, modulo 2³².
    DropoutBlock,
    /// The seed's low half.
    SeedLow,
    /// The seed's high half.
    SeedHigh,
    /// The generator's offset.
    Offset,
    /// Numbers below this are dropped.
    Threshold,
    /// What kept weights are multiplied by.
    Keep,
    /// Sequences of a dense tensor; 1 where all are packed.
    Storages,
    /// Parts of the keys.
    Parts,
    /// Tiles of queries of a head, those of all packed sequences.
    QueryTiles,
}

enum Kind {
    U32,
    U64,
    F32,
    Map,
}

impl Parameter {
    fn kind(self) -> Kind {
        use Parameter::{Base, Keep, Map, Scale, ScaleLog2, ScaleOverCap, Slack, Softcap, Stride};
        match self {
            Base(_) | Stride(..) => Kind::U64,
            Map(_) => Kind::Map,
            Scale | ScaleLog2 | Slack | Softcap | ScaleOverCap | Keep => Kind::F32,
            _ => Kind::U32,
        }
    }

    /// The parameter's name in PTX.
    fn name(self) -> String {
        let name = match self {
            Parameter::Base(tensor) => format!("{tensor:?}"),
            Parameter::Stride(tensor, axis) => format!("{tensor:?}_{axis:?}"),
            Parameter::Map(tensor) => format!("{tensor:?}_map"),
            other => format!("{other:?}"),
        };
        name.replace(['(', ')'], "")
    }
}

/// The declared parameters of a kernel.
#[derive(Clone)]
pub(crate) struct Inputs(Vec<(Parameter, Place)>);

#[derive(Clone, Copy)]
enum Place {
    U32(Param<B32>),
    U64(Param<B64>),
    F32(Param<F32>),
    Map(TensorMap),
}

impl Inputs {
    /// Declares parameters in this order.
    pub(crate) fn declare(k: &mut KernelBuilder, parameters: &[Parameter]) -> Self {
        let declare = |&parameter: &Parameter| {
            let name = parameter.name();
            let place = match parameter.kind() {
                Kind::U32 => Place::U32(k.param_u32(&name)),
                Kind::U64 => Place::U64(k.param_u64(&name)),
                Kind::F32 => Place::F32(k.param_f32(&name)),
                Kind::Map => Place::Map(k.param_tensor_map(&name)),
            };
            (parameter, place)
        };
        Inputs(parameters.iter().map(declare).collect())
    }

    /// Whether the class has this parameter.
    pub(crate) fn has(&self, parameter: Parameter) -> bool {
        self.0.iter().any(|(other, _)| *other == parameter)
    }

    fn place(&self, parameter: Parameter) -> Place {
        let found = self.0.iter().find(|(other, _)| *other == parameter);
        found.unwrap_or_else(|| panic!("the class has no parameter {parameter:?}")).1
    }

    /// An integer.
    pub(crate) fn u32(&self, k: &mut KernelBuilder, parameter: Parameter) -> B32 {
        match self.place(parameter) {
            Place::U32(place) => k.ld_param(place),
            _ => panic!("{parameter:?} is not a 32-bit integer"),
        }
    }

    /// A float.
    pub(crate) fn f32(&self, k: &mut KernelBuilder, parameter: Parameter) -> F32 {
        match self.place(parameter) {
            Place::F32(place) => k.ld_param(place),
            _ => panic!("{parameter:?} is not a float"),
        }
    }

    /// A tensor's address.
    pub(crate) fn base(&self, k: &mut KernelBuilder, tensor: Tensor) -> B64 {
        self.u64(k, Parameter::Base(tensor))
    }

    /// A tensor's stride, in bytes.
    pub(crate) fn stride(&self, k: &mut KernelBuilder, tensor: Tensor, axis: Axis) -> B64 {
        self.u64(k, Parameter::Stride(tensor, axis))
    }

    /// The address of a tensor's map.
    pub(crate) fn map(&self, k: &mut KernelBuilder, tensor: Tensor) -> B64 {
        match self.place(Parameter::Map(tensor)) {
            Place::Map(map) => k.tensor_map_address(map),
            _ => panic!("the map of {tensor:?} is not a map"),
        }
    }

    fn u64(&self, k: &mut KernelBuilder, parameter: Parameter) -> B64 {
        match self.place(parameter) {
            Place::U64(place) => k.ld_param(place),
            _ => panic!("{parameter:?} is not 64 bits wide"),
        }
    }

    /// address + index · stride, for a signed index.
    pub(crate) fn advance(
        &self,
        k: &mut KernelBuilder,
        address: B64,
        index: B32,
        tensor: Tensor,
        axis: Axis,
    ) -> B64 {
        let stride = self.stride(k, tensor, axis);
        let index = k.cvt_s64_s32(index);
        k.mad_lo_u64(index, stride, address)
    }
}
