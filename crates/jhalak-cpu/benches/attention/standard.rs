//! Standard attention, the rival: score matrices that are written down, in f32.
//!
//! ```text
//! forward, per head                    backward, per head, P kept from the forward
//!   S = scale · Q Kᵀ   [S, S]            dV += Pᵀ dO
//!   P = softmax(S)     in place          dP = dO Vᵀ            [S, S]
//!   O = P V                              dS = P ∘ (dP − delta)  in place, delta = rowsum(dO ∘ O)
//!                                        dQ = scale · dS K,  dK += scale · dSᵀ Q
//! ```
//!
//! As strong as it gets without becoming something else: products by the gemm crate with the best
//! instructions of the machine; jhalak's own vector exp; each thread works on heads of its own, so
//! that nothing waits; memory is touched before it is timed. Under a causal mask the products stay
//! whole, as they do in every framework's standard attention; the softmax takes only what is seen.

use gemm_common::Parallelism;
use gemm_f32::gemm::f32::get_gemm_fn;
use jhalak_cpu::{IsaKind, baseline};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::cases::Case;
use crate::tensors::Tensors;

/// Inputs as f32, and where the results go; [S, H, D].
pub struct Standard {
    case: Case,
    isa: IsaKind,
    pool: ThreadPool,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    dout: Vec<f32>,
    pub out: Vec<f32>,
    pub dq: Vec<f32>,
    pub dk: Vec<f32>,
    pub dv: Vec<f32>,
    /// One matrix of scores per thread; for the backward, one per head, which holds P.
    scores: Vec<Vec<f32>>,
    /// The backward's dP and delta per thread.
    gradients: Vec<(Vec<f32>, Vec<f32>)>,
}

/// Where the heads of a tensor begin, shared by threads that work on different heads.
#[derive(Clone, Copy)]
struct Heads(*mut f32);

// SAFETY: each thread touches only the heads that are its own.
unsafe impl Send for Heads {}
// SAFETY: as above.
unsafe impl Sync for Heads {}

impl Heads {
    /// The first element of head `h`, and the distance of its rows.
    fn matrix(self, h: usize, heads: usize, head_dim: usize) -> Matrix {
        // SAFETY: h is one of the heads.
        Matrix { data: unsafe { self.0.add(h * head_dim) }, row: heads * head_dim, column: 1 }
    }
}

impl Standard {
    /// `isa` is for the softmax; gemm chooses for itself.
    pub fn new(case: Case, tensors: &Tensors, isa: IsaKind, threads: usize) -> Self {
        let f32s = |t: &jhalak_problem::Tensor| -> Vec<f32> {
            t.to_f64_vec().into_iter().map(|x| x as f32).collect()
        };
        let (of_q, of_k) = (tensors.q.view().numel(), tensors.k.view().numel());
        let (square, lanes) = (case.seqlen * case.seqlen, threads.min(case.heads_k));
        let kept = if case.backward { case.heads } else { lanes };
        let per_lane = |_| (vec![0.0; square], vec![0.0; case.seqlen]);
        Standard {
            case,
            isa,
            pool: ThreadPoolBuilder::new().num_threads(threads).build().expect("threads"),
            q: f32s(&tensors.q),
            k: f32s(&tensors.k),
            v: f32s(&tensors.v),
            dout: f32s(&tensors.dout),
            out: vec![0.0; of_q],
            dq: vec![0.0; of_q],
            dk: vec![0.0; of_k],
            dv: vec![0.0; of_k],
            scores: (0..kept).map(|_| vec![1.0; square]).collect(),
            gradients: (0..if case.backward { lanes } else { 0 }).map(per_lane).collect(),
        }
    }

    pub fn forward(&mut self) {
        let Case { heads, heads_k, seqlen: n, head_dim: d, causal, .. } = self.case;
        let (isa, group, scale) = (self.isa, heads / heads_k, 1.0 / (d as f32).sqrt());
        let [q, k, v, out] =
            [&mut self.q, &mut self.k, &mut self.v, &mut self.out].map(|t| Heads(t.as_mut_ptr()));
        // A thread's heads lie next to each other and so do those that share a matrix.
        let per_matrix = heads.div_ceil(self.scores.len());
        let threads = self.pool.current_num_threads();
        let run = |(lane, s): (usize, &mut Vec<f32>)| {
            for h in lane * per_matrix..heads.min((lane + 1) * per_matrix) {
                let [q, out] = [q, out].map(|t| t.matrix(h, heads, d));
                let [k, v] = [k, v].map(|t| t.matrix(h / group, heads_k, d));
                let p = Matrix { data: s.as_mut_ptr(), row: n, column: 1 };
                // SAFETY: the matrices are as large as said; this thread alone uses head h's.
                unsafe { product([n, n, d], scale, q, k.transposed(), 0.0, p) };
                if causal {
                    for (i, row) in s.chunks_exact_mut(n).enumerate() {
                        baseline::softmax_rows(isa, &mut row[..=i], i + 1, 1.0);
                        row[i + 1..].fill(0.0);
                    }
                } else {
                    baseline::softmax_rows(isa, s, n, 1.0);
                }
                // SAFETY: as above.
                unsafe { product([n, d, n], 1.0, p, v, 0.0, out) };
            }
        };
        let scores = &mut self.scores;
        let share = scores.len().div_ceil(threads);
        self.pool.install(|| {
            scores.par_iter_mut().with_min_len(share).enumerate().for_each(run);
        });
    }

