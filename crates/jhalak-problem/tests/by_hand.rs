//! The reference against results worked out on paper: who sees whom, distances, sinks, rows that
//! see nothing, numbers that are none, and merging.
//!
//! With q = 0 every visible key weighs the same: lse is the logarithm of how many are seen. With
//! v = the identity matrix, out is P itself.

use jhalak_problem::reference::{Attended, backward, forward, in_dtype, merge};
use jhalak_problem::{Attention, Error, Problem, Tensor, TensorView};

const NO: f64 = f64::NEG_INFINITY;
const NAN: f64 = f64::NAN;

/// One head: q [1, Sq, 1, 1] and k [1, Sk, 1, 1] of these numbers, v the identity.
struct OneHead {
    q: Tensor,
    k: Tensor,
    v: Tensor,
}

impl OneHead {
    fn new(q: &[f64], k: &[f64]) -> Self {
        let n = k.len();
        let identity = (0..n * n).map(|at| f64::from(u8::from(at / n == at % n))).collect();
        Self::with_v(q, k, identity)
    }

    fn with_v(q: &[f64], k: &[f64], v: Vec<f64>) -> Self {
        let column = |x: &[f64]| Tensor::from_vec(x.to_vec(), &[1, x.len(), 1, 1]).unwrap();
        let width = v.len() / k.len();
        let v = Tensor::from_vec(v, &[1, k.len(), 1, width]).unwrap();
        OneHead { q: column(q), k: column(k), v }
    }

    fn problem<'a>(&'a self, attention: &Attention<'a>) -> Problem<'a> {
        Problem::new(attention, self.q.view(), self.k.view(), self.v.view()).unwrap()
    }

    fn forward<'a>(&'a self, attention: &Attention<'a>) -> Attended {
        forward(&self.problem(attention)).unwrap()
    }
}

/// Which keys each query sees, as 0 and 1, row by row.
fn seen(queries: usize, keys: usize, attention: Attention<'static>) -> Vec<Vec<u8>> {
    let attended = OneHead::new(&vec![0.0; queries], &vec![1.0; keys]).forward(&attention);
    let rows = attended.out.chunks(keys).zip(&attended.lse);
    rows.map(|(row, lse)| {
        let count = row.iter().filter(|&&p| p != 0.0).count() as f64;
        near(&[*lse], &[count.ln()]);
        row.iter().map(|&p| u8::from(p != 0.0)).collect()
    })
    .collect()
}

/// Equal to 1e-14; NaN for NaN, infinities and the sign of 0 exactly.
#[track_caller]
fn near(got: &[f64], wanted: &[f64]) {
    let same = |(&g, &w): (&f64, &f64)| match w {
        w if w.is_nan() => g.is_nan(),
        w if w.is_infinite() || w == 0.0 => g.to_bits() == w.to_bits(),
        w => (g - w).abs() <= 1e-14 * (1.0 + w.abs()),
    };
    let all = got.len() == wanted.len() && got.iter().zip(wanted).all(same);
    assert!(all, "{got:?} instead of {wanted:?}");
}

#[test]
fn causal_sits_on_the_last_key() {
    assert_eq!(seen(2, 5, Attention::new().causal()), [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]);
    assert_eq!(seen(5, 2, Attention::new().causal()), [[0, 0], [0, 0], [0, 0], [1, 0], [1, 1]]);
}

#[test]
fn global_positions_move_the_diagonal() {
    let causal = || Attention::new().causal();
    let top_left = [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0]];
    assert_eq!(seen(2, 5, causal().q_start(0)), top_left);
    assert_eq!(seen(2, 5, causal().k_start(0)), top_left);
    assert_eq!(seen(2, 5, causal().q_start(7).k_start(6)), [[1, 1, 0, 0, 0], [1, 1, 1, 0, 0]]);
    assert_eq!(seen(2, 3, causal().k_start(1)), [[0, 0, 0], [1, 0, 0]]);
    assert_eq!(seen(2, 3, Attention::new().window(0, 0).q_start(1)), [[0, 1, 0], [0, 0, 1]]);
}

