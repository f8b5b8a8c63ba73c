//! What is asked of jhalak: options and tensors become a checked [`Problem`].
//!
//! ```text
//! Attention (options) ─┐
//!                      ├─▶ Problem::new ──▶ Forward / Backward ──▶ an engine
//! TensorView (q, k, v) ┘    (checks all)     (with the outputs)
//! ```
//!
//! This crate holds what every engine shares: [`Attention`], the options as a plain value;
//! [`TensorView`], memory that somebody else owns; [`Problem`], the only place where anything is
//! validated; [`Visibility`], the only mask geometry; [`philox`], dropout's random numbers; and
//! [`reference`](mod@reference), standard attention in f64, which every engine is tested against.
//!
//! Most people want the `jhalak` crate, which runs the problem.

mod attention;
mod dtype;
mod error;
mod matrix;
mod overlap;
mod owned;
pub mod philox;
mod problem;
pub mod reference;
mod tensor;
mod visibility;

pub use attention::Attention;
pub use dtype::{DType, Element};
pub use error::{Error, Result};
pub use matrix::{Matrix, MatrixMut};
pub use owned::Tensor;
pub use philox::Dropout;
pub use problem::{
    Backward, BackwardInputs, Forward, Gradient, GradientTargets, LengthViews, Merge, OutOrDelta,
    Problem, ProblemTensors, Sequence, UnusedRows,
};
pub use tensor::{Device, MAX_RANK, TensorView, TensorViewMut};
pub use visibility::{TileClass, Visibility};
