//! Results that are known exactly, without the reference: zeros, copies, counts, equal bits.

mod common;

use common::case::{Case, Tensors};
use common::every::{check_everywhere, everywhere};
use common::run::{Ask, attend, backward_of, engine, forward, gradients};
use common::strided::{Layout, Strided, noise};
use jhalak_cpu::IsaKind;
use jhalak_problem::{Attention, DType, Problem, TensorView};

fn plain_noise(dtype: DType, shapes: [&[usize]; 3]) -> Tensors {
    Tensors::dense(dtype, shapes, |n, i| noise(n as u64, i))
}

fn dout(dtype: DType, shape: &[usize]) -> Strided {
    Strided::new(dtype, shape, &Layout::default(), |i| noise(77, i))
}

fn all_zero(values: &[f64]) -> bool {
    values.iter().all(|&x| x == 0.0)
}

/// out, lse and all gradients of a case, as bits.
fn bits(case: &Case, ask: &Ask, isa: IsaKind) -> Vec<Vec<u64>> {
    let (tensors, engine) = (case.tensors(), engine(isa, 2));
    let attention = case.attention(&tensors);
    let (q, k, v) = (tensors.q.view(), tensors.k.view(), tensors.v.view());
    let problem = Problem::new(&attention, q, k, v).unwrap();
    let attended = forward(&engine, &problem, &ask.layouts[3]);
    let grads = backward_of(&engine, &problem, &tensors, &attended, ask, case.seed);
    let first = [attended.out.bits(), attended.lse.bits()].into_iter();
    first.chain(grads.iter().flatten().map(Strided::bits)).collect()
}

/// Case 6, backward, and case 9.
#[test]
fn what_sees_or_is_seen_by_nothing_has_gradients_of_exactly_zero() {
    everywhere(|isa, dtype| {
        let shape = [1, 8, 2, 8];
        let tensors = plain_noise(dtype, [&shape; 3]);
        // The lower half of a square; then head 0 as a whole.
        let lower: Vec<bool> = (0..64).map(|n| n < 32).collect();
        let lower = TensorView::from_slice(&lower, &[1, 1, 8, 8]).unwrap();
        let attention = Attention::new().mask(lower);
        let [dq, dk, dv] = gradients(isa, &attention, &tensors, dout(dtype, &shape));
        assert!(all_zero(&dq[64..]) && !all_zero(&dq[..64]), "{isa} {dtype}");
        assert!(dk.iter().chain(&dv).all(|x| x.is_finite() && *x != 0.0));
        let head = TensorView::from_slice(&[false, true], &[1, 2, 1, 1]).unwrap();
        let attention = Attention::new().mask(head);
        for grad in gradients(isa, &attention, &tensors, dout(dtype, &shape)) {
            for (n, &x) in grad.iter().enumerate() {
                assert_eq!(x == 0.0, n / 8 % 2 == 0, "{isa} {dtype}");
            }
        }
    });
}

/// Case 8, backward: with a whole row at the lowest finite number, an f32 lse cannot hold the
/// logarithm of the number of keys, but everything stays finite. At the lowest f16 number it can.
#[test]
fn gradients_at_the_lowest_finite_bias_are_finite() {
    everywhere(|isa, dtype| {
        let shape = [1, 3, 1, 4];
        let tensors = plain_noise(dtype, [&shape; 3]);
        for lowest in [f32::MIN, -65504.0] {
            let bias = [lowest; 3];
            let bias = TensorView::from_slice(&bias, &[1, 1, 1, 3]).unwrap();
            let attention = Attention::new().bias(bias);
            let grads = gradients(isa, &attention, &tensors, dout(dtype, &shape));
            assert!(grads.iter().flatten().all(|x| x.is_finite()), "{isa} {dtype}");
            if lowest == -65504.0 {
                let columns = |x: &[f64], c: usize| x[c] + x[c + 4] + x[c + 8];
                let dout = dout(dtype, &shape).values();
                for c in 0..4 {
                    let (dv, expected) = (columns(&grads[2], c), columns(&dout, c));
                    assert!((dv - expected).abs() < 0.03, "{isa} {dtype} {dv} {expected}");
                }
            }
        }
    });
}