#[test]
fn a_window_of_l_and_0_sees_l_plus_1_keys() {
    let square = |l, r| seen(4, 4, Attention::new().window(l, r));
    assert_eq!(square(0, 0), [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]);
    assert_eq!(square(1, 0), [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]);
    assert_eq!(square(0, 1), [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [0, 0, 0, 1]]);
    assert_eq!(square(-1, 0), seen(4, 4, Attention::new().causal()));
    assert_eq!(square(-1, -1), vec![vec![1; 4]; 4]);
    for bound in [i64::from(i32::MAX), i64::MAX] {
        assert_eq!(square(bound, bound), square(-1, -1));
        assert_eq!(square(bound, 0), square(-1, 0));
    }
    // Causal keeps the left bound and makes the right one 0.
    assert_eq!(seen(4, 4, Attention::new().causal().window(1, 3)), square(1, 0));
    // Bottom-right, and rows before the first key.
    assert_eq!(seen(2, 4, Attention::new().window(1, 0)), [[0, 1, 1, 0], [0, 0, 1, 1]]);
    assert_eq!(seen(4, 2, Attention::new().window(0, 1)), [[0, 0], [1, 0], [1, 1], [0, 1]]);
}

#[test]
fn alibi_subtracts_slope_times_distance() {
    let slopes = Tensor::from_vec(vec![0.5f32], &[1]).unwrap();
    let check = |attention: Attention<'_>, queries: usize, keys: usize, distances: &[&[f64]]| {
        let case = OneHead::new(&vec![0.0; queries], &vec![1.0; keys]);
        let attended = case.forward(&attention.alibi_slopes(slopes.view()));
        let sums: Vec<f64> =
            distances.iter().map(|row| row.iter().map(|d| (-0.5 * d).exp()).sum()).collect();
        let p = distances
            .iter()
            .zip(&sums)
            .flat_map(|(row, sum)| row.iter().map(move |d: &f64| (-0.5 * d).exp() / sum));
        near(&attended.out, &p.collect::<Vec<_>>());
        near(&attended.lse, &sums.iter().map(|sum| sum.ln()).collect::<Vec<_>>());
    };
    check(Attention::new(), 2, 3, &[&[1.0, 0.0, 1.0], &[2.0, 1.0, 0.0]]);
    check(Attention::new(), 3, 2, &[&[1.0, 2.0], &[0.0, 1.0], &[1.0, 0.0]]);
    check(Attention::new().q_start(5).k_start(7), 1, 3, &[&[2.0, 3.0, 4.0]]);
}

#[test]
fn scores_are_scaled_capped_and_biased_in_this_order() {
    // s = 2·tanh((0.5·3·k) / 2) + bias.
    let case = OneHead::new(&[3.0], &[1.0, -2.0, 0.0]);
    let bias = [0.25, -1.0, 4.0];
    let bias_view = TensorView::from_slice(&bias, &[1, 1, 1, 3]).unwrap();
    let attention = Attention::new().scale(0.5).softcap(2.0).bias(bias_view);
    let s = [2.0 * 0.75f64.tanh() + 0.25, 2.0 * (-1.5f64).tanh() - 1.0, 4.0];
    let lse = s.iter().map(|s| s.exp()).sum::<f64>().ln();
    let attended = case.forward(&attention);
    near(&attended.lse, &[lse]);
    near(&attended.out, &s.map(|s| (s - lse).exp()));
    // The default scale is 1/√D: D = 4.
    let q = Tensor::from_vec(vec![1.0f64; 4], &[1, 1, 1, 4]).unwrap();
    let problem = Problem::new(&Attention::new(), q.view(), q.view(), q.view()).unwrap();
    near(&forward(&problem).unwrap().lse, &[2.0]);
}

