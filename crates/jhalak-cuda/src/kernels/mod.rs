//! The kernels, as Rust programs that write PTX.
//!
//! A class names a kernel: everything that its text depends on. What changes from call to call is a
//! parameter. The portable kernels run on every card from sm_75 on; they are made of parts that
//! stand beside them here.

mod any;
mod backward_class;
mod class;
mod context;
mod dropout;
mod element;
mod finish;
mod guarded;
pub mod hopper;
mod normaliser;
mod parameters;
pub mod passes;
pub mod portable;
mod repair;
mod row;
mod scores;
mod sequence;
mod softmax;
mod thread;
mod visible;

pub use any::KernelClass;
pub use backward_class::{BackwardClass, Store};
pub use class::{Access, Bounds, ForwardClass, Lengths, Scores, Tile};
pub use element::Element;
pub use parameters::{Axis, Parameter, Tensor};
pub(crate) use softmax::SLACK_LOG2;
