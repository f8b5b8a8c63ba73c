//! [`Rules`]: from raw products q·k to scores, in the order of the contract: scale, softcap, bias,
//! ALiBi, then visibility; and from sums to out and lse.
//!
//! Where nothing but a positive scale stands between the product and the softmax, scores stay raw
//! and the scale goes into the exponent's factor: no pass over the tile is needed.

use std::f64::consts::LOG2_E;
use std::ops::Range;

use jhalak_problem::{Problem, TileClass, Visibility};

use crate::arithmetic::TileShape;
use crate::isa::{Isa, Op, SMALLEST_FACTOR};
use crate::rows;
use crate::softcap::Softcap;
use crate::units::Unit;

/// A tile of scores: some rows of a unit against some keys.
#[derive(Clone, Debug)]
pub(crate) struct Tile<'u> {
    pub(crate) unit: &'u Unit,
    pub(crate) rows: Range<usize>,
    pub(crate) keys: Range<usize>,
    pub(crate) shape: TileShape,
    pub(crate) class: TileClass,
}

/// What turns products into scores for one problem.
pub(crate) struct Rules<'p, E> {
    problem: &'p Problem<'p>,
    /// The scale is left to the exponent's factor.
    folded: bool,
    scale: E,
    /// The cap c and 1/c.
    cap: Option<(E, E)>,
    /// What dropout multiplies a kept weight by.
    keep_factor: E,
}

impl<'p, E: Softcap> Rules<'p, E> {
    pub(crate) fn new(problem: &'p Problem<'p>) -> Self {
        let additive = problem.bias_shape().is_some() || problem.has_alibi();
        let scale = E::from_f64(problem.scale());
        let cap = problem.softcap().map(|c| (E::from_f64(c), E::from_f64(1.0 / c)));
        let folded = problem.scale() * LOG2_E > SMALLEST_FACTOR && cap.is_none() && !additive;
        let keep_factor = problem.dropout().map_or(1.0, |dropout| dropout.keep_factor());
        Rules { problem, folded, scale, cap, keep_factor: E::from_f64(keep_factor) }
    }

    /// What is still to be multiplied into a score: the scale, where it is folded.
    pub(crate) fn pending_scale(&self) -> f64 {
        if self.folded { self.problem.scale() } else { 1.0 }
    }

    /// The softmax's weights are 2^(factor·(s − max)).
    pub(crate) fn exponent_factor(&self) -> f64 {
        self.pending_scale() * LOG2_E
    }

    /// Makes the tile's raw products into scores, −∞ where a key is not visible and in the
    /// columns past the keys. `row` is work space for a row of keys. `slopes`, shaped as the
    /// tile, gets the softcap's derivative where there is one.
    pub(crate) fn apply<I: Isa<Elem = E>>(
        &self,
        isa: I,
        tile: &Tile<'_>,
        visibility: &Visibility,
        s: &mut [E],
        row: &mut [E],
        slopes: Option<&mut [E]>,
    ) {
        let masked = tile.class == TileClass::Partial || self.problem.has_mask();
        let padded = tile.shape.cols > tile.keys.len();
        if !self.folded || masked || padded {
            isa.run(Apply { rules: self, tile, visibility, s, row, slopes });
        }
    }

    /// Puts 0 in place of the weights of a tile that dropout drops; `kept` is work space for a row.
    /// The others are multiplied by their factor at the end of the row, so that they are not rounded
    /// for it.
    pub(crate) fn drop_weights(&self, tile: &Tile<'_>, s: &mut [E], kept: &mut [bool]) {
        if self.problem.dropout().is_none() {
            return;
        }
        let kept = &mut kept[..tile.keys.len()];
        for n in 0..tile.rows.len() {
            self.fill_kept(tile, n, kept);
            for (x, &kept) in s[n * tile.shape.stride..].iter_mut().zip(&*kept) {
                *x = if kept { *x } else { E::ZERO };
            }
        }
    }

    /// Writes which weights of row `n` of a tile dropout keeps, one flag per key.
    pub(crate) fn fill_kept(&self, tile: &Tile<'_>, n: usize, kept: &mut [bool]) {
        let Some(dropout) = self.problem.dropout() else { return };
        let (unit, row) = (tile.unit, tile.rows.start + n);
        let sequence_head = (unit.b * self.problem.heads_q() + unit.head_q(row)) as u32;
        let query = self.problem.query_position(unit.b, unit.query(row));
        let first_key = self.problem.key_position(tile.keys.start);
        dropout.fill_kept(sequence_head, query, first_key, kept);
    }

    /// Multiplies a row by dropout's factors: 0 where dropped.
    pub(crate) fn drop_row(&self, values: &mut [E], kept: &[bool]) {
        for (x, &kept) in values.iter_mut().zip(kept) {
            *x = *x * if kept { self.keep_factor } else { E::ZERO };
        }
    }

