//! Merging partial results: softmax over the union of disjoint sets of keys.
//!
//! With m = max of the parts' lse: weight = exp(lse − m), out = Σ weight·out / Σ weight,
//! lse = m + ln Σ weight. A part whose lse is −∞ (or +∞, which others write for it) saw no key:
//! its out is not read, whatever it holds.

use jhalak_problem::{DType, Merge, Result};

use crate::executor::Executor;
use crate::isa::Float;
use crate::rows::{self, Store};

/// Rows per task.
const ROW_BLOCK: usize = 64;

/// Merges the parts.
pub(crate) fn merge(call: &Merge<'_>, executor: &Executor) -> Result<()> {
    if call.lse_dtype() == DType::F64 {
        merge_in::<f64>(call, executor)
    } else {
        merge_in::<f32>(call, executor)
    }
}

fn merge_in<E: Float>(call: &Merge<'_>, executor: &Executor) -> Result<()> {
    let blocks = call.rows().div_ceil(ROW_BLOCK);
    let width = if call.heads() == 0 { 0 } else { call.out(0).cols() };
    let elements = (call.heads() * call.rows() * call.parts()) as f64 * width as f64;
    executor.enter(4.0 * elements, |team| {
        team.run(call.heads() * blocks, |task| {
            let (head, first) = (task / blocks, task % blocks * ROW_BLOCK);
            let mut row = Row::<E> {
                lses: vec![E::ZERO; call.parts()],
                part: vec![E::ZERO; width],
                total: vec![0.0; width],
            };
            for i in first..call.rows().min(first + ROW_BLOCK) {
                row.merge(call, head, i);
            }
        });
        Ok(())
    })
}

/// Work space for one row.
struct Row<E> {
    lses: Vec<E>,
    part: Vec<E>,
    total: Vec<f64>,
}

impl<E: Float> Row<E> {
    fn merge(&mut self, call: &Merge<'_>, head: usize, i: usize) {
        for (part, lse) in self.lses.chunks_mut(1).enumerate() {
            // SAFETY: the row lies inside the part.
            unsafe { rows::load(&call.part_lse(part, head), i, 0, lse) };
        }
        let lse_of = |x: E| {
            let lse = x.to_f64();
            if lse == f64::INFINITY { f64::NEG_INFINITY } else { lse }
        };
        // NaN wins, so that it is seen.
        let max = self
            .lses
            .iter()
            .map(|&x| lse_of(x))
            .fold(f64::NEG_INFINITY, |max, x| if x.is_nan() || x > max { x } else { max });
        self.total.fill(0.0);
        let mut sum = 0.0;
        for part in 0..self.lses.len() {
            let lse = lse_of(self.lses[part]);
            if lse == f64::NEG_INFINITY {
                continue;
            }
            let weight = (lse - max).exp();
            sum += weight;
            // SAFETY: as above.
            unsafe { rows::load(&call.part_out(part, head), i, 0, &mut self.part) };
            for (total, x) in self.total.iter_mut().zip(&self.part) {
                *total += weight * x.to_f64();
            }
        }
        let (factor, lse) =
            if sum == 0.0 { (0.0, f64::NEG_INFINITY) } else { (1.0 / sum, max + sum.ln()) };
        // SAFETY: this task alone writes these rows.
        unsafe {
            rows::store(&call.out(head), i, &self.total, factor, Store::Write);
            rows::store(&call.lse(head), i, &[lse], 1.0, Store::Write);
        }
    }
}
