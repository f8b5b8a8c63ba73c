//! Strides, head dimensions and groups of every kind, and numbers at the ends of their range. The
//! numbers are those of the reports on which other libraries failed.

mod common;

use common::case::{Case, Tensors};
use common::run::{Ask, attend, check, engine, gradients, judge};
use common::strided::{Layout, Strided, noise};
use jhalak_cpu::IsaKind;
use jhalak_problem::{Attention, DType};

const HALF_AND_SINGLE: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

fn everywhere(body: impl Fn(IsaKind, DType)) {
    for isa in IsaKind::available() {
        for dtype in HALF_AND_SINGLE {
            body(isa, dtype);
        }
    }
}

fn check_everywhere(case: Case, ask: &Ask) {
    everywhere(|isa, dtype| {
        let case = Case { dtype, ..case.clone() };
        check(&case, ask, isa, 2).unwrap_or_else(|e| panic!("{isa} {case:?}: {e}"));
    });
}

/// Cases 56 to 59, 61 and 63: each tensor has its own layout, misaligned, reversed, transposed.
#[test]
fn every_tensor_may_lie_differently() {
    let plain = Layout::default();
    let transposed = Layout { rotate: 1, ..plain.clone() };
    let heads_outside = Layout { rotate: 2, lead: 1, ..plain.clone() };
    let every_second = Layout { gap: 1, lead: 3, ..plain.clone() };
    let backwards = Layout { reversed: 0b1111, rotate: 3, ..plain.clone() };
    let kinds = [plain, transposed, heads_outside, every_second, backwards];
    let base = Case::dense(2, 33, 62, 2, 24);
    for n in 0..kinds.len() {
        let of = |k: usize| kinds[(n + k) % kinds.len()].clone();
        let case = Case { layouts: [of(0), of(1), of(2), of(3)], group: 2, ..base.clone() };
        let ask = Ask { layouts: [of(4), of(3), of(2), of(1)], ..Ask::default() };
        check_everywhere(case, &ask);
    }
    // Size-1 dimensions, whatever their stride.
    check_everywhere(
        Case {
            layouts: std::array::from_fn(|_| Layout { rotate: 2, gap: 1, ..Layout::default() }),
            ..Case::dense(1, 1, 2, 1, 8)
        },
        &Ask::default(),
    );
}

/// Cases 59 and 60: stride 0 in inputs: expanded heads, batches, and a dout that came from a sum.
#[test]
fn expanded_inputs_equal_their_copies() {
    let expanded = Layout { broadcast: 0b0101, ..Layout::default() };
    let layouts = [Layout::default(), expanded.clone(), expanded.clone(), Layout::default()];
    let case = Case { layouts, mask: Some([true; 4]), ..Case::dense(2, 5, 33, 3, 70) };
    check_everywhere(case.clone(), &Ask::default());
    let from_sum = Layout { broadcast: 0b1111, ..Layout::default() };
    let layouts = [from_sum, Layout::default(), Layout::default(), Layout::default()];
    check_everywhere(Case { group: 4, ..case }, &Ask { layouts, ..Ask::default() });
}

/// Cases 64 and 113: a bias of any broadcast pattern and row length.
#[test]
fn bias_gradients_sum_over_every_broadcast_pattern() {
    for pattern in 0..16u8 {
        let full = std::array::from_fn(|d| pattern >> d & 1 == 1);
        for (f32_bias, group) in [(true, 1), (false, 3)] {
            let case = Case {
                bias: Some((full, f32_bias)),
                group,
                causal: pattern & 4 == 0,
                ..Case::dense(2, 19, 43, 2, 8)
            };
            check_everywhere(case, &Ask::default());
        }
    }
}

/// Case 106.
#[test]
fn every_head_dimension_is_right() {
    for head_dim in [1, 7, 8, 15, 40, 63, 72, 80, 96, 111, 120, 136, 192, 256, 257] {
        let case = Case { causal: true, ..Case::dense(1, 21, 37, 1, head_dim) };
        check_everywhere(case, &Ask::default());
    }
}

/// Case 107.
#[test]
fn values_may_have_another_head_dimension() {
    for (head_dim, head_dim_v) in [(192, 128), (576, 512), (64, 80), (3, 1), (1, 300)] {
        let case = Case { head_dim_v, ..Case::dense(1, 9, 21, 2, head_dim) };
        check_everywhere(case, &Ask::default());
    }
}