#[test]
fn a_sink_takes_part_in_the_denominator_only() {
    // Scores ln 1, ln 2 and a sink of ln 5: weights 1/8 and 2/8. The sink is not scaled.
    let case = OneHead::new(&[1.0], &[0.0, 2f64.ln()]);
    let five = [5f64.ln()];
    let attention = Attention::new().sinks(TensorView::from_slice(&five, &[1]).unwrap());
    let attended = case.forward(&attention);
    near(&attended.out, &[0.125, 0.25]);
    near(&attended.lse, &[8f64.ln()]);
    // dsink = exp(sink − lse)·(dlse − delta) = 5/8·(3 − (8·1/8 + 16·1/4)).
    let problem = case.problem(&attention);
    let g = backward(&problem, &[8.0, 16.0], Some(&[3.0])).unwrap();
    near(&g.dsinks.unwrap(), &[5.0 / 8.0 * (3.0 - 5.0)]);
    // A sink of −∞ is none.
    let none = [NO];
    let attention = Attention::new().sinks(TensorView::from_slice(&none, &[1]).unwrap());
    near(&case.forward(&attention).out, &[1.0 / 3.0, 2.0 / 3.0]);
    let g = backward(&case.problem(&attention), &[8.0, 16.0], Some(&[3.0])).unwrap();
    near(&g.dsinks.unwrap(), &[0.0]);
}

#[test]
fn rows_that_see_nothing_are_zero_whatever_dout_is() {
    let case = OneHead::with_v(&[1.0, 1.0], &[NAN], vec![f64::INFINITY]);
    let mask = TensorView::from_slice(&[false], &[1, 1, 1, 1]).unwrap();
    let hidden = Attention::new().mask(mask);
    near(&case.forward(&hidden).out, &[0.0, 0.0]);
    near(&case.forward(&hidden).lse, &[NO, NO]);
    for sink in [0.5, f64::INFINITY] {
        let sinks = [sink];
        let with_sink = hidden.clone().sinks(TensorView::from_slice(&sinks, &[1]).unwrap());
        let attended = case.forward(&with_sink);
        near(&attended.out, &[0.0, 0.0]);
        near(&attended.lse, &[sink, sink]);
    }
    let sinks = [0.5];
    let with_sink = hidden.sinks(TensorView::from_slice(&sinks, &[1]).unwrap());
    let dout = [NAN, f64::INFINITY];
    let g = backward(&case.problem(&with_sink), &dout, Some(&[2.0, 3.0])).unwrap();
    near(&[g.dq, g.dk, g.dv].concat(), &[0.0; 4]);
    near(&g.dsinks.unwrap(), &[5.0]);
    let sinks = [NO];
    let without = with_sink.sinks(TensorView::from_slice(&sinks, &[1]).unwrap());
    near(&case.forward(&without).lse, &[NO, NO]);
    let g = backward(&case.problem(&without), &dout, Some(&[2.0, 3.0])).unwrap();
    near(&g.dsinks.unwrap(), &[0.0]);
}

#[test]
fn hidden_keys_have_no_influence_whatever_they_hold() {
    let (q, k) = ([1.0, 1.0], [0.0, 2f64.ln(), NAN]);
    let case = OneHead::with_v(&q, &k, vec![3.0, 6.0, NAN]);
    let no_third = [0.0, 0.0, NO];
    let by_bias = Attention::new().bias(TensorView::from_slice(&no_third, &[1, 1, 1, 3]).unwrap());
    let mask = TensorView::from_slice(&[true, true, false], &[1, 1, 1, 3]).unwrap();
    let by_mask = Attention::new().mask(mask);
    let used = [2i32];
    let by_length = Attention::new().seqused_k(TensorView::from_slice(&used, &[1]).unwrap());
    for attention in [by_bias, by_mask, by_length] {
        let attended = case.forward(&attention);
        near(&attended.out, &[5.0, 5.0]);
        near(&attended.lse, &[3f64.ln(), 3f64.ln()]);
        // P = 1/3, 2/3; dP = 3, 6 times dout; delta = 5 dout; dout = 1, 2.
        let g = backward(&case.problem(&attention), &[1.0, 2.0], None).unwrap();
        near(&g.dv, &[1.0, 2.0, 0.0]);
        near(&g.dk, &[-2.0, 2.0, 0.0]);
        near(&g.dq, &[2.0 / 3.0 * 2f64.ln(), 4.0 / 3.0 * 2f64.ln()]);
        assert!(g.dbias.is_none_or(|dbias| dbias[2] == 0.0));
    }
}