/// Cases 17 and 88: exp(lse) of equal scores counts the keys, for every number of keys around the
/// edges of tiles; lse has one element per row and head, no more.
#[test]
fn no_padded_key_is_counted() {
    everywhere(|isa, dtype| {
        for keys in (1..=70).chain([127, 128, 129, 255, 256, 257, 511, 513]) {
            let (q, k) = ([1, 2, 2, 8], [1, keys, 2, 8]);
            let tensors = Tensors::dense(dtype, [&q, &k, &k], |n, _| f64::from(n == 2));
            for cap in [0.0, 1.0] {
                let (out, lse) = attend(isa, &Attention::new().softcap(cap), &tensors);
                assert_eq!(lse.len(), 4);
                let right = |lse: &f64| (lse - (keys as f64).ln()).abs() < 1e-5;
                assert!(lse.iter().all(right), "{isa} {dtype} {keys} {lse:?}");
                assert!(out.iter().all(|x| (x - 1.0).abs() < 0.004), "{isa} {dtype} {keys}");
            }
        }
    });
    for queries in [1, 15, 16, 17, 33] {
        check_everywhere(&Case::dense(1, queries, queries, 2, 128), &Ask::default());
    }
}

/// Case 24, and a window: keys that no query sees.
#[test]
fn unseen_keys_have_gradients_of_exactly_zero() {
    everywhere(|isa, dtype| {
        let (q, k) = ([1, 5, 1, 12], [1, 600, 1, 12]);
        let tensors = plain_noise(dtype, [&q, &k, &k]);
        // Top-left: the first 5 keys are seen. Bottom-right, 3 back: the last 8.
        for (attention, seen) in [
            (Attention::new().causal().q_start(0), 0..5),
            (Attention::new().window(3, 0), 592..600),
            (Attention::new().window(0, 0), 595..600),
        ] {
            let [_, dk, dv] = gradients(isa, &attention, &tensors, dout(dtype, &q));
            for key in 0..600 {
                let zero = |x: &[f64]| all_zero(&x[key * 12..][..12]);
                assert_eq!(zero(&dv), !seen.contains(&key), "{isa} {dtype} {key}");
                assert!(seen.contains(&key) || zero(&dk), "{isa} {dtype} {key}");
            }
        }
    });
}

/// Case 22: the two causal matrices of unequal lengths, read off the columns of an identity.
#[test]
fn causal_matrices_are_the_documented_ones() {
    everywhere(|isa, dtype| {
        let visible = |queries: usize, keys: usize, attention: &Attention<'_>| -> Vec<String> {
            let (q, k, v) = ([1, queries, 1, 4], [1, keys, 1, 4], [1, keys, 1, keys]);
            let tensors =
                Tensors::dense(dtype, [&q, &k, &v], |n, i| f64::from(n == 2 && i[1] == i[3]));
            let (out, _) = attend(isa, attention, &tensors);
            let digit = |&x: &f64| if x > 0.0 { '1' } else { '0' };
            out.chunks(keys).map(|row| row.iter().map(digit).collect()).collect()
        };
        let causal = || Attention::new().causal();
        assert_eq!(visible(2, 5, &causal()), ["11110", "11111"]);
        assert_eq!(visible(5, 2, &causal()), ["00", "00", "00", "10", "11"]);
        assert_eq!(visible(2, 5, &causal().q_start(0)), ["10000", "11000"]);
        assert_eq!(visible(5, 2, &causal().q_start(0)), ["10", "11", "11", "11", "11"]);
        assert_eq!(visible(1, 9, &Attention::new().window(3, 0)), ["000001111"]);
        assert_eq!(visible(3, 3, &Attention::new().window(0, 1)), ["110", "011", "001"]);
    });
}

/// Cases 30, 31, 33 and 34: a bound that reaches past both ends is no bound, to the bit.
#[test]
fn windows_wider_than_the_sequence_are_no_windows() {
    for isa in IsaKind::available() {
        for (queries, keys) in [(128, 128), (40, 300), (300, 40)] {
            for causal in [false, true] {
                let plain = Case { causal, ..Case::dense(1, queries, keys, 1, 16) };
                let expected = bits(&plain, &Ask::default(), isa);
                let far = i64::from(i32::MAX);
                for bound in [-1, 4096, 1_000_000_000, far, i64::MAX - 1, i64::MAX] {
                    for window in [(bound, bound), (bound, -1), (-1, bound)] {
                        let case = Case { window: Some(window), ..plain.clone() };
                        assert_eq!(expected, bits(&case, &Ask::default(), isa), "{window:?}");
                    }
                }
            }
        }
        // Every width: W keys are those from p − (W − 1) to p.
        let shape = [1, 19, 1, 4];
        let zeros = Tensors::dense(DType::F32, [&shape; 3], |_, _| 0.0);
        for width in 1..22 {
            let (_, lse) = attend(isa, &Attention::new().window(width - 1, 0), &zeros);
            for (i, lse) in lse.iter().enumerate() {
                assert_eq!(lse.exp().round(), width.min(i as i64 + 1) as f64, "{width}");
            }
        }
    }
}

