//! Failures of other libraries that took a certain size or magnitude, at that size.

mod common;

use common::case::{Case, Tensors};
use common::every::everywhere;
use common::run;
use common::run::{Ask, attend, check, engine, forward, gradients};
use common::strided::{Layout, Strided, noise};
use jhalak_cpu::IsaKind;
use jhalak_problem::reference::{self, judge};
use jhalak_problem::{Attention, DType, Problem, TensorView};

/// Case 16.
#[test]
fn a_short_query_with_a_window_far_into_long_keys() {
    for isa in IsaKind::available() {
        for dtype in [DType::F32, DType::F16] {
            for window in [(0, 256), (2_000, 3)] {
                let case =
                    Case { dtype, window: Some(window), ..Case::dense(1, 16, 20_000, 1, 59) };
                check(&case, &Ask::default(), isa, 2)
                    .unwrap_or_else(|e| panic!("{isa} {dtype} {window:?}: {e}"));
            }
        }
    }
}

/// Case 20: a last tile that is half padding, a mask, and an lse below ln of the smallest f32, so
/// that exp(0 − lse) of a padded key is ∞.
#[test]
fn half_a_tile_of_padding_with_a_mask_and_a_very_low_lse() {
    for isa in IsaKind::available() {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let shape = [1, 192, 1, 64];
            let mut tensors = Tensors::dense(dtype, [&shape; 3], |n, i| match n {
                0 => -4.0,
                1 => 4.0 + 0.25 * noise(7, i),
                _ => noise(8, i),
            });
            tensors.mask =
                Some(Strided::new(DType::Bool, &[1, 1, 192, 192], &Layout::default(), |i| {
                    f64::from(noise(3, i) < 0.7)
                }));
            let mask = tensors.mask.as_ref().unwrap().view();
            for attention in [Attention::new(), Attention::new().mask(mask)] {
                let (_, lse) = attend(isa, &attention, &tensors);
                assert!(lse.iter().all(|&x| x < -100.0));
                run::judge(&engine(isa, 2), &attention, &tensors, &Ask::default(), 3)
                    .unwrap_or_else(|e| panic!("{isa} {dtype}: {e}"));
            }
        }
    }
}

/// Case 15: scores of −2.45e5 next to a hidden key.
#[test]
fn the_only_visible_key_takes_all_weight_at_any_score() {
    everywhere(|isa, dtype| {
        let (q, k) = ([1, 2, 1, 128], [1, 130, 1, 128]);
        let tensors = Tensors::dense(dtype, [&q, &k, &k], |n, i| match n {
            0 => -147.0,
            1 => 147.0,
            _ => i[1] as f64,
        });
        for seen in [0, 64, 129] {
            let mask: Vec<bool> = (0..130).map(|j| j == seen).collect();
            let mask = TensorView::from_slice(&mask, &[1, 1, 1, 130]).unwrap();
            let attention = Attention::new().mask(mask);
            let (out, lse) = attend(isa, &attention, &tensors);
            assert!(lse.iter().all(|&x| x < -2.4e5 && x.is_finite()), "{isa} {dtype} {lse:?}");
            assert!(out.iter().all(|&x| x == seen as f64), "{isa} {dtype} {}", out[0]);
            let upstream = Strided::new(dtype, &q, &Layout::default(), |_| 1.0);
            let [dq, dk, dv] = gradients(isa, &attention, &tensors, upstream);
            for (n, &x) in dv.iter().enumerate() {
                let expected = if n / 128 == seen { 2.0 } else { 0.0 };
                assert!((x - expected).abs() < 0.05, "{isa} {dtype} dv {x}");
            }
            assert!(dq.iter().chain(&dk).all(|x| x.is_finite()));
        }
    });
}

/// Case 90. At ±250 scores reach 2·10^5: lse is right to its last place, which is more than the
/// 1e-3 of smaller numbers, and what rounds it away the backward pass cannot know.
#[test]
fn large_half_precision_queries_and_keys_meet_the_reference() {
    for isa in IsaKind::available() {
        for dtype in [DType::F16, DType::BF16] {
            let (q, k) = ([1, 12, 1, 128], [1, 2925, 1, 128]);
            let tensors = |size: f64| {
                Tensors::dense(dtype, [&q, &k, &k], |n, i| {
                    if n == 2 { noise(2, i) } else { size * noise(n as u64, i).signum() }
                })
            };
            run::judge(&engine(isa, 2), &Attention::new(), &tensors(30.0), &Ask::default(), 1)
                .unwrap_or_else(|e| panic!("{isa} {dtype}: {e}"));

            let (tensors, attention) = (tensors(250.0), Attention::new());
            let (out, lse) = attend(isa, &attention, &tensors);
            let (q, k, v) = (tensors.q.view(), tensors.k.view(), tensors.v.view());
            let problem = Problem::new(&attention, q, k, v).unwrap();
            let exact = reference::forward(&problem).unwrap();
            let yard = reference::in_dtype::forward(&problem).unwrap();
            judge::out_close(dtype, &exact.lse, &exact.out, &yard.out, &out)
                .unwrap_or_else(|e| panic!("{isa} {dtype}: {e}"));
            for (truth, lse) in exact.lse.iter().zip(&lse) {
                assert!((truth - lse).abs() <= judge::ulp(DType::F32, *truth), "{isa} {dtype}");
            }
            let dout = Strided::new(dtype, &problem.out_shape(), &Layout::default(), |_| 1.0);
            let grads = gradients(isa, &attention, &tensors, dout);
            assert!(grads.iter().flatten().all(|x| x.is_finite()), "{isa} {dtype}");
        }
    }
}

