//! Any options, shapes, layouts and lengths, drawn at random.

use jhalak_cases::case::any_case;
use jhalak_cuda::plan::Limits;
use jhalak_problem::DType;
use jhalak_ptx::Target;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::run::check;

fn any_case_on(target: Target, dtypes: &'static [DType], cases: u32) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let run = TestRunner::new(config).run(&any_case(dtypes, 150), |case| {
        check(&case, Limits::of(target)).map_err(TestCaseError::fail)
    });
    if let Err(error) = run {
        panic!("{error}");
    }
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