/// Cases 46, 47 and 48.
#[test]
fn empty_sides_and_rows_past_the_end_are_exactly_zero() {
    everywhere(|isa, dtype| {
        for lengths in [vec![(0, 5), (0, 40)], vec![(4, 0), (30, 0)], vec![(20, 9), (7, 30)]] {
            let spare_rows = 2;
            let case = Case {
                dtype,
                packed: true,
                spare_rows,
                lengths: lengths.clone(),
                ..Case::dense(1, 1, 1, 2, 8)
            };
            let tensors = case.tensors();
            let attention = case.attention(&tensors);
            let (queries, keys) = lengths.iter().fold((0, 0), |(q, k), l| (q + l.0, k + l.1));
            let (q_rows, k_rows) = (queries + spare_rows, keys + spare_rows);
            let (out, lse) = attend(isa, &attention, &tensors);
            let upstream = dout(dtype, &[q_rows, 2, 8]);
            let [dq, dk, dv] = gradients(isa, &attention, &tensors, upstream);
            let lone = queries == 0 || keys == 0;
            let (q_end, k_end) = if lone { (0, 0) } else { (queries * 16, keys * 16) };
            assert_eq!((dq.len(), dk.len()), (q_rows * 16, k_rows * 16));
            assert!(all_zero(&out[q_end..]) && all_zero(&dq[q_end..]), "{isa} {dtype} {lengths:?}");
            assert!(all_zero(&dk[k_end..]) && all_zero(&dv[k_end..]), "{isa} {dtype} {lengths:?}");
            for (n, lse) in lse.iter().enumerate() {
                assert_eq!(*lse == f64::NEG_INFINITY, lone || n % q_rows >= queries);
            }
        }
    });
}

/// Cases 13 and 89, backward: one key takes all the weight.
#[test]
fn with_one_key_out_is_v_and_dv_is_dout() {
    everywhere(|isa, dtype| {
        for size in [1.0, 3.0, if dtype == DType::F16 { 60_000.0 } else { 133_120.0 }] {
            let shape = [2, 1, 2, 64];
            let tensors = Tensors::dense(dtype, [&shape; 3], |_, _| size);
            let (out, lse) = attend(isa, &Attention::new(), &tensors);
            let v = tensors.v.values();
            assert_eq!(out, v, "{isa} {dtype}");
            assert!(lse.iter().all(|x| x.is_finite()));
            let upstream = Strided::new(dtype, &shape, &Layout::default(), |_| 1.0);
            let [dq, dk, dv] = gradients(isa, &Attention::new(), &tensors, upstream);
            assert!(dv.iter().all(|&x| x == 1.0), "{isa} {dtype} {size}: {}", dv[0]);
            assert!(dq.iter().chain(&dk).all(|x| x.is_finite()));
        }
    });
}

/// Case 119: the future stays hidden behind a cap that brings all scores close together.
#[test]
fn softcap_does_not_let_the_future_in() {
    everywhere(|isa, dtype| {
        let shape = [1, 70, 1, 8];
        let tensors = Tensors::dense(dtype, [&shape; 3], |n, i| match n {
            2 => [1.0, 30_000.0][usize::from(i[1] > 0)],
            _ => 9.0 * noise(n as u64, i),
        });
        let (out, _) = attend(isa, &Attention::new().softcap(1.0).causal(), &tensors);
        assert_eq!(out[..8], [1.0; 8], "{isa} {dtype}");
    });
}

/// Case 123: rows without a key, with a sink.
#[test]
fn a_row_without_keys_has_its_sink_as_lse() {
    everywhere(|isa, dtype| {
        let shape = [1, 6, 2, 8];
        let (q, k) = (shape, [1, 2, 2, 8]);
        let tensors = plain_noise(dtype, [&q, &k, &k]);
        let sinks = [0.75f32, f32::NEG_INFINITY];
        let sinks = TensorView::from_slice(&sinks, &[2]).unwrap();
        // The scale must not reach the sink.
        let attention = Attention::new().causal().scale(5.0).sinks(sinks);
        let (out, lse) = attend(isa, &attention, &tensors);
        assert_eq!(lse[..4], [0.75; 4], "{isa} {dtype}");
        assert_eq!(lse[6..10], [f64::NEG_INFINITY; 4]);
        assert!(out[..4 * 16].iter().all(|x| x.to_bits() == 0));
        let [dq, ..] = gradients(isa, &attention, &tensors, dout(dtype, &q));
        assert!(all_zero(&dq[..4 * 16]) && !all_zero(&dq[4 * 16..]));
    });
}

