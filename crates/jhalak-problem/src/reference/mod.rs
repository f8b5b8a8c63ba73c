//! Standard attention in f64: the baseline that materialises the scores, and the judge of every
//! engine.
//!
//! ```text
//! S = scores(q·kᵀ)   P = softmax(S)   out = P·v        one [Sq, Sk] matrix per sequence and head
//! ```
//!
//! It follows the contract line by line, in plain loops. Slow, and meant to be read. The same
//! loops with every step rounded as a 16-bit or f32 computation would ([`in_dtype`]) give the
//! yardstick: how far plain attention in that type is from the truth. [`judge`] compares an
//! engine's result with both.

mod backward;
mod forward;
pub mod in_dtype;
pub mod judge;
mod merge;
mod precision;
mod scores;

pub use merge::merge;

use crate::error::Result;
use crate::problem::Problem;
use precision::Precision;

/// What a forward pass gives, in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct Attended {
    /// [B, Sq, Hq, Dv] or [total_q, Hq, Dv].
    pub out: Vec<f64>,
    /// [B, Hq, Sq] or [Hq, total_q].
    pub lse: Vec<f64>,
}

/// What a backward pass gives: each shaped as its tensor, in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct Gradients {
    /// Gradient of q.
    pub dq: Vec<f64>,
    /// Gradient of k.
    pub dk: Vec<f64>,
    /// Gradient of v.
    pub dv: Vec<f64>,
    /// Gradient of the bias, summed over its broadcast dimensions, where there is one.
    pub dbias: Option<Vec<f64>>,
    /// Gradient of the sinks, where there are any.
    pub dsinks: Option<Vec<f64>>,
}

/// out and lse, exactly.
///
/// # Errors
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory) if the scores of one head do not fit.
pub fn forward(problem: &Problem<'_>) -> Result<Attended> {
    forward::forward(problem, Precision::EXACT)
}

/// All gradients, exactly, for the gradients of out (shaped as out) and of lse (shaped as lse),
/// both in row-major order.
///
/// # Errors
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory) if the scores of one head do not fit.
///
/// # Panics
/// If a slice has the wrong length.
pub fn backward(problem: &Problem<'_>, dout: &[f64], dlse: Option<&[f64]>) -> Result<Gradients> {
    backward::backward(problem, dout, dlse, Precision::EXACT)
}
