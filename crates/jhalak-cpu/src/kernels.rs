//! The steps of a forward pass on one tile, each by itself, for the benchmark of them.
//!
//! Engines take these steps through pointers; a benchmark stands outside the crate, so it needs a
//! door that cannot be misused.

use jhalak_problem::{DType, Problem, Result};

use crate::arithmetic::{Arithmetic, Elem, TileShape, Wide};
#[cfg(target_arch = "x86_64")]
use crate::arithmetic_bf16::Bf16Pairs;
use crate::dispatch::with_f32_isa;
#[cfg(target_arch = "x86_64")]
use crate::isa::Avx512Bf16;
use crate::isa::{ExpFactor, Float, Isa, IsaKind, Op};
use crate::memory::Buffer;
use crate::tile::softmax::SoftmaxRows;

/// What a forward pass does with a block of keys and a tile of its scores.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Reads and packs the keys.
    PackKeys,
    /// Reads and packs the values.
    PackValues,
    /// Products of queries and keys.
    Scores,
    /// Scores become weights. The second time it makes weights of weights, which costs the same.
    Softmax,
    /// Products of weights and values, added to the outputs.
    Accumulate,
}

/// Steps on the first head of `problem`, all its queries and all its keys being one tile.
///
/// # Errors
/// [`Error::OutOfMemory`](jhalak_problem::Error::OutOfMemory).
///
/// # Panics
/// If the machine lacks `isa`, or the problem is in f64.
pub fn steps<'p>(isa: IsaKind, problem: &'p Problem<'p>) -> Result<Box<dyn FnMut(Step) + 'p>> {
    assert!(isa.is_available(), "this machine has no {isa}");
    assert!(problem.dtype() != DType::F64, "f64 has no vectors");
    #[cfg(target_arch = "x86_64")]
    if problem.dtype() == DType::BF16
        && isa == IsaKind::Avx512Bf16
        && let Some(isa) = Avx512Bf16::new()
    {
        return steps_in(Bf16Pairs(isa), problem);
    }
    with_f32_isa!(isa, isa => steps_in(Wide(isa), problem))
}

fn steps_in<'p, A: Arithmetic + 'p>(
    arithmetic: A,
    problem: &'p Problem<'p>,
) -> Result<Box<dyn FnMut(Step) + 'p>> {
    let mut tile = Tile::new(arithmetic, problem)?;
    tile.load_queries();
    for step in [Step::PackKeys, Step::PackValues, Step::Scores, Step::Softmax] {
        tile.take(step);
    }
    Ok(Box::new(move |step| tile.take(step)))
}

/// Operands and results.
struct Tile<'p, A: Arithmetic> {
    arithmetic: A,
    problem: &'p Problem<'p>,
    keys: usize,
    shape: TileShape,
    queries: Buffer<A::Operand>,
    packed_keys: Buffer<A::Operand>,
    values: Buffer<A::Operand>,
    scores: Buffer<Elem<A>>,
    weights: Buffer<A::Operand>,
    out: Buffer<Elem<A>>,
    max: Buffer<Elem<A>>,
    sum: Buffer<Elem<A>>,
    alpha: Buffer<Elem<A>>,
    scratch: Buffer<Elem<A>>,
}

impl<'p, A: Arithmetic> Tile<'p, A> {
    fn new(arithmetic: A, problem: &'p Problem<'p>) -> Result<Self> {
        let (rows, keys) = (problem.q(0, 0).rows(), problem.k(0, 0).rows());
        let (d, dv, nr) = (problem.head_dim(), problem.head_dim_v(), A::Isa::NR);
        let cols = A::pad_keys(keys);
        Ok(Tile {
            arithmetic,
            problem,
            keys,
            shape: TileShape { rows, cols, stride: cols },
            queries: Buffer::zeroed(rows * A::query_stride(d))?,
            packed_keys: Buffer::zeroed(keys.div_ceil(nr) * A::key_panel(d))?,
            values: Buffer::zeroed(A::values(keys.next_multiple_of(2), dv))?,
            scores: Buffer::zeroed(rows * cols)?,
            weights: Buffer::zeroed(A::weights(rows * cols))?,
            out: Buffer::zeroed(rows * A::Isa::pad(dv))?,
            max: Buffer::zeroed(rows)?,
            sum: Buffer::zeroed(rows)?,
            alpha: Buffer::zeroed(rows)?,
            scratch: Buffer::zeroed(nr * A::Isa::pad(d.max(dv)))?,
        })
    }

    fn load_queries(&mut self) {
        let q = self.problem.q(0, 0);
        let stride = A::query_stride(self.problem.head_dim());
        for (row, dst) in self.queries.chunks_exact_mut(stride).enumerate() {
            // SAFETY: as many rows as q has.
            unsafe { self.arithmetic.pack_query(&q, row, dst) };
        }
        self.max.fill(Elem::<A>::NEG_INFINITY);
    }

