//! Before the tiles: delta = rowsum(dout ∘ out) − dlse, and the sinks' gradient.

use std::ops::Range;

use jhalak_problem::Backward;

use crate::isa::Float;
use crate::rows;
use crate::units::Unit;

/// Writes lse and delta − dlse of rows `range`; `a` and `b` are work space for a row each.
pub(super) fn row_constants<E: Float>(
    call: &Backward<'_>,
    unit: &Unit,
    range: Range<usize>,
    lse: &mut [E],
    delta: &mut [E],
    a: &mut [E],
    b: &mut [E],
) {
    for (n, row) in range.enumerate() {
        let (h, i) = (unit.head_q(row), unit.query(row));
        // SAFETY: the row lies inside each tensor.
        unsafe { rows::load(&call.lse(unit.b, h), i, 0, &mut lse[n..=n]) };
        match (call.delta(unit.b, h), call.out(unit.b, h)) {
            // SAFETY: as above.
            (Some(given), _) => unsafe { rows::load(&given, i, 0, &mut delta[n..=n]) },
            (None, Some(out)) => {
                let dout = call.dout(unit.b, h);
                let (a, b) = (&mut a[..out.cols()], &mut b[..out.cols()]);
                // SAFETY: as above.
                unsafe {
                    rows::load(&out, i, 0, a);
                    rows::load(&dout, i, 0, b);
                }
                // Where no key is seen, out is the constant 0 and lse the sink's: whatever dout
                // holds, it flows nowhere.
                let sink = call.problem().sink(h).unwrap_or(f64::NEG_INFINITY);
                let empty = lse[n] == E::from_f64(sink) && a.iter().all(|&x| x == E::ZERO);
                let dot = a.iter().zip(b.iter()).map(|(x, y)| x.to_f64() * y.to_f64()).sum();
                delta[n] = if empty { E::ZERO } else { E::from_f64(dot) };
            }
            (None, None) => unreachable!("Backward::new takes out or delta"),
        }
        if let Some(dlse) = call.dlse(unit.b, h) {
            let mut value = [E::ZERO];
            // SAFETY: as above.
            unsafe { rows::load(&dlse, i, 0, &mut value) };
            delta[n] = delta[n] - value[0];
        }
    }
}

/// Adds a unit's part to the gradient of its heads' sinks: Σ exp(sink − lse) · (dlse − delta).
pub(super) fn add_sink_gradient<E: Float>(
    call: &Backward<'_>,
    unit: &Unit,
    lse: &[E],
    delta: &[E],
    dsinks: &mut [f64],
) {
    for row in 0..unit.rows() {
        let h = unit.head_q(row);
        let Some(sink) = call.problem().sink(h) else { continue };
        // lse is −∞ only where the sink is −∞ too: no weight.
        if lse[row] != E::NEG_INFINITY {
            dsinks[h] -= (sink - lse[row].to_f64()).exp() * delta[row].to_f64();
        }
    }
}
