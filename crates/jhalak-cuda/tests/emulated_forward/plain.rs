//! Plain attention: each dtype, head dimension and architecture.

use jhalak_cases::case::Case;
use jhalak_cuda::plan::Limits;
use jhalak_problem::DType;
use jhalak_ptx::Target;

use crate::run::check;

fn plain(dtype: DType, target: Target, sizes: [usize; 3], causal: bool) {
    let [queries, keys, dim] = sizes;
    let case = Case { dtype, causal, ..Case::dense(1, queries, keys, 1, dim) };
    check(&case, Limits::of(target)).unwrap();
}

#[test]
fn half_precision_on_ampere() {
    for dtype in [DType::F16, DType::BF16] {
        plain(dtype, Target::Sm80, [16, 16, 64], false);
        plain(dtype, Target::Sm80, [150, 200, 64], true);
        plain(dtype, Target::Sm80, [130, 140, 128], false);
    }
}

#[test]
fn a_row_of_16_bytes_is_written() {
    for target in [Target::Sm75, Target::Sm80] {
        plain(DType::F16, target, [20, 0, 8], false);
        plain(DType::F16, target, [20, 40, 8], false);
    }
}

#[test]
fn the_widest_heads_fit_every_architecture() {
    for target in [Target::Sm75, Target::Sm80] {
        for dtype in [DType::F16, DType::F32] {
            plain(dtype, target, [20, 70, 256], true);
            let case = Case { dtype, dropout: Some(0.4), ..Case::dense(1, 20, 70, 1, 256) };
            check(&case, Limits::of(target)).unwrap();
            let starts = Some((0, 17));
            check(&Case { starts, ..case }, Limits::of(target)).unwrap();
        }
    }
}