/// Case 91: scores beyond 2^30, and backward.
#[test]
fn scores_of_any_finite_size_give_finite_gradients() {
    for isa in IsaKind::available() {
        for size in [1e3, 1e6, 1e9, 1e18] {
            let (q, k) = ([1, 3, 1, 4], [1, 70, 1, 4]);
            let tensors = Tensors::dense(DType::F32, [&q, &k, &k], |n, i| match n {
                0 | 1 => size * noise(n as u64, i),
                _ => noise(2, i),
            });
            for attention in [Attention::new(), Attention::new().causal().softcap(30.0)] {
                let (out, lse) = attend(isa, &attention, &tensors);
                assert!(out.iter().chain(&lse).all(|x| x.is_finite()), "{isa} {size}");
                assert!(out.iter().all(|x| x.abs() < 4.0));
                let upstream = Strided::new(DType::F32, &q, &Layout::default(), |_| 1.0);
                let grads = gradients(isa, &attention, &tensors, upstream);
                assert!(grads.iter().flatten().all(|x| x.is_finite()), "{isa} {size}");
            }
        }
    }
}

/// Case 121: cap 30 on scores of ±200, causal.
#[test]
fn gradients_through_a_saturated_softcap_equal_the_reference() {
    everywhere(|isa, dtype| {
        for (cap, spread) in [(30.0, 200.0), (30.0, 30.0), (1.0, 5.0), (1e4, 1.0)] {
            let case = Case {
                dtype,
                softcap: cap,
                spread,
                scale: Some(0.25),
                causal: true,
                ..Case::dense(1, 60, 60, 2, 16)
            };
            check(&case, &Ask::default(), isa, 2)
                .unwrap_or_else(|e| panic!("{isa} {dtype} {cap} {spread}: {e}"));
        }
    });
}

/// Case 111, at the reported size: one row beside 9 others and beside 10, 14 heads on 2.
#[test]
fn a_row_keeps_its_bits_when_its_neighbour_grows() {
    let isa = IsaKind::selected().unwrap();
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let run = |second: usize| {
            let case = Case {
                dtype,
                packed: true,
                causal: true,
                group: 7,
                lengths: vec![(1, 19_802), (second, 40)],
                ..Case::dense(1, 1, 1, 2, 64)
            };
            let tensors = case.tensors();
            let attention = case.attention(&tensors);
            let (q, k, v) = (tensors.q.view(), tensors.k.view(), tensors.v.view());
            let problem = Problem::new(&attention, q, k, v).unwrap();
            let attended = forward(&engine(isa, 2), &problem, &Layout::default());
            let dout = Strided::new(dtype, &problem.out_shape(), &Layout::default(), |_| 0.5);
            let [dq, dk, dv] = gradients(isa, &attention, &tensors, dout);
            let row = 14 * 64;
            let keys = 19_802 * 2 * 64;
            let mut all = attended.out.values()[..row].to_vec();
            all.extend(&dq[..row]);
            all.extend(&dk[..keys]);
            all.extend(&dv[..keys]);
            all
        };
        assert!(run(9) == run(10), "{dtype}");
    }
}

/// Cases 27, 43, 44 and 106 to 108 in f64; the other dtypes have them elsewhere.
#[test]
fn head_sizes_groups_and_packed_lengths_are_right_in_f64() {
    let f64_case = |case: Case| {
        let case = Case { dtype: DType::F64, ..case };
        check(&case, &Ask::default(), IsaKind::Scalar, 2)
            .unwrap_or_else(|e| panic!("{case:?}: {e}"));
    };
    for head_dim in [1, 7, 8, 15, 40, 63, 72, 80, 96, 111, 120, 136, 192, 256, 257] {
        f64_case(Case { causal: true, ..Case::dense(1, 21, 37, 1, head_dim) });
    }
    for (head_dim, head_dim_v) in [(192, 128), (576, 512), (64, 80)] {
        f64_case(Case { head_dim_v, ..Case::dense(1, 9, 21, 2, head_dim) });
    }
    for group in [3, 5, 7, 71] {
        f64_case(Case { group, causal: true, sinks: true, ..Case::dense(1, 5, 9, 2, 16) });
    }
    for (lengths, heads_k, group, head_dim) in [
        (vec![(3, 7); 2], 16, 1, 192),
        (vec![(0, 0), (1, 3), (0, 0), (1, 5)], 3, 3, 64),
        (vec![(0, 0), (0, 2), (0, 1), (1, 4)], 7, 3, 120),
    ] {
        let case = Case { packed: true, causal: true, group, lengths, ..Case::default() };
        f64_case(Case { heads_k, head_dim, head_dim_v: head_dim, ..case });
    }
}
