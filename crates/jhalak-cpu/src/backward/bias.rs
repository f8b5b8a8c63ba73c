//! [`BiasGradient`]: dS summed over the bias's broadcast dimensions.

use jhalak_problem::{Backward, Problem, Result};

use crate::isa::Float;
use crate::memory::Buffer;
use crate::rows::{self, Store};
use crate::scores::Tile;
use crate::units::Unit;

/// Sums in the shape of the bias, in the arithmetic's own type.
pub(super) struct BiasGradient<E> {
    shape: [usize; 4],
    /// Columns kept: every key where a lone number is shared by all queries and keys, so that
    /// tiles of one phase never add to the same element.
    cols: usize,
    sums: Buffer<E>,
}

impl<E: Float> BiasGradient<E> {
    pub(super) fn new(problem: &Problem<'_>) -> Result<Self> {
        let shape = problem.bias_shape().expect("Backward::new refuses dbias without bias");
        let lone = shape[2] == 1 && shape[3] == 1;
        let cols = if lone { problem.max_seqlens().1.max(1) } else { shape[3] };
        let sums = Buffer::zeroed(shape[0] * shape[1] * shape[2] * cols)?;
        Ok(BiasGradient { shape, cols, sums })
    }

    /// Whether different units add to the same elements, and so must not run at once.
    pub(super) fn is_shared_by_units(problem: &Problem<'_>) -> bool {
        problem.bias_shape().is_some_and(|shape| {
            (shape[0] == 1 && problem.batch() > 1) || (shape[1] == 1 && problem.heads_k() > 1)
        })
    }

    /// Adds a tile of dS; `visible` says which pairs count, where some are unusual.
    ///
    /// # Safety
    /// No other task adds for these keys, nor for these queries, of this sequence and these heads.
    pub(super) unsafe fn add(&self, tile: &Tile<'_>, ds: &[E], visible: Option<&[bool]>) {
        let keys = tile.keys.clone();
        for (n, row) in tile.rows.clone().enumerate() {
            let start = self.row_start(tile.unit, row);
            let ds = &ds[n * tile.shape.stride..][..keys.len()];
            for (m, (j, &x)) in keys.clone().zip(ds).enumerate() {
                if visible.is_none_or(|visible| visible[n * keys.len() + m]) {
                    let j = if self.cols == 1 { 0 } else { j };
                    // SAFETY: inside the sums; the caller keeps others away.
                    unsafe {
                        let sum = self.sums.as_ptr().add(start + j);
                        *sum = *sum + x;
                    }
                }
            }
        }
    }

    fn row_start(&self, unit: &Unit, row: usize) -> usize {
        let pick = |d: usize, n: usize| if self.shape[d] == 1 { 0 } else { n };
        let (b, h, i) = (pick(0, unit.b), pick(1, unit.head_q(row)), pick(2, unit.query(row)));
        ((b * self.shape[1] + h) * self.shape[2] + i) * self.cols
    }

    /// Writes the sums to where the call wants them.
    pub(super) fn store(&self, call: &Backward<'_>) {
        let how = match &call.targets().dbias {
            Some(target) if target.adds() => Store::Add,
            _ => Store::Write,
        };
        let mut at = 0;
        for b in 0..self.shape[0] {
            for h in 0..self.shape[1] {
                let plane = call.dbias_plane(b, h).expect("dbias is wanted");
                for i in 0..self.shape[2] {
                    let sums = &self.sums[at..at + self.cols];
                    at += self.cols;
                    let total = [sums.iter().fold(E::ZERO, |total, &x| total + x)];
                    let row = if self.cols == self.shape[3] { sums } else { &total };
                    // SAFETY: all tasks have ended.
                    unsafe { rows::store(&plane, i, row, E::ONE, how) };
                }
            }
        }
    }
}
