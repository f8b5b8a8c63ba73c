//! Standard attention, forward.

use super::Attended;
use super::precision::Precision;
use super::scores::{Scores, scores};
use crate::error::{Error, Result};
use crate::problem::Problem;

pub(super) fn forward(problem: &Problem<'_>, precision: Precision) -> Result<Attended> {
    let mut attended = Attended {
        out: filled(0.0, &problem.out_shape())?,
        lse: filled(f64::NEG_INFINITY, &problem.lse_shape())?,
    };
    for b in 0..problem.batch() {
        for h in 0..problem.heads_q() {
            let scores = scores(problem, b, h, precision)?;
            for i in 0..problem.sequence(b).seqlen_q() {
                let row = softmax_row(problem, &scores, h, i, precision);
                attended.lse[lse_index(problem, b, h, i)] = row.lse;
                let out = out_row(problem, &row, b, h, i, precision);
                attended.out[out_index(problem, b, h, i)..][..out.len()].copy_from_slice(&out);
            }
        }
    }
    Ok(attended)
}

/// One row of P.
pub(super) struct Row {
    pub(super) lse: f64,
    /// (key, weight) of the visible keys.
    pub(super) weights: Vec<(usize, f64)>,
}

/// The softmax of a row of scores, with its head's sink in the denominator.
pub(super) fn softmax_row(
    problem: &Problem<'_>,
    scores: &Scores,
    h: usize,
    i: usize,
    precision: Precision,
) -> Row {
    let visible = scores.row(i).iter().enumerate().filter(|&(_, &s)| s != f64::NEG_INFINITY);
    let sink = problem.sink(h).unwrap_or(f64::NEG_INFINITY);
    let max = visible.clone().fold(sink, |max, (_, &s)| if s > max { s } else { max });
    if visible.clone().next().is_none() {
        return Row { lse: sink, weights: Vec::new() };
    }
    let exp = |s: f64| precision.sum(precision.sum(s - max).exp());
    let from_sink = if sink == f64::NEG_INFINITY { 0.0 } else { exp(sink) };
    let sum = visible.clone().fold(from_sink, |sum, (_, &s)| precision.sum(sum + exp(s)));
    let weights = visible.map(|(j, &s)| (j, precision.store(exp(s) / sum))).collect();
    Row { lse: precision.sum(max + sum.ln()), weights }
}

/// out of one query: Σ P∘Z · v.
pub(super) fn out_row(
    problem: &Problem<'_>,
    row: &Row,
    b: usize,
    h: usize,
    i: usize,
    precision: Precision,
) -> Vec<f64> {
    let v = problem.v(b, h / problem.group());
    let weights: Vec<(usize, f64)> = row
        .weights
        .iter()
        .map(|&(j, weight)| (j, weight * drop_factor(problem, b, h, i, j)))
        .collect();
    (0..v.cols())
        .map(|c| {
            let terms = weights.iter().map(|&(j, weight)| (weight, v.get(j, c)));
            precision.out(problem.out_dtype(), precision.dot(terms))
        })
        .collect()
}

/// Z of one weight.
pub(super) fn drop_factor(problem: &Problem<'_>, b: usize, h: usize, i: usize, j: usize) -> f64 {
    let Some(dropout) = problem.dropout() else { return 1.0 };
    let sequence_head = (b * problem.heads_q() + h) as u32;
    let (query, key) = (problem.query_position(b, i), problem.key_position(j));
    if dropout.keeps(sequence_head, query, key) { dropout.keep_factor() } else { 0.0 }
}

/// A row-major tensor of this shape, every element `value`.
pub(super) fn filled(value: f64, shape: &[usize]) -> Result<Vec<f64>> {
    let out_of_memory =
        |bytes| Error::OutOfMemory { what: "the results of standard attention", bytes };
    let len = shape.iter().try_fold(1usize, |n, &size| n.checked_mul(size));
    let len = len.ok_or(out_of_memory(usize::MAX))?;
    let mut tensor = Vec::new();
    tensor.try_reserve_exact(len).map_err(|_| out_of_memory(len.saturating_mul(8)))?;
    tensor.resize(len, value);
    Ok(tensor)
}

/// Where out of a query begins in row-major order.
pub(super) fn out_index(problem: &Problem<'_>, b: usize, h: usize, i: usize) -> usize {
    (problem.query_row(b, i) * problem.heads_q() + h) * problem.head_dim_v()
}

/// Where lse of a query is in row-major order.
pub(super) fn lse_index(problem: &Problem<'_>, b: usize, h: usize, i: usize) -> usize {
    let shape = problem.lse_shape();
    let rows = shape[shape.len() - 1];
    let (storage, row) = if problem.is_packed() {
        (0, problem.query_row(b, i))
    } else {
        (b, problem.query_row(b, i) - b * rows)
    };
    (storage * problem.heads_q() + h) * rows + row
}
