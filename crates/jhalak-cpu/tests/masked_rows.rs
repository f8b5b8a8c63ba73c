//! Rows and keys that see or are seen by nothing, and what hidden keys may hold. The numbers are
//! those of the reports on which other libraries failed.

mod common;

use common::case::{Case, Tensors};
use common::every::everywhere;
use common::run::{Ask, attend, check, gradients, judge};
use common::strided::{Layout, Strided, noise};
use jhalak_problem::{Attention, DType, TensorView};

fn ones(dtype: DType, shape: &[usize]) -> Strided {
    Strided::new(dtype, shape, &Layout::default(), |_| 1.0)
}

/// Case 6.
#[test]
fn fully_masked_row_is_zero_with_lse_minus_infinity() {
    everywhere(|isa, dtype| {
        let (q, k) = ([1, 6, 2, 8], [1, 10, 2, 8]);
        let tensors = Tensors::dense(dtype, [&q, &k, &k], |n, i| noise(n as u64, i));
        let mask: Vec<bool> = (0..60).map(|n| n < 50).collect();
        let mask = TensorView::from_slice(&mask, &[1, 1, 6, 10]).unwrap();
        let attention = Attention::new().mask(mask);
        let (out, lse) = attend(isa, &attention, &tensors);
        assert!(out[5 * 16..].iter().all(|x| x.to_bits() == 0), "{isa} {dtype}");
        assert!(out[..5 * 16].iter().all(|x| x.is_finite() && *x != 0.0));
        assert_eq!([lse[5], lse[11]], [f64::NEG_INFINITY; 2]);
        let [dq, dk, dv] = gradients(isa, &attention, &tensors, ones(dtype, &q));
        assert!(dq[5 * 16..].iter().all(|&x| x == 0.0));
        assert!(dk.iter().chain(&dv).all(|x| x.is_finite()));
        // The lower half of a square mask.
        let square = [1, 8, 1, 8];
        let tensors = Tensors::dense(dtype, [&square; 3], |n, i| noise(n as u64 + 9, i));
        let mask: Vec<bool> = (0..64).map(|n| n < 32).collect();
        let mask = TensorView::from_slice(&mask, &[1, 1, 8, 8]).unwrap();
        let (out, _) = attend(isa, &Attention::new().mask(mask), &tensors);
        assert!(out[32..].iter().all(|x| x.to_bits() == 0));
    });
}

/// Case 7, for every way to hide a key, and for what flows back from it.
#[test]
fn hidden_keys_may_hold_anything() {
    everywhere(|isa, dtype| {
        for spoiler in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for (in_k, in_v) in [(true, false), (false, true), (true, true)] {
                let (q, k) = ([1, 5, 2, 20], [1, 9, 2, 20]);
                let make = |poisoned: bool| {
                    Tensors::dense(dtype, [&q, &k, &k], |n, i| {
                        let hidden = i[1] >= 6 && ((n == 1 && in_k) || (n == 2 && in_v));
                        if poisoned && hidden { spoiler } else { noise(n as u64, i) }
                    })
                };
                let (clean, poisoned) = (make(false), make(true));
                let mask: Vec<bool> = (0..9).map(|j| j < 6).collect();
                let mask = TensorView::from_slice(&mask, &[1, 1, 1, 9]).unwrap();
                let bias: Vec<f32> =
                    (0..9).map(|j| if j < 6 { 0.0 } else { f32::NEG_INFINITY }).collect();
                let bias = TensorView::from_slice(&bias, &[1, 1, 1, 9]).unwrap();
                let used = [6i32];
                let used = TensorView::from_slice(&used, &[1]).unwrap();
                for attention in [
                    Attention::new().mask(mask),
                    Attention::new().bias(bias),
                    Attention::new().seqused_k(used),
                    Attention::new().causal().q_start(0),
                    Attention::new().window(2, 0).q_start(0),
                    Attention::new().mask(mask).softcap(2.0).dropout(0.3, 1, 2),
                ] {
                    let expected = attend(isa, &attention, &clean);
                    let (out, lse) = attend(isa, &attention, &poisoned);
                    close(&expected.0, &out, dtype);
                    close(&expected.1, &lse, dtype);
                    let expected = gradients(isa, &attention, &clean, ones(dtype, &q));
                    let found = gradients(isa, &attention, &poisoned, ones(dtype, &q));
                    for (expected, found) in expected.iter().zip(&found) {
                        close(expected, found, dtype);
                    }
                }
            }
        }
    });
}

/// Poisoned blocks are computed pair by pair, in another order and without rounding weights: close,
/// not equal.
fn close(expected: &[f64], found: &[f64], dtype: DType) {
    let bound = if dtype == DType::F32 { 1e-5 } else { 0.06 };
    for (a, b) in expected.iter().zip(found) {
        assert!(a == b || (a - b).abs() < bound, "{dtype}: {a} {b}");
    }
}

