//! Standard attention, backward.

use super::Gradients;
use super::forward::{drop_factor, filled, lse_index, out_index, out_row, softmax_row};
use super::precision::Precision;
use super::scores::scores;
use crate::error::Result;
use crate::problem::Problem;

pub(super) fn backward(
    problem: &Problem<'_>,
    dout: &[f64],
    dlse: Option<&[f64]>,
    precision: Precision,
) -> Result<Gradients> {
    assert_eq!(dout.len(), problem.out_shape().iter().product::<usize>(), "dout is as long as out");
    let (d, dv) = (problem.head_dim(), problem.head_dim_v());
    let (q_rows, k_rows) = problem.total_rows();
    let bias_shape = problem.bias_shape();
    let mut g = Gradients {
        dq: filled(0.0, &[q_rows, problem.heads_q(), d])?,
        dk: filled(0.0, &[k_rows, problem.heads_k(), d])?,
        dv: filled(0.0, &[k_rows, problem.heads_k(), dv])?,
        dbias: bias_shape.map(|shape| filled(0.0, &shape)).transpose()?,
        dsinks: problem.sink_count().map(|n| filled(0.0, &[n])).transpose()?,
    };
    for b in 0..problem.batch() {
        for h in 0..problem.heads_q() {
            let head_k = h / problem.group();
            let (q, k, v) = (problem.q(b, h), problem.k(b, head_k), problem.v(b, head_k));
            let scores = scores(problem, b, h, precision)?;
            for i in 0..q.rows() {
                let row = softmax_row(problem, &scores, h, i, precision);
                let dout = &dout[out_index(problem, b, h, i)..][..dv];
                let dlse = dlse.map_or(0.0, |dlse| dlse[lse_index(problem, b, h, i)]);
                // dP of each visible key, and delta = rowsum(dout ∘ out) with out as it is kept.
                let dp: Vec<f64> = row
                    .weights
                    .iter()
                    .map(|&(j, _)| {
                        let dot = precision.dot((0..dv).map(|c| (dout[c], v.get(j, c))));
                        precision.store(dot) * drop_factor(problem, b, h, i, j)
                    })
                    .collect();
                // Where no key is seen, out is the constant 0: dout does not matter, NaN included.
                let delta = if row.weights.is_empty() {
                    0.0
                } else {
                    let out = out_row(problem, &row, b, h, i, precision);
                    precision.dot(dout.iter().copied().zip(out))
                };
                for (&(j, p), &dp) in row.weights.iter().zip(&dp) {
                    let ds = precision.store(p * precision.sum(precision.sum(dp - delta) + dlse));
                    if let (Some(dbias), Some(shape)) = (&mut g.dbias, bias_shape) {
                        let at = broadcast_index(shape, [b, h, i, j]);
                        dbias[at] = precision.sum(dbias[at] + ds);
                    }
                    let ds = ds * scores.slope(i, j) * problem.scale();
                    let weight = p * drop_factor(problem, b, h, i, j);
                    let dq = (problem.query_row(b, i) * problem.heads_q() + h) * d;
                    let key = problem.key_row(b, j) * problem.heads_k() + head_k;
                    for c in 0..d {
                        g.dq[dq + c] = precision.sum(g.dq[dq + c] + ds * k.get(j, c));
                        g.dk[key * d + c] = precision.sum(g.dk[key * d + c] + ds * q.get(i, c));
                    }
                    for c in 0..dv {
                        let at = key * dv + c;
                        g.dv[at] = precision.sum(g.dv[at] + weight * dout[c]);
                    }
                }
                if let (Some(dsinks), Some(sink)) = (&mut g.dsinks, problem.sink(h))
                    && sink != f64::NEG_INFINITY
                {
                    let weight = (sink - row.lse).exp();
                    dsinks[h] = precision.sum(dsinks[h] + weight * (dlse - delta));
                }
            }
        }
    }
    for x in [&mut g.dq, &mut g.dk, &mut g.dv] {
        x.iter_mut().for_each(|x| *x = precision.store(*x));
    }
    Ok(g)
}

/// Where element (b, h, i, j) is in a row-major tensor with 1 in its broadcast dimensions.
fn broadcast_index(shape: [usize; 4], index: [usize; 4]) -> usize {
    shape.iter().zip(index).fold(0, |at, (&n, i)| at * n + if n == 1 { 0 } else { i })
}