/// Case 108.
#[test]
fn groups_need_not_be_powers_of_two() {
    for group in [3, 5, 7, 71, 130] {
        let case = Case { group, causal: true, sinks: true, ..Case::dense(1, 5, 9, 2, 16) };
        check_everywhere(case, &Ask::default());
    }
}

/// Cases 115, 121, 123 and 125: options whose backward others got wrong.
#[test]
fn alibi_softcap_sinks_and_dropout_equal_the_reference() {
    let base = Case { causal: true, ..Case::dense(2, 12, 40, 2, 32) };
    check_everywhere(Case { alibi: Some(true), ..base.clone() }, &Ask::default());
    check_everywhere(Case { alibi: Some(false), causal: false, ..base.clone() }, &Ask::default());
    check_everywhere(Case { softcap: 30.0, spread: 20.0, ..base.clone() }, &Ask::default());
    let sinks =
        Case { sinks: true, window: Some((128, 0)), lengths: vec![(200, 150); 2], ..base.clone() };
    check_everywhere(sinks, &Ask::default());
    for p in [0.1, 0.9, 1.0] {
        check_everywhere(Case { dropout: Some(p), ..base.clone() }, &Ask::default());
    }
}

/// Cases 127 and 128.
#[test]
fn dropout_of_zero_is_none_and_of_one_is_zero() {
    everywhere(|isa, dtype| {
        let case = Case { dtype, ..Case::dense(1, 5, 9, 2, 8) };
        let tensors = case.tensors();
        let plain = attend(isa, &Attention::new(), &tensors);
        assert_eq!(plain, attend(isa, &Attention::new().dropout(0.0, 3, 4), &tensors));
        let (out, lse) = attend(isa, &Attention::new().dropout(1.0, 3, 4), &tensors);
        assert!(out.iter().all(|&x| x == 0.0));
        assert_eq!(lse, plain.1);
        let dout = Strided::new(dtype, &[1, 5, 2, 8], &Layout::default(), |_| 1.0);
        let grads = gradients(isa, &Attention::new().dropout(1.0, 3, 4), &tensors, dout);
        assert!(grads.iter().flatten().all(|&x| x == 0.0));
    });
}

/// Cases 89, 90 and 91: large inputs stay finite.
#[test]
fn large_numbers_stay_finite() {
    for isa in IsaKind::available() {
        let large = Tensors::dense(DType::BF16, [&[1, 1, 1, 64]; 3], |_, _| 133_120.0);
        let (out, lse) = attend(isa, &Attention::new(), &large);
        assert!(out.iter().all(|&x| x == 133_120.0) && lse[0].is_finite(), "{isa}");

        let shape = [1, 300, 1, 128];
        let half = Tensors::dense(DType::F16, [&shape; 3], |n, i| {
            if n == 2 { noise(2, i) } else { 250.0 * noise(n as u64, i).signum() }
        });
        let (out, lse) = attend(isa, &Attention::new(), &half);
        assert!(out.iter().chain(&lse).all(|x| x.is_finite()));

        // Scores around 2^40, and at the end of f32's range.
        for size in [1e6, 1e19] {
            let q = [1, 3, 1, 1];
            let huge =
                Tensors::dense(DType::F32, [&q, &[1, 4, 1, 1], &[1, 4, 1, 1]], |n, i| match n {
                    0 => size,
                    1 => size * [1.0, -1.0, 0.5, 0.25][i[1]] * 3.0,
                    _ => i[1] as f64,
                });
            let (out, lse) = attend(isa, &Attention::new().scale(1.0), &huge);
            assert!(out.iter().all(|&x| x == 0.0), "{isa} {out:?}");
            assert!(lse.iter().all(|x| x.is_finite()), "{isa} {lse:?}");
        }
    }
}

