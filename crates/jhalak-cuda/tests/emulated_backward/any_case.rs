//! Any options, shapes, layouts and lengths, drawn at random, the same ones every time.

use jhalak_cases::case::{Case, any_case};
use jhalak_cases::gradients::Ask;
use jhalak_cases::strided::Layout;
use jhalak_cuda::plan::Limits;
use jhalak_problem::DType;
use jhalak_ptx::Target;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::run::check;

fn run(
    target: Target,
    cases: impl Strategy<Value = Case>,
    asks: impl Strategy<Value = Ask>,
    count: u32,
) {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let config = Config { cases: count, failure_persistence: None, ..Config::default() };
    let run = TestRunner::new_with_rng(config, rng).run(&(cases, asks), |(case, ask)| {
        check(&case, &ask, Limits::of(target)).map_err(TestCaseError::fail)
    });
    if let Err(error) = run {
        panic!("{error}");
    }
}

/// Any gradients, written or added, in any layout.
fn any_ask() -> impl Strategy<Value = Ask> {
    let layout = || {
        (0..4usize, 0..16u8, 0..2usize, 0..4usize).prop_map(|(rotate, reversed, gap, lead)| {
            Layout { rotate, reversed, broadcast: 0, gap, lead }
        })
    };
    let wanted = prop_oneof![2 => Just([true; 5]), 1 => any::<[bool; 5]>()];
    let layouts = [layout(), layout(), layout(), layout()];
    (wanted, any::<bool>(), any::<bool>(), layouts).prop_map(|(wanted, add, dlse, layouts)| Ask {
        wanted,
        add,
        dlse,
        layouts,
        ..Ask::default()
    })
}

/// Rows that can be copied 16 bytes at once.
fn contiguous(case: Case) -> Case {
    let [head_dim, head_dim_v] = [case.head_dim, case.head_dim_v].map(|d| d.next_multiple_of(8));
    let layouts = std::array::from_fn(|_| Layout::default());
    Case { head_dim, head_dim_v, layouts, ..case }
}

fn contiguous_ask(ask: Ask) -> Ask {
    Ask { layouts: std::array::from_fn(|_| Layout::default()), ..ask }
}

#[test]
fn any_16_bit_case_on_ampere_is_right() {
    let cases = any_case(&[DType::F16, DType::BF16], 150);
    run(Target::Sm80, cases, any_ask(), 60);
}

#[test]
fn any_f32_case_on_ampere_is_right() {
    run(Target::Sm80, any_case(&[DType::F32], 150), any_ask(), 60);
}

#[test]
fn any_case_on_turing_is_right() {
    run(Target::Sm75, any_case(&[DType::F16, DType::F32], 150), any_ask(), 60);
}

#[test]
fn any_contiguous_case_on_ampere_is_right() {
    let cases = any_case(&[DType::F16, DType::BF16, DType::F32], 150).prop_map(contiguous);
    run(Target::Sm80, cases, any_ask().prop_map(contiguous_ask), 60);
}

#[test]
fn any_contiguous_case_on_turing_is_right() {
    let cases = any_case(&[DType::F16], 150).prop_map(contiguous);
    run(Target::Sm75, cases, any_ask().prop_map(contiguous_ask), 60);
}