    /// Needs the results of [`forward`](Self::forward).
    pub fn backward(&mut self) {
        let Case { heads, heads_k, seqlen: n, head_dim: d, .. } = self.case;
        let (isa, group, scale) = (self.isa, heads / heads_k, 1.0 / (d as f32).sqrt());
        let [q, k, v, out, dout] =
            [&mut self.q, &mut self.k, &mut self.v, &mut self.out, &mut self.dout]
                .map(|t| Heads(t.as_mut_ptr()));
        let [dq, dk, dv] =
            [&mut self.dq, &mut self.dk, &mut self.dv].map(|t| Heads(t.as_mut_ptr()));
        let scores = &self.scores;
        let heads_per_lane = heads_k.div_ceil(self.gradients.len()) * group;
        let run = |(lane, (dp, delta)): (usize, &mut (Vec<f32>, Vec<f32>))| {
            for h in lane * heads_per_lane..heads.min((lane + 1) * heads_per_lane) {
                let [q, out, dout, dq] = [q, out, dout, dq].map(|t| t.matrix(h, heads, d));
                let [k, v, dk, dv] = [k, v, dk, dv].map(|t| t.matrix(h / group, heads_k, d));
                // The heads of a group add up.
                let before = if h % group == 0 { 0.0 } else { 1.0 };
                let weights = &scores[h];
                let p = Matrix { data: weights.as_ptr().cast_mut(), row: n, column: 1 };
                let ds = Matrix { data: dp.as_mut_ptr(), row: n, column: 1 };
                // SAFETY: the matrices are as large as said; all heads that share a head of k are
                // this thread's. No product writes p.
                unsafe {
                    product([n, d, n], 1.0, p.transposed(), dout, before, dv);
                    product([n, n, d], 1.0, dout, v.transposed(), 0.0, ds);
                    for (i, delta) in delta.iter_mut().enumerate() {
                        let (o, dout) = (out.row_of(i, d), dout.row_of(i, d));
                        *delta = o.iter().zip(dout).map(|(o, dout)| o * dout).sum();
                    }
                }
                baseline::softmax_gradient_rows(isa, weights, dp, delta, n);
                // SAFETY: as above.
                unsafe {
                    product([n, d, n], scale, ds, k, 0.0, dq);
                    product([n, d, n], scale, ds.transposed(), q, before, dk);
                }
            }
        };
        let gradients = &mut self.gradients;
        self.pool.install(|| gradients.par_iter_mut().with_max_len(1).enumerate().for_each(run));
    }
}

/// A matrix: its first element, and the distances of rows and columns.
#[derive(Clone, Copy)]
struct Matrix {
    data: *mut f32,
    row: usize,
    column: usize,
}

impl Matrix {
    fn transposed(self) -> Self {
        Matrix { row: self.column, column: self.row, ..self }
    }

    /// # Safety
    /// There is a row `i` of `cols` neighbouring elements, and nobody writes it.
    unsafe fn row_of<'a>(self, i: usize, cols: usize) -> &'a [f32] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(self.data.add(i * self.row), cols) }
    }
}

/// C = before · C + scale · A B for C [m, n], A [m, k] and B [k, n]; `before` is 0 or 1.
///
/// # Safety
/// The sizes and distances stay inside the matrices; C overlaps neither A nor B, and nobody else
/// uses it.
unsafe fn product([m, n, k]: [usize; 3], scale: f32, a: Matrix, b: Matrix, before: f32, c: Matrix) {
    let distance = |n: usize| n as isize;
    let conjugate = false;
    // SAFETY: the caller's promise. gemm writes along columns and our rows are the neighbouring
    // ones, so it is asked for Cᵀ = Bᵀ Aᵀ.
    unsafe {
        get_gemm_fn()(
            n,
            m,
            k,
            c.data,
            distance(c.row),
            distance(c.column),
            before != 0.0,
            b.data,
            distance(b.row),
            distance(b.column),
            a.data,
            distance(a.row),
            distance(a.column),
            before,
            scale,
            conjugate,
            conjugate,
            conjugate,
            Parallelism::None,
        );
    }
}
