//! Keys that are split into parts, whose results are merged.

use jhalak_cases::case::{Case, any_case};
use jhalak_cuda::plan::Limits;
use jhalak_problem::DType;
use jhalak_ptx::Target;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use crate::run::check_parts;

fn any_case_in_parts(target: Target, dtypes: &'static [DType], count: u32) {
    let cases = any_case(dtypes, 300);
    let mut runner = TestRunner::deterministic();
    for n in 0..count {
        let case = cases.new_tree(&mut runner).unwrap().current();
        if let Err(error) = check_parts(&case, Limits::of(target), 2 + n % 4) {
            panic!("{error}\n{case:?}");
        }
    }
}

#[test]
fn any_case_in_parts_on_ampere_is_right() {
    any_case_in_parts(Target::Sm80, &[DType::F16, DType::BF16, DType::F32], 120);
}

#[test]
fn any_case_in_parts_on_turing_is_right() {
    any_case_in_parts(Target::Sm75, &[DType::F16, DType::F32], 60);
}

#[test]
fn one_query_of_each_head_of_a_group_sees_a_long_context() {
    for (parts, queries) in [(2, 1), (7, 3), (40, 1)] {
        for dtype in [DType::F16, DType::F32] {
            let case = Case {
                dtype,
                causal: true,
                group: 4,
                sinks: true,
                ..Case::dense(2, queries, 1200, 2, 64)
            };
            check_parts(&case, Limits::of(Target::Sm80), parts).unwrap();
        }
    }
}