/// Cases 93 and 94.
#[test]
fn infinite_scores_and_nan_stay_in_their_row() {
    everywhere(|isa, dtype| {
        for spoiler in [f64::NAN, f64::INFINITY] {
            let tensors = Tensors::dense(dtype, [&[1, 40, 1, 8]; 3], |n, i| match n {
                0 if i[1] == 3 && i[3] == 0 => spoiler,
                1 if i[3] == 0 => 1.0,
                _ => noise(n as u64, i),
            });
            let (out, lse) = attend(isa, &Attention::new(), &tensors);
            for row in 0..40 {
                assert_eq!(lse[row].is_nan(), row == 3, "{isa} {dtype} {row}");
                assert!(out[row * 8..][..8].iter().all(|x| x.is_nan() == (row == 3)));
            }
        }
    });
}

/// Case 95.
#[test]
fn any_finite_scale_is_right() {
    for scale in [0.0, -0.3, 1e-30, 1e-44, -1e-20, 3.0] {
        check_everywhere(
            Case { scale: Some(scale), causal: true, ..Case::dense(1, 9, 20, 2, 16) },
            &Ask::default(),
        );
    }
    for isa in IsaKind::available() {
        let tensors = Case::dense(1, 3, 8, 1, 4).tensors();
        let (out, _) = attend(isa, &Attention::new().scale(0.0), &tensors);
        let v = tensors.v.values();
        for c in 0..4 {
            let mean: f64 = (0..8).map(|j| v[j * 4 + c]).sum::<f64>() / 8.0;
            assert!((out[c] - mean).abs() < 1e-6);
        }
    }
}

/// Case 130.
#[test]
fn ones_average_to_one() {
    everywhere(|isa, dtype| {
        let shape = [1, 700, 1, 20];
        let tensors =
            Tensors::dense(
                dtype,
                [&shape; 3],
                |n, i| if n == 2 { 1.0 } else { noise(n as u64, i) },
            );
        let (out, _) = attend(isa, &Attention::new().causal(), &tensors);
        let bound = if dtype == DType::F32 { 1e-6 } else { 0.004 };
        assert!(out.iter().all(|x| (x - 1.0).abs() <= bound), "{isa} {dtype}");
    });
}

/// Case 135: lengths past 2^15 and 2^16.
#[test]
fn lengths_past_sixteen_bits_are_right() {
    for keys in [32_769, 65_537] {
        for isa in IsaKind::available() {
            let shape = [1, keys, 1, 1];
            let zeros = Tensors::dense(DType::F16, [&[1, 2, 1, 1], &shape, &shape], |_, _| 0.0);
            let (out, lse) = attend(isa, &Attention::new(), &zeros);
            assert_eq!(out, [0.0; 2]);
            assert!((lse[0] - (keys as f64).ln()).abs() < 1e-3);
            let case = Case::dense(1, 2, keys, 1, 2);
            check(&case, &Ask::default(), isa, 2).unwrap();
        }
    }
}

/// Case 139: subnormal inputs are numbers.
#[test]
fn subnormal_inputs_give_subnormal_results() {
    for isa in IsaKind::available() {
        for dtype in [DType::F32, DType::BF16] {
            let tensors =
                Tensors::dense(dtype, [&[1, 9, 1, 16]; 3], |n, i| 1e-40 * noise(n as u64, i));
            judge(
                &engine(isa, 1),
                &Attention::new(),
                &tensors,
                &Ask { dlse: false, ..Ask::default() },
                1,
            )
            .unwrap_or_else(|e| panic!("{isa} {dtype}: {e}"));
        }
    }
}

/// f32 against f64 on unit-normal inputs, 4,096 positions: 1e-6 relative (a sample of the rows).
#[test]
fn f32_is_right_to_one_millionth() {
    for isa in IsaKind::available() {
        let (q, k) = ([1, 64, 1, 128], [1, 4096, 1, 128]);
        let tensors = Tensors::dense(DType::F32, [&q, &k, &k], |n, i| noise(n as u64, i));
        let (out, _) = attend(isa, &Attention::new(), &tensors);
        let problem = jhalak_problem::Problem::new(
            &Attention::new(),
            tensors.q.view(),
            tensors.k.view(),
            tensors.v.view(),
        )
        .unwrap();
        let truth = jhalak_problem::reference::forward(&problem).unwrap();
        let error = jhalak_problem::reference::judge::relative_error(&truth.out, &out);
        println!("{isa}: {error:.2e}");
        assert!(error <= 1e-6, "{isa}: {error}");
    }
}
