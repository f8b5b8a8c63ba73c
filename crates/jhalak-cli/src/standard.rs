//! Standard attention, the baseline: three passes over a score matrix that is written down.
//!
//! ```text
//! S = Q Kᵀ               [H, N, N]   a matrix product (the gemm crate, all cores)
//! P = softmax(scale · S)  in place    with jhalak's own vectors and exponential, all cores
//! O = P V                             a matrix product
//! ```
//!
//! As good as it gets without changing what it is: P takes the place of S, and the memory has been
//! touched before anything is timed.

use gemm_common::Parallelism;
use gemm_f32::gemm::f32::get_gemm_fn;
use jhalak::IsaKind;
use jhalak_cpu::baseline::softmax_rows;
use rayon::prelude::*;

/// One sequence of `heads` heads, all tensors [N, H, D] in f32.
pub(crate) struct Standard {
    seqlen: usize,
    heads: usize,
    head_dim: usize,
    isa: IsaKind,
    threads: usize,
    scores: Vec<f32>,
}

/// Bytes that the scores take.
pub(crate) fn score_bytes(seqlen: usize, heads: usize) -> u64 {
    (seqlen as u64).saturating_mul(seqlen as u64).saturating_mul(heads as u64).saturating_mul(4)
}

impl Standard {
    /// `None` if there is no memory for the scores.
    pub(crate) fn new(
        seqlen: usize,
        heads: usize,
        head_dim: usize,
        isa: IsaKind,
        threads: usize,
    ) -> Option<Self> {
        let mut scores = Vec::new();
        scores.try_reserve_exact(usize::try_from(score_bytes(seqlen, heads) / 4).ok()?).ok()?;
        scores.resize(heads * seqlen * seqlen, 0.0);
        Some(Standard { seqlen, heads, head_dim, isa, threads, scores })
    }

    /// Computes `out` from q, k and v.
    pub(crate) fn run(&mut self, q: &[f32], k: &[f32], v: &[f32], out: &mut [f32]) {
        let (n, heads, dim) = (self.seqlen, self.heads, self.head_dim);
        assert!([q, k, v, &*out].iter().all(|x| x.len() == n * heads * dim));
        let parallelism =
            if self.threads > 1 { Parallelism::Rayon(self.threads) } else { Parallelism::None };
        let row = (heads * dim) as isize;
        let scale = 1.0 / (dim as f32).sqrt();
        for (h, s) in self.scores.chunks_exact_mut(n * n).enumerate() {
            // SAFETY: head h of q and k is n rows of dim numbers, one row apart; s is n · n.
            unsafe {
                let q = Factor { data: q.as_ptr().add(h * dim), row, column: 1 };
                let k_transposed = Factor { data: k.as_ptr().add(h * dim), row: 1, column: row };
                let s = (s.as_mut_ptr(), n as isize);
                product([n, n, dim], q, k_transposed, s, parallelism);
            }
        }
        let isa = self.isa;
        self.scores.par_chunks_mut(n).for_each(|row| softmax_rows(isa, row, n, scale));
        for (h, p) in self.scores.chunks_exact(n * n).enumerate() {
            // SAFETY: as above, for v and out.
            unsafe {
                let p = Factor { data: p.as_ptr(), row: n as isize, column: 1 };
                let v = Factor { data: v.as_ptr().add(h * dim), row, column: 1 };
                let o = (out.as_mut_ptr().add(h * dim), row);
                product([n, dim, n], p, v, o, parallelism);
            }
        }
    }
}

/// A matrix that is multiplied: its first element, and the distances of rows and columns.
struct Factor {
    data: *const f32,
    row: isize,
    column: isize,
}

/// C = A B for C [m, n], A [m, k] and B [k, n]. `c` is C's first element and the distance
/// of its rows.
///
/// # Safety
/// The sizes and distances stay inside the matrices, and nothing else uses C.
unsafe fn product(
    [m, n, k]: [usize; 3],
    a: Factor,
    b: Factor,
    c: (*mut f32, isize),
    parallelism: Parallelism,
) {
    let no = false;
    // SAFETY: the caller's promise. The kernel writes along columns, so it is asked for Cᵀ = Bᵀ Aᵀ.
    unsafe {
        get_gemm_fn()(
            n,
            m,
            k,
            c.0,
            c.1,
            1,
            no,
            b.data,
            b.row,
            b.column,
            a.data,
            a.row,
            a.column,
            0.0,
            1.0,
            no,
            no,
            no,
            parallelism,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::Normal;

    #[test]
    fn the_baseline_is_attention() {
        let (n, heads, dim) = (37, 2, 5);
        let mut normal = Normal::new(3);
        let [q, k, v] = [0; 3].map(|_| normal.take(n * heads * dim));
        let mut out = vec![0.0; n * heads * dim];
        Standard::new(n, heads, dim, IsaKind::Scalar, 2).unwrap().run(&q, &k, &v, &mut out);
        let at = |x: &[f32], i: usize, h: usize, d: usize| f64::from(x[(i * heads + h) * dim + d]);
        for (i, h) in (0..n).flat_map(|i| [(i, 0), (i, 1)]) {
            let score = |j| (0..dim).map(|d| at(&q, i, h, d) * at(&k, j, h, d)).sum::<f64>();
            let weights: Vec<f64> =
                (0..n).map(|j| (score(j) / (dim as f64).sqrt()).exp()).collect();
            let sum: f64 = weights.iter().sum();
            for d in 0..dim {
                let expected = (0..n).map(|j| weights[j] / sum * at(&v, j, h, d)).sum::<f64>();
                assert!((at(&out, i, h, d) - expected).abs() < 1e-6, "{i} {h} {d}");
            }
        }
    }
}
