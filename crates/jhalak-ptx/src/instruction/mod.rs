//! The instructions as data. Text, legality checks and the emulator all read these values.
//!
//! One file per family holds three things: the data of an instruction, its description (see
//! [`crate::describe`]), and the builder's methods that make it.

use std::panic::Location;

use crate::describe::{Describe, Reader};
use crate::register::Condition;

pub(crate) mod atomic;
pub(crate) mod barrier;
pub(crate) mod bulk_copy;
pub(crate) mod compare;
pub(crate) mod control;
pub(crate) mod convert;
pub(crate) mod cp_async;
pub(crate) mod float;
mod forms;
pub(crate) mod griddepcontrol;
pub(crate) mod integer;
pub(crate) mod ldmatrix;
pub(crate) mod mbarrier;
pub(crate) mod memory;
pub(crate) mod mma;
pub(crate) mod moves;
pub(crate) mod multiply;
pub(crate) mod packed;
pub(crate) mod setmaxnreg;
pub(crate) mod stmatrix;
pub(crate) mod tensor_copy;
pub(crate) mod types;
pub(crate) mod warp;
pub(crate) mod wgmma;

/// A place in a kernel's instruction list, by number. [`crate::Kernel`] knows where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Label(pub(crate) usize);

/// One instruction of a kernel.
#[derive(Clone, Debug)]
pub(crate) struct Instruction {
    /// Only lanes for which this holds execute it.
    pub(crate) guard: Option<Condition>,
    /// What is done.
    pub(crate) operation: Operation,
    /// The Rust line that emitted it.
    pub(crate) location: &'static Location<'static>,
}

macro_rules! operations {
    ($($family:ident :: $name:ident,)*) => {
        /// What an instruction does: one variant per family, of the same name as its data.
        #[derive(Clone, Debug)]
        pub(crate) enum Operation {
            $($name($family::$name),)*
        }

        impl Describe for Operation {
            fn describe(&self, to: &mut impl Reader) {
                match self {
                    $(Operation::$name(form) => form.describe(to),)*
                }
            }
        }

        $(impl From<$family::$name> for Operation {
            fn from(form: $family::$name) -> Self {
                Operation::$name(form)
            }
        })*
    };
}

operations! {
    integer::Integer,
    integer::BitField,
    integer::BitInsert,
    integer::Lop3,
    integer::Permute,
    multiply::MulWide,
    multiply::MulAdd,
    float::Float,
    float::FusedMulAdd,
    float::FloatUnary,
    packed::Packed,
    packed::PackedFusedMulAdd,
    packed::PackedEx2,
    compare::Compare,
    compare::Select,
    compare::Logic,
    convert::Convert,
    convert::ConvertPair,
    convert::AddressConvert,
    moves::Move,
    moves::Pack,
    moves::Unpack,
    moves::AddressOf,
    moves::ReadSpecial,
    warp::Shuffle,
    warp::Vote,
    warp::Ballot,
    warp::ActiveMask,
    warp::Elect,
    memory::Load,
    memory::Store,
    memory::Prefetch,
    atomic::Atomic,
    atomic::CompareSwap,
    atomic::Reduce,
    atomic::ReduceVector,
    atomic::ReducePair,
    barrier::Barrier,
    barrier::WarpBarrier,
    barrier::Fence,
    barrier::FenceMbarrierInit,
    barrier::FenceProxyAsync,
    mbarrier::MbarrierInit,
    mbarrier::MbarrierInvalidate,
    mbarrier::MbarrierArrive,
    mbarrier::MbarrierExpect,
    mbarrier::MbarrierTest,
    mbarrier::CpAsyncArrive,
    tensor_copy::TensorLoad,
    tensor_copy::TensorStore,
    tensor_copy::TensorPrefetch,
    tensor_copy::PrefetchTensorMap,
    bulk_copy::BulkLoad,
    bulk_copy::BulkStore,
    bulk_copy::BulkReduce,
    bulk_copy::BulkCommit,
    bulk_copy::BulkWait,
    setmaxnreg::SetMaxRegisters,
    griddepcontrol::GridDependencyControl,
    ldmatrix::LoadMatrix,
    stmatrix::StoreMatrix,
    stmatrix::TransposeMatrix,
    mma::Mma,
    wgmma::Wgmma,
    wgmma::WgmmaFence,
    wgmma::WgmmaCommit,
    wgmma::WgmmaWait,
    cp_async::CpAsync,
    cp_async::CpAsyncCommit,
    cp_async::CpAsyncWait,
    control::Branch,
    control::Return,
}
