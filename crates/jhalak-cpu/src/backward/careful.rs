//! Tiles that hold NaN or infinities: pair by pair, so that what is not visible counts nothing.

use super::tile::Operands;
use crate::isa::Float;
use crate::scores::Tile;

/// Which pairs of a tile of finished scores are visible, row by row.
pub(super) fn visible_pairs<E: Float>(tile: &Tile<'_>, s: &[E], lse: &[E]) -> Vec<bool> {
    let mut visible = Vec::with_capacity(tile.rows.len() * tile.keys.len());
    for (n, &lse) in lse.iter().enumerate().take(tile.rows.len()) {
        let s = &s[n * tile.shape.stride..][..tile.keys.len()];
        let empty = lse == E::NEG_INFINITY;
        visible.extend(s.iter().map(|&x| x != E::NEG_INFINITY && !empty));
    }
    visible
}

/// dv += Pᵀ·dO, dk += dSᵀ·Q, dq += dS·K over the visible pairs; panels are `width` columns wide.
///
/// # Safety
/// The operands reach what the tile says, and no other task uses these rows of the gradients.
pub(super) unsafe fn accumulate<E: Float>(
    tile: &Tile<'_>,
    width: usize,
    visible: &[bool],
    p: &[E],
    ds: &[E],
    operands: &Operands<E>,
) {
    for n in 0..tile.rows.len() {
        for m in 0..tile.keys.len() {
            if !visible[n * tile.keys.len() + m] {
                continue;
            }
            let at = n * tile.shape.stride + m;
            let Operands { d, dv, queries, douts, key_columns, .. } = *operands;
            // SAFETY: the caller's promise.
            unsafe {
                if let Some(sums) = operands.dv_sums {
                    add_scaled(sums.add(m * dv), |c| *douts.add(n * dv + c), p[at], dv);
                }
                if let Some(sums) = operands.dk_sums {
                    add_scaled(sums.add(m * d), |c| *queries.add(n * d + c), ds[at], d);
                }
                if let Some(sums) = operands.dq_sums {
                    let panel = operands.block_keys * width;
                    let key =
                        |c: usize| *key_columns.add(c / width * panel + m * width + c % width);
                    add_scaled(sums.add(n * d), key, ds[at], d);
                }
            }
        }
    }
}

/// # Safety
/// `len` elements are writable at `sums`.
unsafe fn add_scaled<E: Float>(sums: *mut E, x: impl Fn(usize) -> E, factor: E, len: usize) {
    for c in 0..len {
        // SAFETY: the caller's promise.
        unsafe { *sums.add(c) = *sums.add(c) + factor * x(c) };
    }
}
