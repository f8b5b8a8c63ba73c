//! What other libraries fail on: hidden NaN, rows that see nothing, extreme scores, wrong lists.

use jhalak_cases::case::Case;
use jhalak_cases::strided::Strided;
use jhalak_cuda::plan::Limits;
use jhalak_problem::DType;
use jhalak_ptx::Target;

use crate::run::{check, forward, judged};

const TARGETS: [Target; 3] = [Target::Sm75, Target::Sm80, Target::Sm90a];

/// Contiguous f16 attention of 70 queries and 150 keys.
fn case() -> Case {
    Case { dtype: DType::F16, ..Case::dense(2, 70, 150, 2, 64) }
}

/// Runs a case with keys and values from this one on replaced by the worst there is.
fn with_spoiled_keys(case: &Case, from: usize) {
    let spoil = |tensor: Strided| {
        tensor.replaced(|index, value| {
            if index[1] < from { value } else { [f64::NAN, f64::INFINITY][index[3] % 2] }
        })
    };
    for target in TARGETS {
        let mut tensors = case.tensors();
        (tensors.k, tensors.v) = (spoil(tensors.k), spoil(tensors.v));
        judged(case, &tensors, Limits::of(target)).unwrap();
    }
}

#[test]
fn keys_that_nobody_sees_may_hold_anything() {
    let unused = Case { unused: Some((0, 20)), ..case() };
    with_spoiled_keys(&unused, 130);
    let causal = Case { causal: true, starts: Some((0, 0)), ..case() };
    with_spoiled_keys(&causal, 70);
}

#[test]
fn a_nan_key_spoils_the_rows_that_see_it_and_no_others() {
    with_spoiled_keys(&Case { causal: true, ..case() }, 110);
}

#[test]
fn rows_that_see_nothing_are_zero_with_lse_minus_infinity() {
    for target in TARGETS {
        let above = Case { causal: true, starts: Some((-100, 0)), ..case() };
        let tensors = above.tensors();
        let attended = forward(&above, &tensors, Limits::of(target)).unwrap();
        assert!(attended.out.values().iter().all(|x| x.to_bits() == 0));
        assert!(attended.lse.values().iter().all(|&x| x == f64::NEG_INFINITY));
        let sinks = Case { sinks: true, ..above };
        check(&sinks, Limits::of(target)).unwrap();
    }
}

#[test]
fn extreme_scores_and_windows_are_exact() {
    for target in TARGETS {
        let limits = Limits::of(target);
        for scale in [0.0, -0.7, 1e-40, 30.0] {
            check(&Case { scale: Some(scale), ..case() }, limits).unwrap();
        }
        let widest = i64::from(i32::MAX);
        for window in [(widest, 0), (0, widest), (i64::MAX, i64::MAX), (0, 0)] {
            check(&Case { window: Some(window), ..case() }, limits).unwrap();
        }
        for starts in [(1 << 40, 0), (0, 1 << 40), (1 << 40, (1 << 40) - 100)] {
            let case = Case { causal: true, starts: Some(starts), dropout: Some(0.3), ..case() };
            check(&case, limits).unwrap();
        }
    }
}

#[test]
fn a_row_of_the_least_number_is_a_uniform_average() {
    for target in TARGETS {
        let case = Case { bias: Some(([false, false, true, true], true)), ..case() };
        let mut tensors = case.tensors();
        tensors.bias = tensors.bias.map(|bias| {
            bias.replaced(|index, x| if index[2] % 3 == 0 { f64::from(f32::MIN) } else { x })
        });
        judged(&case, &tensors, Limits::of(target)).unwrap();
    }
}

#[test]
fn wrong_lists_on_the_device_lead_nowhere_outside() {
    let lengths = vec![(20, 30), (40, 10), (10, 60)];
    let case = Case {
        dtype: DType::F16,
        lengths,
        packed: true,
        causal: true,
        unused: Some((3, 3)),
        ..Case::default()
    };
    for target in TARGETS {
        for list in
            [[0, 1000, 2000, i32::MAX], [-5, -1, i32::MIN, 9], [70, 60, 50, 0], [i32::MAX; 4]]
        {
            let mut tensors = case.tensors();
            (tensors.cu_q, tensors.cu_k) = (list.to_vec(), list.iter().rev().copied().collect());
            (tensors.used_q, tensors.used_k) = (vec![-1, i64::MAX, 7], vec![1 << 31, -9, 1000]);
            // These lists share no row of q. The emulator reports whatever is read or written outside a tensor.
            if let Err(report) = forward(&case, &tensors, Limits::of(target)) {
                panic!("{list:?}: {report}");
            }
        }
    }
}
