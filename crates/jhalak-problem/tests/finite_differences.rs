//! The reference's gradients against central differences of its own forward, in f64, for every
//! option.

use jhalak_problem::reference::{backward, forward};
use jhalak_problem::{Attention, Problem, Tensor, TensorView};

/// Numbers that look random, near unit-normal.
fn noise(seed: u64, len: usize) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
    };
    (0..len).map(|_| 2.0 * (next() + next() + next())).collect()
}

/// Shapes of a call, and the inputs that have gradients.
struct Setup {
    packed: bool,
    heads_q: usize,
    heads_k: usize,
    dims: (usize, usize),
    /// Queries, keys.
    lengths: (usize, usize),
    bias: Option<[usize; 4]>,
    sinks: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            packed: false,
            heads_q: 2,
            heads_k: 2,
            dims: (3, 3),
            lengths: (4, 5),
            bias: None,
            sinks: false,
        }
    }
}

/// q, k, v, bias, sinks; the last two may be empty.
type Inputs = [Vec<f64>; 5];

impl Setup {
    fn shapes(&self) -> [Vec<usize>; 5] {
        let (q, k) = self.lengths;
        let (d, dv) = self.dims;
        // Two sequences, or 3 + rest packed.
        let lead = |n: usize| if self.packed { vec![n + 3] } else { vec![2, n] };
        let with = |n: usize, heads: usize, dim: usize| {
            let mut shape = lead(n);
            shape.extend([heads, dim]);
            shape
        };
        [
            with(q, self.heads_q, d),
            with(k, self.heads_k, d),
            with(k, self.heads_k, dv),
            self.bias.map_or(vec![0], Vec::from),
            if self.sinks { vec![self.heads_q] } else { vec![0] },
        ]
    }

    fn inputs(&self) -> Inputs {
        let mut seed = 0;
        self.shapes().map(|shape| {
            seed += 1;
            noise(seed, shape.iter().product())
        })
    }

    /// Runs `body` with the problem of these inputs and options.
    fn with<R>(
        &self,
        inputs: &Inputs,
        options: &dyn for<'a> Fn(Attention<'a>) -> Attention<'a>,
        body: impl FnOnce(&Problem<'_>) -> R,
    ) -> R {
        let shapes = self.shapes();
        let view = |n: usize| TensorView::from_slice(&inputs[n], &shapes[n]).unwrap();
        let (q, k) = self.lengths;
        let cu_q = [0, 3, (q + 3) as i32];
        let cu_k = [0, 2, (k + 3) as i32];
        let mut attention = options(Attention::new());
        if self.packed {
            let list = |x| TensorView::from_slice(x, &[3]).unwrap();
            attention = attention.cu_seqlens(list(&cu_q), list(&cu_k));
        }
        if self.bias.is_some() {
            attention = attention.bias(view(3));
        }
        if self.sinks {
            attention = attention.sinks(view(4));
        }
        body(&Problem::new(&attention, view(0), view(1), view(2)).unwrap())
    }

    /// Compares every gradient with central differences of Σ dout·out + Σ dlse·lse.
    fn check(&self, options: &dyn for<'a> Fn(Attention<'a>) -> Attention<'a>) {
        let inputs = self.inputs();
        let sizes = self.with(&inputs, options, |p| {
            (p.out_shape().iter().product(), p.lse_shape().iter().product())
        });
        let (dout, dlse) = (noise(91, sizes.0), noise(92, sizes.1));
        let value = |inputs: &Inputs| {
            self.with(inputs, options, |problem| {
                let attended = forward(problem).unwrap();
                let dot = |a: &[f64], b: &[f64]| -> f64 {
                    // Rows that see nothing have lse −∞ for any input.
                    let pairs = a.iter().zip(b).filter(|(x, _)| x.is_finite());
                    pairs.map(|(x, y)| x * y).sum()
                };
                dot(&attended.out, &dout) + dot(&attended.lse, &dlse)
            })
        };
        let g = self.with(&inputs, options, |p| backward(p, &dout, Some(&dlse)).unwrap());
        let grads = [g.dq, g.dk, g.dv, g.dbias.unwrap_or_default(), g.dsinks.unwrap_or_default()];
        let mut moved = 0;
        for (n, grad) in grads.iter().enumerate() {
            assert_eq!(grad.len(), inputs[n].len(), "input {n}");
            for at in 0..grad.len() {
                const STEP: f64 = 1e-5;
                let mut there = inputs.clone();
                there[n][at] += STEP;
                let up = value(&there);
                there[n][at] -= 2.0 * STEP;
                let slope = (up - value(&there)) / (2.0 * STEP);
                let error = (slope - grad[at]).abs();
                assert!(
                    error < 1e-7 * (1.0 + slope.abs()) + 2e-8,
                    "{n}[{at}]: {slope} {}",
                    grad[at]
                );
                moved += usize::from(slope.abs() > 1e-6);
            }
        }
        assert!(moved > 0, "nothing depends on anything");
    }
}