    /// lse of a row, and what its output is to be multiplied by, from the maximum and sum of its
    /// scores and its head's sink.
    pub(crate) fn finish_row(&self, max: E, sum: E, h: usize) -> (E, E) {
        let sink = self.problem.sink(h).unwrap_or(f64::NEG_INFINITY);
        if sum == E::ZERO {
            return (E::from_f64(sink), E::ZERO);
        }
        let (max, sum) = (max.to_f64() * self.pending_scale(), sum.to_f64());
        let (lse, factor) = (max + sum.ln(), self.keep_factor.to_f64() / sum);
        if sink == f64::NEG_INFINITY {
            return (E::from_f64(lse), E::from_f64(factor));
        }
        let high = lse.max(sink);
        let total = high + ((lse - high).exp() + (sink - high).exp()).ln();
        (E::from_f64(total), E::from_f64(factor * (lse - total).exp()))
    }
}

struct Apply<'t, E> {
    rules: &'t Rules<'t, E>,
    tile: &'t Tile<'t>,
    visibility: &'t Visibility,
    s: &'t mut [E],
    row: &'t mut [E],
    slopes: Option<&'t mut [E]>,
}

impl<E: Softcap> Op for Apply<'_, E> {
    type Output = ();

    #[inline(always)]
    fn eval(self) {
        let Apply { rules, tile, visibility, s, row, mut slopes } = self;
        let problem = rules.problem;
        let (unit, keys) = (tile.unit, tile.keys.clone());
        for (n, r) in tile.rows.clone().enumerate() {
            let (h, i) = (unit.head_q(r), unit.query(r));
            let start = n * tile.shape.stride;
            let (s, padding) = s[start..start + tile.shape.cols].split_at_mut(keys.len());
            let row = &mut row[..keys.len()];
            if !rules.folded {
                scale_row(s, rules.scale);
                if let Some((cap, inverse)) = rules.cap {
                    let slopes = slopes.as_deref_mut().map(|t| &mut t[start..start + keys.len()]);
                    cap_row(s, cap, inverse, slopes);
                }
                if let Some(bias) = problem.bias(unit.b, h) {
                    // SAFETY: query and keys lie inside the bias.
                    unsafe { rows::load(&bias, i, keys.start, row) };
                    add_row(s, row);
                }
                if let Some(slope) = problem.alibi_slope(unit.b, h) {
                    let distance = keys.start as i64 - visibility.diagonal(i);
                    subtract_distances(s, E::from_f64(slope), distance);
                }
            }
            if let Some(mask) = problem.mask(unit.b, h) {
                // SAFETY: query and keys lie inside the mask.
                unsafe { rows::load(&mask, i, keys.start, row) };
                hide_where_zero(s, row);
            }
            if tile.class == TileClass::Partial {
                let seen = visibility.keys(i);
                let first = seen.start.clamp(keys.start, keys.end) - keys.start;
                let end = seen.end.clamp(keys.start, keys.end) - keys.start;
                s[..first].fill(E::NEG_INFINITY);
                s[end.max(first)..].fill(E::NEG_INFINITY);
            }
            padding.fill(E::NEG_INFINITY);
        }
    }
}

#[inline(always)]
fn scale_row<E: Softcap>(s: &mut [E], scale: E) {
    for x in s {
        *x = *x * scale;
    }
}

#[inline(always)]
fn cap_row<E: Softcap>(s: &mut [E], cap: E, inverse: E, slopes: Option<&mut [E]>) {
    match slopes {
        Some(slopes) => {
            for (x, slope) in s.iter_mut().zip(slopes) {
                let (tanh, derivative) = (*x * inverse).tanh_and_slope();
                (*x, *slope) = (cap * tanh, derivative);
            }
        }
        None => {
            for x in s {
                *x = cap * (*x * inverse).tanh_and_slope().0;
            }
        }
    }
}

/// A bias of −∞ hides the key whatever its score is, NaN included.
#[inline(always)]
fn add_row<E: Softcap>(s: &mut [E], bias: &[E]) {
    for (x, &bias) in s.iter_mut().zip(bias) {
        *x = if bias == E::NEG_INFINITY { bias } else { *x + bias };
    }
}

/// `distance` is that of the first key from the query, in keys; the others follow.
#[inline(always)]
fn subtract_distances<E: Softcap>(s: &mut [E], slope: E, distance: i64) {
    // Positions are far below 2^53; each distance is rounded once.
    for (n, x) in s.iter_mut().enumerate() {
        let distance = (distance + n as i64).unsigned_abs() as f64;
        *x = *x - slope * E::from_f64(distance);
    }
}

#[inline(always)]
fn hide_where_zero<E: Softcap>(s: &mut [E], mask: &[E]) {
    for (x, &visible) in s.iter_mut().zip(mask) {
        *x = if visible == E::ZERO { E::NEG_INFINITY } else { *x };
    }
}