#[test]
fn nan_and_infinite_scores_spoil_their_own_row_only() {
    let k = [1.0, 2.0];
    for bad in [NAN, f64::INFINITY] {
        let attended = OneHead::new(&[0.0, bad, 0.0], &k).forward(&Attention::new());
        near(&attended.out, &[0.5, 0.5, NAN, NAN, 0.5, 0.5]);
        near(&attended.lse, &[2f64.ln(), NAN, 2f64.ln()]);
    }
    // Scores of −∞ hide their keys: all of them here.
    let attended = OneHead::new(&[f64::NEG_INFINITY, 0.0], &k).forward(&Attention::new());
    near(&attended.out, &[0.0, 0.0, 0.5, 0.5]);
    near(&attended.lse, &[NO, 2f64.ln()]);
}

/// A row full of the smallest finite number is a uniform average.
#[test]
fn finite_minimum_values_hide_nothing() {
    let bias = [f64::from(f32::MIN); 3];
    let attention = Attention::new().bias(TensorView::from_slice(&bias, &[1, 1, 1, 3]).unwrap());
    let case = OneHead::new(&[1.0], &[1.0, -1.0, 0.5]);
    near(&case.forward(&attention).out, &[1.0 / 3.0; 3]);
}

#[test]
fn packed_sequences_see_their_own_keys_and_leave_the_rest_zero() {
    let q = Tensor::from_vec(vec![0.0f64; 4], &[4, 1, 1]).unwrap();
    let k = Tensor::from_vec(vec![1.0f64; 5], &[5, 1, 1]).unwrap();
    let v = Tensor::from_vec(vec![1.0, 2.0, 4.0, 8.0, NAN], &[5, 1, 1]).unwrap();
    let (cu_q, cu_k, used) = ([0i32, 2, 3], [0i64, 3, 4], [1i32, 1]);
    let view = TensorView::from_slice(&cu_q, &[3]).unwrap();
    let attention =
        Attention::new().causal().cu_seqlens(view, TensorView::from_slice(&cu_k, &[3]).unwrap());
    let run = |attention: &Attention<'_>| {
        let problem = Problem::new(attention, q.view(), k.view(), v.view()).unwrap();
        forward(&problem).unwrap()
    };
    near(&run(&attention).out, &[1.5, 7.0 / 3.0, 8.0, 0.0]);
    near(&run(&attention).lse, &[2f64.ln(), 3f64.ln(), 0.0, NO]);
    // With one query in use, it is the last one.
    let attention = attention.seqused_q(TensorView::from_slice(&used, &[2]).unwrap());
    near(&run(&attention).out, &[7.0 / 3.0, 0.0, 8.0, 0.0]);
    near(&run(&attention).lse, &[3f64.ln(), NO, 0.0, NO]);
}

#[test]
fn dropout_divides_the_kept_weights_and_leaves_lse_alone() {
    let case = OneHead::new(&[0.0; 8], &[1.0; 8]);
    let attended = case.forward(&Attention::new().dropout(0.25, 3, 0));
    near(&attended.lse, &[8f64.ln(); 8]);
    let kept = attended.out.iter().filter(|&&p| p != 0.0).count();
    assert!((32..64).contains(&kept), "{kept} of 64 kept");
    assert!(attended.out.iter().all(|&p| p == 0.0 || (p - 1.0 / 6.0).abs() < 1e-15));
    let all = case.forward(&Attention::new().dropout(1.0, 3, 0));
    near(&all.out, &[0.0; 64]);
    near(&all.lse, &attended.lse);
    let g = backward(&case.problem(&Attention::new().dropout(1.0, 3, 0)), &[1.0; 64], None);
    near(&g.unwrap().dv, &[0.0; 64]);
}