#[test]
fn gradients_of_plain_grouped_and_wide_heads() {
    Setup::default().check(&|a| a);
    Setup { heads_q: 4, ..Setup::default() }.check(&|a| a.causal());
    Setup { heads_q: 3, heads_k: 1, dims: (2, 5), ..Setup::default() }.check(&|a| a.window(1, 2));
}

#[test]
fn gradients_under_any_scale_and_softcap() {
    for scale in [1.0, -0.7, 0.0] {
        Setup::default().check(&|a| a.scale(scale));
        Setup::default().check(&|a| a.scale(scale).softcap(1.5).causal());
    }
}

#[test]
fn gradients_with_rows_that_see_nothing() {
    Setup { lengths: (5, 3), ..Setup::default() }.check(&|a| a.causal());
    Setup { lengths: (8, 3), ..Setup::default() }.check(&|a| a.window(1, 1));
    Setup { lengths: (6, 3), sinks: true, ..Setup::default() }.check(&|a| a.causal());
}

#[test]
fn gradients_of_every_broadcast_of_the_bias() {
    for pattern in 0..16usize {
        let full = [2, 2, 4, 5];
        let shape = std::array::from_fn(|d| if pattern >> d & 1 == 1 { full[d] } else { 1 });
        let setup = Setup { bias: Some(shape), ..Setup::default() };
        setup.check(&|a| a);
        setup.check(&|a| a.causal().softcap(2.0));
    }
}

#[test]
fn gradients_with_sinks_alibi_masks_and_dropout() {
    let mask: Vec<bool> = (0..40).map(|n| n % 3 != 0).collect();
    let slopes = [0.3f32, 0.1];
    Setup { sinks: true, ..Setup::default() }.check(&|a| a.causal());
    Setup::default().check(&|a| a.dropout(0.4, 7, 1));
    Setup { sinks: true, bias: Some([1, 2, 4, 1]), ..Setup::default() }
        .check(&|a| a.dropout(0.3, 5, 0).softcap(3.0));
    // The options outlive each call.
    let mask: &'static [bool] = mask.leak();
    let slopes: &'static [f32] = slopes.to_vec().leak();
    Setup::default().check(&|a| a.mask(TensorView::from_slice(mask, &[2, 1, 4, 5]).unwrap()));
    Setup::default()
        .check(&|a| a.causal().alibi_slopes(TensorView::from_slice(slopes, &[2]).unwrap()));
}

#[test]
fn gradients_of_packed_and_partly_used_sequences_and_of_blocks() {
    Setup { packed: true, ..Setup::default() }.check(&|a| a.causal());
    let used: &'static [i32] = vec![2, 3].leak();
    let used = TensorView::from_slice(used, &[2]).unwrap();
    Setup { heads_q: 4, ..Setup::default() }.check(&|a| a.causal().seqused_q(used));
    Setup { packed: true, lengths: (4, 6), ..Setup::default() }.check(&|a| a.seqused_q(used));
    Setup::default().check(&|a| a.seqused_k(used));
    Setup::default().check(&|a| a.causal().q_start(2).k_start(-1));
    Setup::default().check(&|a| a.window(2, 0).q_start(0));
}

/// Plain causal attention with grouped heads, computed in a wholly different manner: heads
/// expanded, dense matrices, the mask as numbers.
#[test]
fn causal_grouped_attention_equals_dense_matrices_with_expanded_heads() {
    let (queries, keys, heads_q, heads_k, d) = (5, 7, 6, 2, 4);
    let data = [
        noise(1, queries * heads_q * d),
        noise(2, keys * heads_k * d),
        noise(3, keys * heads_k * d),
    ];
    let tensor = |n: usize, rows: usize, heads: usize| {
        Tensor::from_vec(data[n].clone(), &[1, rows, heads, d]).unwrap()
    };
    let [q, k, v] =
        [tensor(0, queries, heads_q), tensor(1, keys, heads_k), tensor(2, keys, heads_k)];
    let attention = Attention::new().causal();
    let problem = Problem::new(&attention, q.view(), k.view(), v.view()).unwrap();
    let attended = forward(&problem).unwrap();
    for h in 0..heads_q {
        let column = |x: &[f64], row: usize, heads: usize, head: usize, c: usize| {
            x[(row * heads + head) * d + c]
        };
        for i in 0..queries {
            let weights: Vec<f64> = (0..keys)
                .map(|j| {
                    let dot: f64 = (0..d)
                        .map(|c| {
                            column(&data[0], i, heads_q, h, c)
                                * column(&data[1], j, heads_k, h / 3, c)
                        })
                        .sum();
                    let visible = if j <= i + keys - queries { 1.0 } else { 0.0 };
                    visible * (dot / 2.0).exp()
                })
                .collect();
            let sum: f64 = weights.iter().sum();
            assert!((attended.lse[h * queries + i] - sum.ln()).abs() < 1e-12);
            for c in 0..d {
                let out: f64 = (0..keys)
                    .map(|j| weights[j] / sum * column(&data[2], j, heads_k, h / 3, c))
                    .sum();
                assert!((attended.out[(i * heads_q + h) * d + c] - out).abs() < 1e-12);
            }
        }
    }
}