/// The other direction: a query that does not see a key cannot spoil its gradient.
#[test]
fn nan_in_a_query_or_its_gradient_reaches_only_what_it_sees() {
    everywhere(|isa, dtype| {
        let shape = [1, 40, 1, 12];
        for in_dout in [false, true] {
            let tensors = Tensors::dense(dtype, [&shape; 3], |n, i| {
                let spoiled = n == 0 && i[1] == 3 && !in_dout;
                if spoiled { f64::NAN } else { noise(n as u64, i) }
            });
            let dout = Strided::new(dtype, &shape, &Layout::default(), |i| {
                if in_dout && i[1] == 3 { f64::NAN } else { 1.0 }
            });
            let attention = Attention::new().causal();
            let (out, lse) = attend(isa, &attention, &tensors);
            for row in 0..40 {
                let nan = row == 3 && !in_dout;
                assert_eq!(lse[row].is_nan(), nan);
                assert!(out[row * 12..][..12].iter().all(|x| x.is_nan() == nan));
            }
            let [dq, dk, dv] = gradients(isa, &attention, &tensors, dout);
            for row in 0..40 {
                let of = |x: &[f64]| x[row * 12..][..12].iter().any(|x| x.is_nan());
                assert_eq!(of(&dq), row == 3, "dq {row}");
                assert_eq!(of(&dk), row <= 3, "dk {row}");
                assert_eq!(of(&dv), row <= 3, "dv {row}");
            }
        }
    });
}

/// Case 8: finite minimum values are ordinary numbers; −∞ is not.
#[test]
fn a_row_of_the_lowest_finite_bias_is_a_uniform_average() {
    everywhere(|isa, dtype| {
        let shape = [1, 3, 1, 4];
        let tensors =
            Tensors::dense(dtype, [&shape; 3], |n, i| if n == 2 { i[1] as f64 } else { 0.0 });
        let bias = [f32::MIN, f32::MIN, f32::MIN];
        let bias = TensorView::from_slice(&bias, &[1, 1, 1, 3]).unwrap();
        let (out, _) = attend(isa, &Attention::new().bias(bias), &tensors);
        assert!(out.iter().all(|x| (x - 1.0).abs() < 0.01), "{isa} {dtype} {out:?}");
        let bias = [f32::NEG_INFINITY; 3];
        let bias = TensorView::from_slice(&bias, &[1, 1, 1, 3]).unwrap();
        let (out, lse) = attend(isa, &Attention::new().bias(bias), &tensors);
        assert!(out.iter().all(|x| x.to_bits() == 0));
        assert!(lse.iter().all(|&x| x == f64::NEG_INFINITY));
    });
}

/// Case 9.
#[test]
fn a_head_that_is_masked_out_leaves_the_others_alone() {
    everywhere(|isa, dtype| {
        let shape = [1, 4, 2, 8];
        let tensors = Tensors::dense(dtype, [&shape; 3], |n, i| noise(n as u64, i));
        let mask = [false, true];
        let mask = TensorView::from_slice(&mask, &[1, 2, 1, 1]).unwrap();
        let (out, _) = attend(isa, &Attention::new().mask(mask), &tensors);
        let (plain, _) = attend(isa, &Attention::new(), &tensors);
        for (n, (x, plain)) in out.iter().zip(&plain).enumerate() {
            assert_eq!(*x, if n / 8 % 2 == 0 { 0.0 } else { *plain });
        }
    });
}

/// Case 12.
#[test]
fn queries_of_packed_sequences_without_keys_have_zero_gradients() {
    everywhere(|isa, dtype| {
        let case = Case {
            dtype,
            packed: true,
            causal: true,
            spread: 3.0,
            lengths: vec![(76, 1), (34, 1), (146, 1)],
            ..Case::dense(1, 1, 1, 1, 32)
        };
        check(&case, &Ask::default(), isa, 2).unwrap();
        let tensors = case.tensors();
        let dout = ones(dtype, &[256, 1, 32]);
        let [dq, ..] = gradients(isa, &case.attention(&tensors), &tensors, dout);
        assert!(dq[..75 * 32].iter().all(|&x| x == 0.0));
    });
}

/// Case 13: one key takes all weight, whatever its score.
#[test]
fn with_a_single_key_dq_and_dk_vanish_and_dv_is_dout() {
    everywhere(|isa, dtype| {
        let shape = [1, 1, 1, 16];
        let tensors = Tensors::dense(dtype, [&shape; 3], |n, i| 3.0 * noise(n as u64, i));
        let [dq, dk, dv] = gradients(isa, &Attention::new(), &tensors, ones(dtype, &shape));
        assert!(dq.iter().chain(&dk).all(|x| x.abs() < 1e-5), "{isa} {dtype} {dq:?}");
        assert_eq!(dv, [1.0; 16]);
    });
}