    fn take(&mut self, step: Step) {
        let (a, shape, keys) = (self.arithmetic, self.shape, self.keys);
        let (d, dv, nr) = (self.problem.head_dim(), self.problem.head_dim_v(), A::Isa::NR);
        let (s, weights) = (self.scores.as_ptr(), self.weights.as_ptr());
        // SAFETY: `new` made every buffer as large as an engine does for a tile of this shape, and
        // all keys lie inside k and v.
        unsafe {
            match step {
                Step::PackKeys => {
                    let k = self.problem.k(0, 0);
                    let panels = self.packed_keys.chunks_exact_mut(A::key_panel(d));
                    for (n, panel) in panels.enumerate() {
                        let count = nr.min(keys - n * nr);
                        a.pack_keys(&k, n * nr, count, &mut self.scratch, panel);
                    }
                }
                Step::PackValues => {
                    let v = self.problem.v(0, 0);
                    a.pack_values(&v, 0, keys, &mut self.scratch, &mut self.values);
                }
                Step::Scores => {
                    a.scores(shape, d, self.queries.as_ptr(), self.packed_keys.as_ptr(), s);
                }
                Step::Softmax => {
                    let (max, sum) = (self.max.as_ptr(), self.sum.as_ptr());
                    let state = SoftmaxRows { max, sum, alpha: self.alpha.as_ptr() };
                    a.softmax(shape, std::f64::consts::LOG2_E, s, weights, state, true);
                }
                Step::Accumulate => {
                    let (values, alpha) = (self.values.as_ptr(), self.alpha.as_ptr());
                    let block = keys.next_multiple_of(2);
                    a.accumulate(
                        shape,
                        keys,
                        block,
                        dv,
                        s,
                        weights,
                        values,
                        alpha,
                        self.out.as_ptr(),
                    );
                }
            }
        }
    }
}

/// 2 to the power of each number, in place; the numbers are at most 0.
///
/// # Panics
/// If the numbers are no whole vectors, or the machine lacks `isa`.
pub fn exp2(isa: IsaKind, x: &mut [f32]) {
    fn check_and_run<I: Isa<Elem = f32>>(isa: I, x: &mut [f32]) {
        assert!(x.len().is_multiple_of(I::LANES), "whole vectors");
        isa.run(Exp2 { isa, factor: 1.0, x });
    }
    assert!(isa.is_available(), "this machine has no {isa}");
    with_f32_isa!(isa, isa => check_and_run(isa, x));
}

/// 2^(factor·x) of whole vectors of numbers of at most 0, in place.
pub(crate) struct Exp2<'x, I: Isa> {
    pub(crate) isa: I,
    pub(crate) factor: f64,
    pub(crate) x: &'x mut [I::Elem],
}

impl<I: Isa> Op for Exp2<'_, I> {
    type Output = ();

    #[inline(always)]
    fn eval(self) {
        let factor = ExpFactor::new(self.isa, self.factor);
        for chunk in self.x.chunks_exact_mut(I::LANES) {
            // SAFETY: the chunk is one vector long.
            unsafe {
                let x = self.isa.load(chunk.as_ptr());
                self.isa.store(chunk.as_mut_ptr(), self.isa.exp2_scaled(x, &factor));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};
    use jhalak_problem::{Attention, Tensor, reference};

    use super::*;

    const TOLERANCE: f64 = 1e-2;

    fn numbers(dtype: DType, rows: usize, seed: usize) -> Tensor {
        let shape = [1, rows, 1, 24];
        let all = (0..rows * 24).map(|n| ((n * 7919 + seed) % 257) as f32 / 128.0 - 1.0);
        match dtype {
            DType::F16 => Tensor::from_vec(all.map(f16::from_f32).collect(), &shape).unwrap(),
            DType::BF16 => Tensor::from_vec(all.map(bf16::from_f32).collect(), &shape).unwrap(),
            _ => Tensor::from_vec(all.collect::<Vec<f32>>(), &shape).unwrap(),
        }
    }

    fn check(mut tile: Tile<'_, impl Arithmetic>, truth: &[f64]) {
        tile.load_queries();
        for step in
            [Step::PackKeys, Step::PackValues, Step::Scores, Step::Softmax, Step::Accumulate]
        {
            tile.take(step);
        }
        let stride = tile.out.len() / tile.shape.rows;
        for (row, truth) in truth.chunks_exact(24).enumerate() {
            for (column, truth) in truth.iter().enumerate() {
                let out = tile.out[row * stride + column].to_f64() / tile.sum[row].to_f64();
                assert!((out - truth).abs() < TOLERANCE, "{row} {column}: {out}, not {truth}");
            }
        }
    }

    #[test]
    fn the_steps_together_are_attention() {
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            let (q, k, v) = (numbers(dtype, 7, 1), numbers(dtype, 64, 2), numbers(dtype, 64, 3));
            let attention = Attention::new().scale(1.0);
            let problem = Problem::new(&attention, q.view(), k.view(), v.view()).unwrap();
            let truth = reference::forward(&problem).unwrap().out;
            for isa in IsaKind::available() {
                with_f32_isa!(isa, isa => check(Tile::new(Wide(isa), &problem).unwrap(), &truth));
            }
            #[cfg(target_arch = "x86_64")]
            if dtype == DType::BF16
                && let Some(isa) = Avx512Bf16::new()
            {
                check(Tile::new(Bf16Pairs(isa), &problem).unwrap(), &truth);
            }
        }
    }

    #[test]
    fn powers_of_two_are_in_place() {
        for isa in IsaKind::available() {
            let mut x: Vec<f32> = (0..64).map(|n| n as f32 - 63.0).collect();
            exp2(isa, &mut x);
            assert!(x.iter().enumerate().all(|(n, x)| *x == 2f32.powi(n as i32 - 63)), "{isa}");
        }
    }
}
