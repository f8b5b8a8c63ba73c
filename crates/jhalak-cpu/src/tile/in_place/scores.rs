//! Scores of a few rows.

use std::ops::Range;

use super::{Rows, Stored, with_format};
use crate::isa::{Float, Isa, Op};

/// Scores of some heads: `s[row][key] = q[row]·k[key]`, raw.
pub(crate) struct Scores<'h, I: Isa> {
    pub(crate) isa: I,
    /// Keys of each head, all in the same format.
    pub(crate) heads: &'h [Rows],
    pub(crate) keys: usize,
    /// Query rows of each head.
    pub(crate) rows: usize,
    /// Columns, a multiple of LANES.
    pub(crate) depth: usize,
    /// Query rows, `depth` elements each, head after head.
    pub(crate) queries: *const I::Elem,
    /// Scores, head after head; a row's lie next to each other.
    pub(crate) s: *mut I::Elem,
    /// Elements from one row of scores to the next.
    pub(crate) stride: usize,
}

/// Keys that are read together, head after head: in the order in which they lie in memory where
/// heads lie next to each other.
const KEYS: usize = 8;

impl<I: Isa> Scores<'_, I> {
    /// Computes the scores.
    ///
    /// # Safety
    /// Queries and keys are readable and scores writable at the sizes given.
    pub(crate) unsafe fn run(self) {
        debug_assert!(self.depth.is_multiple_of(I::LANES));
        let isa = self.isa;
        isa.run(self);
    }
}

impl<I: Isa> Op for Scores<'_, I> {
    type Output = ();

    #[inline(always)]
    fn eval(self) {
        let Some(format) = self.heads.first().map(|head| head.format) else { return };
        debug_assert!(self.heads.iter().all(|head| head.format == format));
        with_format!(format, S => self.all_heads::<S>());
    }
}

impl<I: Isa> Scores<'_, I> {
    #[inline(always)]
    fn all_heads<S: Stored>(&self) {
        for first in (0..self.keys).step_by(KEYS) {
            let keys = first..self.keys.min(first + KEYS);
            for head in 0..self.heads.len() {
                let mut row = 0;
                // SAFETY: as promised to `run`; rows and keys stay inside the sizes.
                unsafe {
                    while self.rows - row >= 4 {
                        self.keys_of::<S, 4, 2>(head, row, keys.clone());
                        row += 4;
                    }
                    match self.rows - row {
                        0 => {}
                        1 => self.keys_of::<S, 1, KEYS>(head, row, keys.clone()),
                        2 => self.keys_of::<S, 2, 4>(head, row, keys.clone()),
                        _ => self.keys_of::<S, 3, 2>(head, row, keys.clone()),
                    }
                }
            }
        }
    }

    /// R rows against some keys, K at a time.
    #[inline(always)]
    unsafe fn keys_of<S: Stored, const R: usize, const K: usize>(
        &self,
        head: usize,
        row: usize,
        keys: Range<usize>,
    ) {
        let mut key = keys.start;
        // SAFETY: as for `run`.
        unsafe {
            while keys.end - key >= K {
                self.block::<S, R, K>(head, row, key);
                key += K;
            }
            while key < keys.end {
                self.block::<S, R, 1>(head, row, key);
                key += 1;
            }
        }
    }

    #[inline(always)]
    unsafe fn block<S: Stored, const R: usize, const K: usize>(
        &self,
        head: usize,
        row: usize,
        key: usize,
    ) {
        let isa = self.isa;
        let row = head * self.rows + row;
        let zero = isa.splat(I::Elem::ZERO);
        let mut sums = [[zero; K]; R];
        let mut keys = [std::ptr::null(); K];
        for (n, ptr) in keys.iter_mut().enumerate() {
            *ptr = self.heads[head].row(key + n);
        }
        // SAFETY: as for `run`.
        unsafe {
            let queries = self.queries.add(row * self.depth);
            for d in (0..self.depth).step_by(I::LANES) {
                let mut k = [zero; K];
                for (k, ptr) in k.iter_mut().zip(keys) {
                    *k = S::load(isa, ptr.wrapping_add(d * S::bytes::<I>()));
                }
                for (r, sums) in sums.iter_mut().enumerate() {
                    let q = isa.load(queries.add(r * self.depth + d));
                    for (sum, &k) in sums.iter_mut().zip(&k) {
                        *sum = isa.fma(q, k, *sum);
                    }
                }
            }
            for (r, sums) in sums.iter().enumerate() {
                for (n, &sum) in sums.iter().enumerate() {
                    *self.s.add((row + r) * self.stride + key + n) = isa.reduce_add(sum);
                }
            }
        }
    }
}
