//! The yardstick: standard attention as it comes out in the inputs' own type, scores and weights
//! rounded to it, products accumulated in f32.

use super::precision::Precision;
use super::{Attended, Gradients};
use crate::error::Result;
use crate::problem::Problem;

/// As [`forward`](super::forward), rounded as the inputs' dtype would be.
///
/// # Errors
/// As [`forward`](super::forward).
pub fn forward(problem: &Problem<'_>) -> Result<Attended> {
    super::forward::forward(problem, Precision::of(problem.dtype()))
}

/// As [`backward`](super::backward), rounded as the inputs' dtype would be.
///
/// # Errors
/// As [`backward`](super::backward).
///
/// # Panics
/// If a slice has the wrong length.
pub fn backward(problem: &Problem<'_>, dout: &[f64], dlse: Option<&[f64]>) -> Result<Gradients> {
    super::backward::backward(problem, dout, dlse, Precision::of(problem.dtype()))
}
