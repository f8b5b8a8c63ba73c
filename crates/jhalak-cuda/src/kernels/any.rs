//! [`KernelClass`]: a class of any kernel, which names a module and is the key of the cache.

use jhalak_ptx::{Error, Module};

use super::backward_class::BackwardClass;
use super::class::ForwardClass;
use super::hopper::{self, HopperClass};
use super::passes::{self, DeltaClass, DsinksClass, FinishDbiasClass, FinishDqClass, MergeClass};
use super::portable;

/// What a module is compiled for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KernelClass {
    /// Attention, forward.
    Forward(ForwardClass),
    /// Attention, forward, on Hopper.
    HopperForward(HopperClass),
    /// Attention, backward.
    Backward(BackwardClass),
    /// rowsum(dout ∘ out) − dlse.
    Delta(DeltaClass),
    /// dq from its f32 sums.
    FinishDq(FinishDqClass),
    /// The gradient of the bias from its f32 sums.
    FinishDbias(FinishDbiasClass),
    /// The gradient of sinks.
    Dsinks(DsinksClass),
    /// Partial results become one.
    Merge(MergeClass),
}

impl KernelClass {
    /// The module, with one kernel.
    ///
    /// # Errors
    /// What [`ModuleBuilder::build`](jhalak_ptx::ModuleBuilder::build) finds.
    pub fn module(&self) -> Result<Module, Error> {
        match self {
            KernelClass::Forward(class) => portable::forward(class),
            KernelClass::HopperForward(class) => hopper::forward(class),
            KernelClass::Backward(class) => portable::backward(class),
            KernelClass::Delta(class) => passes::delta(class),
            KernelClass::FinishDq(class) => passes::finish_dq(class),
            KernelClass::FinishDbias(class) => passes::finish_dbias(class),
            KernelClass::Dsinks(class) => passes::dsinks(class),
            KernelClass::Merge(class) => passes::merge(class),
        }
    }

    /// The kernel's name in its module.
    pub fn name(&self) -> &'static str {
        match self {
            KernelClass::Forward(_) => portable::FORWARD,
            KernelClass::HopperForward(_) => hopper::FORWARD,
            KernelClass::Backward(_) => portable::BACKWARD,
            KernelClass::Delta(_) => passes::DELTA,
            KernelClass::FinishDq(_) => passes::FINISH_DQ,
            KernelClass::FinishDbias(_) => passes::FINISH_DBIAS,
            KernelClass::Dsinks(_) => passes::DSINKS,
            KernelClass::Merge(_) => passes::MERGE,
        }
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        match self {
            KernelClass::Forward(class) => class.tile.threads(),
            KernelClass::HopperForward(class) => class.attention.tile.threads(),
            KernelClass::Backward(class) => class.tile.threads(),
            KernelClass::Dsinks(_) => DsinksClass::THREADS,
            KernelClass::Delta(_)
            | KernelClass::FinishDq(_)
            | KernelClass::FinishDbias(_)
            | KernelClass::Merge(_) => passes::THREADS,
        }
    }

    /// Dynamic shared memory of a block, in bytes.
    pub fn shared_bytes(&self) -> u32 {
        match self {
            KernelClass::Forward(class) => portable::shared_bytes(class),
            KernelClass::HopperForward(class) => class.shared_bytes(),
            KernelClass::Backward(class) => portable::backward_shared_bytes(class),
            _ => 0,
        }
    }
}

macro_rules! from_class {
    ($($class:ident => $variant:ident)*) => {$(
        impl From<$class> for KernelClass {
            fn from(class: $class) -> Self {
                KernelClass::$variant(class)
            }
        }
    )*};
}

from_class! {
    ForwardClass => Forward
    HopperClass => HopperForward
    BackwardClass => Backward
    DeltaClass => Delta
    FinishDqClass => FinishDq
    FinishDbiasClass => FinishDbias
    DsinksClass => Dsinks
    MergeClass => Merge
}