#[test]
fn parts_merge_to_the_whole_and_empty_ones_count_nothing() {
    // Weights 1 and 3 of the first row; only one part of the second; none of the third.
    let a: (&[f64], &[f64]) = (&[8.0, 4.0, 5.0, 6.0, NAN, NAN], &[0.0, 1.5, NO]);
    let b: (&[f64], &[f64]) = (&[0.0, 8.0, NAN, NAN, NAN, NAN], &[3f64.ln(), NO, f64::INFINITY]);
    let wanted =
        Attended { out: vec![2.0, 7.0, 5.0, 6.0, 0.0, 0.0], lse: vec![4f64.ln(), 1.5, NO] };
    for parts in [&[a, b][..], &[b, a]] {
        let merged = merge(parts, 2);
        near(&merged.out, &wanted.out);
        near(&merged.lse, &wanted.lse);
    }
    // Far apart, without overflow; and a part alone is itself.
    near(&merge(&[(&[1.0], &[-2000.0]), (&[2.0], &[2000.0])], 1).lse, &[2000.0]);
    near(&merge(&[(&[1.5], &[-2000.0])], 1).out, &[1.5]);

    // Three blocks of keys, the sink in the first, merge to the call on all keys.
    let (q, k) = ([0.3, -0.7, 1.1], [0.5, -1.0, 2.0, 0.1, -0.4, 0.9]);
    let (v, sinks) = ([1.0, -2.0, 3.0, 0.5, 7.0, -1.0], [0.2]);
    let sinks = TensorView::from_slice(&sinks, &[1]).unwrap();
    let causal = || Attention::new().causal();
    let whole =
        OneHead::with_v(&q, &k, v.to_vec()).forward(&causal().q_start(1).k_start(0).sinks(sinks));
    let blocks = [0, 2, 4].map(|at| {
        let block = OneHead::with_v(&q, &k[at..at + 2], v[at..at + 2].to_vec());
        let attention = causal().q_start(1).k_start(at as i64);
        block.forward(&if at == 0 { attention.sinks(sinks) } else { attention })
    });
    let parts = blocks.each_ref().map(|part| (&part.out[..], &part.lse[..]));
    near(&merge(&parts, 1).out, &whole.out);
    near(&merge(&parts, 1).lse, &whole.lse);
}

/// The yardstick of bf16: 8 bits of S and P.
#[test]
fn in_dtype_rounds_scores_and_weights() {
    let bf16s = |x: &[f32]| {
        let x: Vec<_> = x.iter().map(|&x| half::bf16::from_f32(x)).collect();
        Tensor::from_vec(x, &[1, 3, 1, 1]).unwrap()
    };
    let (one, v) = (bf16s(&[0.0; 3]), bf16s(&[1.0, 0.0, 0.0]));
    let attention = Attention::new();
    let problem = Problem::new(&attention, one.view(), one.view(), v.view()).unwrap();
    let third = f64::from(half::bf16::from_f32(1.0 / 3.0));
    let yard = in_dtype::forward(&problem).unwrap();
    near(&yard.out, &[third; 3]);
    near(&yard.lse, &[f64::from(3f32.ln()); 3]);
    near(&forward(&problem).unwrap().out, &[1.0 / 3.0; 3]);
    // f64 is its own yardstick.
    let case = OneHead::new(&[0.3, 2.0], &[1.0, 0.7]);
    let problem = case.problem(&attention);
    assert_eq!(in_dtype::forward(&problem).unwrap(), forward(&problem).unwrap());
}

#[test]
fn scores_and_results_that_do_not_fit_are_an_error() {
    let wide = |shape: &[usize; 4]| TensorView::strided(&[0f32], 0, shape, &[0; 4]).unwrap();
    let refused = |q: &[usize; 4], v: &[usize; 4]| {
        let k = [q[0], v[1], v[2], 1];
        let problem = Problem::new(&Attention::new(), wide(q), wide(&k), wide(v)).unwrap();
        assert!(matches!(forward(&problem), Err(Error::OutOfMemory { .. })), "{q:?} {v:?}");
    };
    // Each asks for more than the address space at once: nothing is ever touched but 8 MiB of out.
    refused(&[1, 1 << 20, 1, 1], &[1, 1 << 40, 1, 1]);
    refused(&[1, 1 << 50, 1, 1], &[1, 1, 1, 1]);
    refused(&[1, 1 << 50, 1, 1], &[1, 1, 1, 1 << 50]);
}
