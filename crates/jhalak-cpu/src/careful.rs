//! Tiles whose keys or values hold NaN or infinities.
//!
//! A product with a weight of 0 would carry a NaN from a key that is not visible into every row,
//! so these tiles are computed pair by pair and skip what is not visible.

use jhalak_problem::Problem;

use crate::rows;
use crate::scores::{Rules, Tile};
use crate::softcap::Softcap;

/// The state of the rows of a tile: running maximum, running sum, outputs.
pub(crate) struct Rows<'s, E> {
    pub(crate) scores: &'s mut [E],
    pub(crate) max: &'s mut [E],
    pub(crate) sum: &'s mut [E],
    pub(crate) out: &'s mut [E],
    pub(crate) out_stride: usize,
    /// Work space for a row of values.
    pub(crate) value: &'s mut [E],
    pub(crate) kept: &'s mut [bool],
}

/// The softmax step and the product with the values, for a tile of finished scores.
pub(crate) fn step<E: Softcap>(
    rules: &Rules<'_, E>,
    tile: &Tile<'_>,
    rows: Rows<'_, E>,
    problem: &Problem<'_>,
) {
    let factor = rules.exponent_factor();
    let (keys, stride, head_dim_v) = (tile.keys.clone(), tile.shape.stride, problem.head_dim_v());
    let mut visible = vec![false; tile.rows.len() * keys.len()];
    for n in 0..tile.rows.len() {
        let s = &mut rows.scores[n * stride..n * stride + keys.len()];
        let max = s.iter().fold(rows.max[n], |max, &x| if x > max { x } else { max });
        let base = if max == E::NEG_INFINITY { E::ZERO } else { max };
        let power = |x: E| E::from_f64(((x - base).to_f64() * factor).exp2());
        let alpha = power(rows.max[n]);
        let mut sum = E::ZERO;
        for (x, visible) in s.iter_mut().zip(&mut visible[n * keys.len()..]) {
            *visible = *x != E::NEG_INFINITY;
            *x = power(*x);
            sum = sum + *x;
        }
        rows.max[n] = max;
        rows.sum[n] = rows.sum[n] * alpha + sum;
        for o in &mut rows.out[n * rows.out_stride..][..head_dim_v] {
            *o = *o * alpha;
        }
    }
    rules.drop_weights(tile, rows.scores, rows.kept);
    let v = problem.v(tile.unit.b, tile.unit.head_k);
    let value = &mut rows.value[..head_dim_v];
    for (j, key) in keys.clone().enumerate() {
        // SAFETY: the key lies inside v.
        unsafe { rows::load(&v, key, 0, value) };
        for n in 0..tile.rows.len() {
            if visible[n * keys.len() + j] {
                let weight = rows.scores[n * stride + j];
                let out = &mut rows.out[n * rows.out_stride..];
                for (o, &x) in out.iter_mut().zip(value.iter()) {
                    *o = *o + weight * x;
                }
            }
        }
    }
}
