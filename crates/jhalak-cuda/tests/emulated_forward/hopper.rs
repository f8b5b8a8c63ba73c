//! The kernels for Hopper: each tile, ragged lengths, every option they cover.

use jhalak_cases::case::{Case, any_case};
use jhalak_cases::strided::Layout;
use jhalak_cuda::plan::{Limits, Path};
use jhalak_problem::DType;
use jhalak_ptx::Target;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use crate::run::{check, path};

/// So few blocks that each has several tiles.
fn limits() -> Limits {
    Limits { multiprocessors: 2, ..Limits::of(Target::Sm90a) }
}

fn right(case: &Case) {
    assert_eq!(path(case, limits()), Path::Hopper, "{case:?}");
    check(case, limits()).unwrap_or_else(|error| panic!("{error}\n{case:?}"));
}

fn dense(dtype: DType, sizes: [usize; 3], causal: bool) -> Case {
    let [queries, keys, dim] = sizes;
    Case { dtype, causal, ..Case::dense(1, queries, keys, 1, dim) }
}

#[test]
fn half_precision_of_the_usual_head_dimensions() {
    for dtype in [DType::F16, DType::BF16] {
        for dim in [64, 128] {
            right(&dense(dtype, [192, 256, dim], false));
            right(&dense(dtype, [256, 256, dim], true));
        }
    }
}

#[test]
fn ragged_lengths() {
    for dim in [64, 128] {
        right(&dense(DType::BF16, [200, 300, dim], false));
        right(&dense(DType::BF16, [77, 13, dim], false));
        right(&dense(DType::BF16, [130, 513, dim], true));
        // The first rows see nothing.
        right(&dense(DType::F16, [300, 140, dim], true));
    }
}

#[test]
fn groups_of_heads_in_several_sequences() {
    let case = Case { group: 3, ..Case::dense(2, 150, 170, 2, 128) };
    right(&Case { dtype: DType::BF16, causal: true, ..case.clone() });
    right(&Case { dtype: DType::F16, ..case });
}

#[test]
fn scores_that_rise_from_block_to_block() {
    for dtype in [DType::F16, DType::BF16] {
        for causal in [false, true] {
            right(&Case { spread: 30.0, ..dense(dtype, [130, 600, 128], causal) });
        }
    }
}

#[test]
fn other_head_dimensions() {
    for (head_dim, head_dim_v) in
        [(256, 256), (96, 96), (192, 128), (192, 192), (64, 128), (40, 72), (8, 8), (128, 32)]
    {
        for causal in [false, true] {
            right(&Case { head_dim, head_dim_v, ..dense(DType::BF16, [140, 290, 0], causal) });
        }
    }
}

/// What the kernels cover of a case: its bias, mask and dropout are left out, its rows are
/// contiguous, and there are enough queries.
fn covered(case: Case) -> Case {
    let [head_dim, head_dim_v] = [case.head_dim, case.head_dim_v].map(|d| d.next_multiple_of(8));
    let layouts = std::array::from_fn(|_| Layout::default());
    let (bias, mask, dropout) = (None, None, None);
    let mut lengths = case.lengths;
    let least = if case.packed { 1 } else { lengths.len() };
    for (queries, keys) in &mut lengths[..least] {
        (*queries, *keys) = (64 + *queries, 1 + *keys);
    }
    Case { head_dim, head_dim_v, layouts, bias, mask, dropout, lengths, ..case }
}

#[test]
fn any_covered_case_is_right() {
    let mut runner = TestRunner::deterministic();
    let cases = any_case(&[DType::F16, DType::BF16], 300).prop_map(covered);
    for _ in 0..60 {
        right(&cases.new_tree(&mut runner).unwrap().current());
    }
}
