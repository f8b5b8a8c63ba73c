//! The kernels for Hopper.

use jhalak_cases::case::Case;
use jhalak_cuda::plan::Limits;
use jhalak_problem::DType;
use jhalak_ptx::Target;

use crate::run::check;

/// So few blocks that each has several tiles.
fn limits() -> Limits {
    Limits { multiprocessors: 2, ..Limits::of(Target::Sm90a) }
}

fn plain(dtype: DType, sizes: [usize; 3], causal: bool) {
    let [queries, keys, dim] = sizes;
    let case = Case { dtype, causal, ..Case::dense(1, queries, keys, 1, dim) };
    check(&case, limits()).unwrap();
}

#[test]
fn one_tile_of_128_columns() {
    plain(DType::BF16, [128, 128, 128], false);
}

#[test]
fn one_tile_of_64_columns() {
    plain(DType::F16, [192, 128, 64], false);
}
