//! A PTX assembler: kernels are Rust programs that emit PTX, which the CUDA driver compiles when
//! they are first run. It knows nothing of attention.
//!
//! ```text
//! ModuleBuilder ──kernel(name, |k| …)──▶ KernelBuilder ──build()──▶ Module ──text()──▶ the driver
//!  (a target)      k.fma_f32(a, b, c)     (checks each               (instructions as data)
//!                  k.for_range(…)          instruction)
//! ```
//!
//! Registers are typed handles ([`F32`], [`B32`], [`B64`], [`B16`], [`Pred`]), so that an operand
//! of a wrong type does not compile. A method stands for one instruction form: `k.fma_f32(a, b, c)`
//! writes a new register and returns it, `k.fma_f32_to(d, a, b, c)` writes one that exists. Inputs
//! can be constants: `k.add_u32(a, 1)`. The type of an address tells its state space: [`B64`]
//! points to global memory, [`B32`] and [`Region`] to shared memory; `(base, 16)` adds an offset in
//! bytes.
//!
//! Control flow is made of closures ([`if_`](KernelBuilder::if_),
//! [`for_range`](KernelBuilder::for_range), [`role`](KernelBuilder::role), …); a Rust loop around
//! `k` unrolls. [`when`](KernelBuilder::when) guards single instructions with a predicate, and `!p`
//! is the opposite of a predicate.
//!
//! Every instruction form states the rules of PTX that types cannot express, the targets that have
//! it, and the version of PTX that brought it. The module gets the lowest `.version` that has what
//! its kernels use, so that old drivers can read it. What breaks a rule is reported by
//! [`ModuleBuilder::build`], with the rule, the instruction and the Rust line that emitted it.
//!
//! The [`emulator`] runs a kernel on the CPU and reports races, deadlocks and what else a device
//! would let pass in silence.

mod address;
mod builder;
mod check;
mod control;
mod describe;
mod descriptor;
pub mod emulator;
mod error;
mod instruction;
mod kernel;
mod module;
mod names;
mod parameter;
mod register;
mod shared;
mod swizzle;
mod target;
mod tensor_map;
mod text;

pub use address::{Address, GlobalAddress, SharedAddress};
pub use builder::KernelBuilder;
pub use control::Loop;
pub use descriptor::{Descriptor, Major, MatrixLayout};
pub use error::Error;
pub use instruction::atomic::{AtomicOperator, AtomicOrder};
pub use instruction::barrier::{AsyncMemory, FenceOrder};
pub use instruction::compare::{Comparison, Connective};
pub use instruction::memory::{Access, Element, L1, Order};
pub use instruction::moves::Special;
pub use instruction::types::Scope;
pub use instruction::wgmma::LeftMatrix;
pub use kernel::{BlockThreads, Kernel, LaunchBounds};
pub use module::{Module, ModuleBuilder};
pub use parameter::{Param, Parameter, ParameterKind, TensorMap};
pub use register::{B16, B32, B64, Class, Condition, F32, Pred, Register, Source, TypedRegister};
pub use shared::{Placement, Region, SharedLayout};
pub use swizzle::Swizzle;
pub use target::{Target, Version};
pub use tensor_map::{OutOfBounds, TENSOR_ALIGN, TensorElement, TensorMapError, TensorMapSpec};