/// Case 126: which weights are dropped is a function of seed, offset, sequence, head and the two
/// positions: not of tiles, threads, heads per key head, or what part of the keys is given.
#[test]
fn dropout_keeps_what_the_generator_says() {
    everywhere(|isa, dtype| {
        let (queries, keys) = (40, 300);
        for (first_q, first_k) in [(0i64, 0i64), (17, 129), (-5, 3)] {
            let (q, k, v) = ([2, queries, 4, 4], [2, keys, 2, 4], [2, keys, 2, keys]);
            let tensors =
                Tensors::dense(dtype, [&q, &k, &v], |n, i| f64::from(n == 2 && i[1] == i[3]));
            let attention = Attention::new().dropout(0.3, 0x1234_5678_9ABC, 7);
            let attention = attention.q_start(first_q).k_start(first_k);
            let (out, _) = attend(isa, &attention, &tensors);
            let (q, k, v) = (tensors.q.view(), tensors.k.view(), tensors.v.view());
            let problem = Problem::new(&attention, q, k, v).unwrap();
            let dropout = problem.dropout().unwrap();
            for (n, x) in out.iter().enumerate() {
                let (j, h, i, b) = (n % keys, n / keys % 4, n / keys / 4 % queries, n / keys / 160);
                let (i, j) = (i as i64 + first_q, j as i64 + first_k);
                let kept = dropout.keeps((b * 4 + h) as u32, i, j);
                assert_eq!(*x != 0.0, kept, "{isa} {dtype} {b} {h} {i} {j}");
            }
        }
    });
}

/// Cases 56 to 59, 61, 63 and 64: where a tensor lies changes no bit.
#[test]
fn layouts_change_no_bit() {
    let base = Case {
        group: 2,
        bias: Some(([true; 4], true)),
        mask: Some([true, true, false, true]),
        ..Case::dense(2, 33, 62, 2, 24)
    };
    let layouts: Vec<Layout> = (0..24)
        .map(|n| Layout {
            rotate: n % 4,
            reversed: (n * 7 % 16) as u8,
            broadcast: 0,
            gap: n % 3,
            lead: n % 5,
        })
        .collect();
    everywhere(|isa, dtype| {
        for case in [base.clone(), Case { packed: true, causal: true, bias: None, ..base.clone() }]
        {
            let case = Case { dtype, ..case };
            let expected = bits(&case, &Ask::default(), isa);
            for n in 0..layouts.len() {
                let four = |by: usize| std::array::from_fn(|k| layouts[(n + k * by) % 24].clone());
                let case = Case { layouts: four(5), ..case.clone() };
                let ask = Ask { layouts: four(7), ..Ask::default() };
                let found = bits(&case, &ask, isa);
                assert!(expected == found, "{isa} {dtype} {n} {:?}", case.layouts);
            }
        }
    });
}

/// Case 60.
#[test]
fn expanded_heads_with_one_key_past_a_tile_equal_their_copies() {
    let expanded = || Layout { broadcast: 0b0100, ..Layout::default() };
    let layouts = [Layout::default(), expanded(), expanded(), Layout::default()];
    for keys in [33, 65, 257] {
        let mask = Some([true, false, true, true]);
        let case = Case { layouts: layouts.clone(), mask, ..Case::dense(1, 4, keys, 3, 512) };
        check_everywhere(&case, &Ask::default());
    }
}

/// Case 113: a bias that is expanded by strides of 0 has a gradient of its full shape.
#[test]
fn an_expanded_bias_has_a_full_gradient() {
    for broadcast in [0b0001, 0b0010, 0b0111, 0b1000, 0b1111] {
        let mut case = Case { bias: Some(([true; 4], false)), ..Case::dense(3, 9, 21, 2, 8) };
        case.layouts[3] = Layout { broadcast, ..Layout::default() };
        check_everywhere(&case, &Ask::default());
    }
}

/// Case 130: weights that sum to 1 leave a constant as it is, within an ulp of the dtype.
#[test]
fn the_average_of_a_constant_is_the_constant() {
    everywhere(|isa, dtype| {
        let shape = [1, 300, 2, 20];
        for value in [1.0, -0.375, 1024.0] {
            let tensors =
                Tensors::dense(
                    dtype,
                    [&shape; 3],
                    |n, i| {
                        if n == 2 { value } else { noise(n as u64, i) }
                    },
                );
            let (out, _) = attend(isa, &Attention::new(), &tensors);
            let ulp = match dtype {
                DType::F64 => 1e-14,
                DType::F32 => 1e-6,
                DType::F16 => 2f64.powi(-10),
                _ => 2f64.powi(-7),
            };
            let worst = out.iter().fold(0f64, |worst, x| worst.max((x / value - 1.0).abs()));
            assert!(worst <= ulp, "{isa} {dtype} {worst:e}");
        }
    });
}