/// Case 15: there is no sentinel that a real score could be below.
#[test]
fn very_low_scores_are_scores() {
    everywhere(|isa, dtype| {
        let (q, k) = ([1, 1, 1, 1], [1, 2, 1, 1]);
        let tensors = Tensors::dense(dtype, [&q, &k, &k], |n, i| match n {
            0 => -20000.0,
            1 => [1.0, 0.0][i[1]],
            _ => [1.0, 5.0][i[1]],
        });
        let mask = [true, false];
        let mask = TensorView::from_slice(&mask, &[1, 1, 1, 2]).unwrap();
        let (out, lse) = attend(isa, &Attention::new().scale(1.0).mask(mask), &tensors);
        // 20000 in bf16 is 19968.
        assert_eq!(out, [1.0]);
        assert!((lse[0] + 20000.0).abs() < 50.0);
    });
}

/// Cases 16, 18 and 36: windows that leave tiles, rows and both ends empty.
#[test]
fn windows_that_miss_whole_tiles_equal_the_reference() {
    everywhere(|isa, dtype| {
        let ahead = Case { dtype, window: Some((0, 256)), ..Case::dense(1, 16, 20000, 1, 59) };
        let tensors = ahead.tensors();
        let (out, lse) = attend(isa, &ahead.attention(&tensors), &tensors);
        assert!(out.iter().chain(&lse).all(|x| x.is_finite()), "{isa} {dtype}");
        let late = Case { dtype, window: Some((3, 2)), ..Case::dense(1, 9, 1200, 1, 16) };
        check(&late, &Ask::default(), isa, 2).unwrap();
        let outside = Case { dtype, window: Some((1, 1)), ..Case::dense(1, 8, 3, 1, 16) };
        check(&outside, &Ask::default(), isa, 2).unwrap();
        let tensors = outside.tensors();
        let (out, lse) = attend(isa, &outside.attention(&tensors), &tensors);
        // p = i − 5: only rows 4 to 7 see keys 0 to 2.
        for row in 0..8 {
            assert_eq!(lse[row] == f64::NEG_INFINITY, row < 4);
            assert_eq!(out[row * 16..][..16].iter().all(|&x| x == 0.0), row < 4);
        }
    });
}

/// Cases 17, 20 and 119: padding and masks stay hidden behind softcap, and behind tile ends.
#[test]
fn softcap_and_ragged_ends_do_not_uncover_padding() {
    everywhere(|isa, dtype| {
        // The largest as reported, in f32.
        let largest = if dtype == DType::F32 { 704 } else { 257 };
        for (queries, keys) in [(65, 65), (largest, largest), (3, 257), (97, 129)] {
            let base = Case { dtype, softcap: 1.0, ..Case::dense(1, queries, keys, 1, 16) };
            for case in [base.clone(), Case { causal: true, ..base.clone() }] {
                check(&case, &Ask::default(), isa, 2).unwrap();
            }
        }
        // lse below −88.7: exp(0 − lse) of a padded key would overflow.
        let tensors = Tensors::dense(dtype, [&[1, 70, 1, 16]; 3], |n, i| match n {
            0 => -6.0,
            1 => 6.0 + 0.1 * noise(7, i),
            _ => noise(8, i),
        });
        judge(
            &common::run::engine(isa, 2),
            &Attention::new().scale(0.25),
            &tensors,
            &Ask::default(),
            3,
        )
        .unwrap();
    });
}

/// What flows into a row that sees nothing flows nowhere, whatever it is; a sink hears of lse only.
#[test]
fn the_gradient_of_an_empty_row_reaches_nothing() {
    everywhere(|isa, dtype| {
        let case = Case { dtype, causal: true, ..Case::dense(1, 6, 4, 2, 8) };
        for sinks in [false, true] {
            let case = Case { sinks, ..case.clone() };
            let tensors = case.tensors();
            let spoiled = Strided::new(dtype, &[1, 6, 2, 8], &Layout::default(), |i| {
                if i[1] < 2 { f64::NAN } else { 1.0 }
            });
            let attention = case.attention(&tensors);
            let grads = gradients(isa, &attention, &tensors, spoiled);
            let clean = gradients(isa, &attention, &tensors, ones(dtype, &[1, 6, 2, 8]));
            for (grad, clean) in grads.iter().zip(&clean) {
                close(clean, grad, dtype);
            }
            assert!(grads[0][..2 * 16].iter().all(|&x| x == 0.0));
        }
    });
}

/// A row that sees nothing but its sink has the sink's value as lse, whatever that is.
#[test]
fn an_empty_row_has_its_sink_as_lse() {
    everywhere(|isa, dtype| {
        let tensors = Tensors::dense(dtype, [&[1, 6, 3, 8]; 3], |n, i| noise(n as u64, i));
        let values = [f32::INFINITY, f32::NEG_INFINITY, -3.5];
        let sinks = TensorView::from_slice(&values, &[3]).unwrap();
        let hidden = [false];
        let mask = TensorView::from_slice(&hidden, &[1, 1, 1, 1]).unwrap();
        let attention = Attention::new().sinks(sinks).mask(mask);
        let (out, lse) = attend(isa, &attention, &tensors);
        assert!(out.iter().all(|x| x.to_bits() == 0));
        let expected = values.iter().flat_map(|&x| [f64::from(x); 6]);
        assert!(lse.iter().copied().eq(expected), "{isa} {dtype} {lse:?}");
    });
}
