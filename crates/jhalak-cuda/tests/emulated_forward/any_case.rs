//! Any options, shapes, layouts and lengths, drawn at random, the same ones every time.

use jhalak_cases::case::{Case, any_case};
use jhalak_cases::strided::Layout;
use jhalak_cuda::plan::Limits;
use jhalak_problem::DType;
use jhalak_ptx::Target;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::run::check;

fn any_case_on(target: Target, dtypes: &'static [DType], cases: u32) {
    run(target, any_case(dtypes, 150), cases);
}

fn run(target: Target, cases: impl Strategy<Value = Case>, count: u32) {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let config = Config { cases: count, failure_persistence: None, ..Config::default() };
    let run = TestRunner::new_with_rng(config, rng)
        .run(&cases, |case| check(&case, Limits::of(target)).map_err(TestCaseError::fail));
    if let Err(error) = run {
        panic!("{error}");
    }
}

/// Rows that can be copied 16 bytes at once.
fn contiguous(case: Case) -> Case {
    let [head_dim, head_dim_v] = [case.head_dim, case.head_dim_v].map(|d| d.next_multiple_of(8));
    let layouts = std::array::from_fn(|_| Layout::default());
    Case { head_dim, head_dim_v, layouts, ..case }
}

#[test]
fn any_16_bit_case_on_ampere_is_right() {
    any_case_on(Target::Sm80, &[DType::F16, DType::BF16], 150);
}

#[test]
fn any_f32_case_on_ampere_is_right() {
    any_case_on(Target::Sm80, &[DType::F32], 75);
}

#[test]
fn any_case_on_turing_is_right() {
    any_case_on(Target::Sm75, &[DType::F16, DType::F32], 100);
}

#[test]
fn any_contiguous_case_on_ampere_is_right() {
    let cases = any_case(&[DType::F16, DType::BF16, DType::F32], 150).prop_map(contiguous);
    run(Target::Sm80, cases, 150);
}

#[test]
fn any_contiguous_case_on_turing_is_right() {
    run(Target::Sm75, any_case(&[DType::F16], 150).prop_map(contiguous), 75);
}
