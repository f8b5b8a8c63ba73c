//! The scores of one sequence and head, in the order of the contract.

use super::precision::Precision;
use crate::error::{Error, Result};
use crate::problem::Problem;

/// S of one sequence and query head, [Sq, Sk]: −∞ where the key is not visible.
pub(super) struct Scores {
    pub(super) keys: usize,
    pub(super) s: Vec<f64>,
    /// The derivative of the softcap at each score; empty without softcap.
    pub(super) slopes: Vec<f64>,
}

impl Scores {
    pub(super) fn row(&self, i: usize) -> &[f64] {
        &self.s[i * self.keys..(i + 1) * self.keys]
    }

    pub(super) fn slope(&self, i: usize, j: usize) -> f64 {
        self.slopes.get(i * self.keys + j).copied().unwrap_or(1.0)
    }
}

pub(super) fn scores(
    problem: &Problem<'_>,
    b: usize,
    h: usize,
    precision: Precision,
) -> Result<Scores> {
    let (q, k) = (problem.q(b, h), problem.k(b, h / problem.group()));
    let (bias, mask) = (problem.bias(b, h), problem.mask(b, h));
    let (slope, visibility) = (problem.alibi_slope(b, h), problem.visibility(b));
    let (queries, keys) = (q.rows(), k.rows());
    let mut s = matrix(queries, keys)?;
    let mut slopes = if problem.softcap().is_some() { matrix(queries, keys)? } else { Vec::new() };
    for i in 0..queries {
        let visible_keys = visibility.keys(i);
        for j in 0..keys {
            let visible = visible_keys.contains(&j) && mask.is_none_or(|m| m.get(i, j) != 0.0);
            if !visible {
                s.push(f64::NEG_INFINITY);
                slopes.extend(problem.softcap().map(|_| 0.0));
                continue;
            }
            let product = precision.dot((0..q.cols()).map(|c| (q.get(i, c), k.get(j, c))));
            let mut x = precision.sum(problem.scale() * product);
            if let Some(c) = problem.softcap() {
                let tanh = precision.sum(precision.sum(x / c).tanh());
                slopes.push(if precision.is_exact() {
                    // 1 − tanh², without the cancellation.
                    (x / c).cosh().powi(-2)
                } else {
                    precision.sum(1.0 - tanh * tanh)
                });
                x = precision.sum(c * tanh);
            }
            let bias = bias.map_or(0.0, |m| m.get(i, j));
            x = precision.sum(x + bias);
            if let Some(slope) = slope {
                let distance = problem.query_position(b, i) - problem.key_position(j);
                let penalty = precision.sum(slope * distance.unsigned_abs() as f64);
                x = precision.sum(x - penalty);
            }
            s.push(if bias == f64::NEG_INFINITY { bias } else { precision.store(x) });
        }
    }
    Ok(Scores { keys, s, slopes })
}

/// An empty matrix with room for its elements.
fn matrix(rows: usize, cols: usize) -> Result<Vec<f64>> {
    let out_of_memory =
        |bytes| Error::OutOfMemory { what: "the scores of standard attention", bytes };
    let len = rows.checked_mul(cols).ok_or(out_of_memory(usize::MAX))?;
    let mut matrix = Vec::new();
    matrix.try_reserve_exact(len).map_err(|_| out_of_memory(len.saturating_mul(8)))?;
    Ok(matrix)
}
