//! Any options, shapes, layouts and lengths, drawn at random; the same ones every time, so that
//! their kernels are compiled once.

use jhalak_cases::case::{Case, any_case};
use jhalak_cases::gradients::Ask;
use jhalak_cases::strided::Layout;
use jhalak_problem::DType;
use jhalak_ptx::Target;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use crate::run::check;

const DTYPES: &[DType] = &[DType::F16, DType::BF16, DType::F32];

fn run(target: Target, cases: &impl Strategy<Value = Case>, count: usize) {
    let mut runner = TestRunner::deterministic();
    for _ in 0..count {
        let case = cases.new_tree(&mut runner).unwrap().current();
        if let Err(error) = check(&case, &Ask::default(), target) {
            panic!("{error}\n{case:?}");
        }
    }
}

/// Rows that can be copied 16 bytes at once.
fn contiguous(case: Case) -> Case {
    let [head_dim, head_dim_v] = [case.head_dim, case.head_dim_v].map(|d| d.next_multiple_of(8));
    let layouts = std::array::from_fn(|_| Layout::default());
    Case { head_dim, head_dim_v, layouts, ..case }
}

/// Few head dimensions, so that few kernels are compiled.
fn usual(case: Case) -> Case {
    let dim = match case.head_dim {
        0..40 => 32,
        40..65 => 64,
        65..101 => 96,
        _ => 128,
    };
    contiguous(Case { head_dim: dim, head_dim_v: dim, ..case })
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn any_case_on_ampere_is_right() {
    run(Target::Sm80, &any_case(DTYPES, 300), 40);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn any_contiguous_case_on_ampere_is_right() {
    run(Target::Sm80, &any_case(DTYPES, 300).prop_map(contiguous), 30);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn long_cases_of_usual_head_dimensions_are_right() {
    run(Target::Sm80, &any_case(&[DType::F16, DType::BF16], 1200).prop_map(usual), 30);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn any_case_on_turing_is_right() {
    run(Target::Sm75, &any_case(&[DType::F16, DType::F32], 300), 30);
    run(Target::Sm75, &any_case(&[DType::F16], 300).prop_map(contiguous), 30);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn any_deterministic_case_is_right() {
    let deterministic = |case: Case| {
        let bias = case.bias.map(|(_, f32)| ([true; 4], f32));
        Case { deterministic: true, bias, ..case }
    };
    run(Target::Sm80, &any_case(DTYPES, 400).prop_map(deterministic), 30);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn any_case_on_hopper_is_right() {
    run(Target::Sm90a, &any_case(&[DType::F16, DType::BF16], 600).prop_map(contiguous), 40);
    run(Target::Sm90a, &any_case(&[DType::F16, DType::BF16], 1200).prop_map(plain), 40);
}

/// What the kernels for Hopper cover.
fn plain(case: Case) -> Case {
    let (bias, mask, dropout) = (None, None, None);
    usual(Case { bias, mask, dropout, ..case })
}
