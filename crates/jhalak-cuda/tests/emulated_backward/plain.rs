//! Plain attention: each dtype, head dimension and architecture, with the tiles of devices that have
//! little shared memory and of those that have much.

use jhalak_cases::case::Case;
use jhalak_cases::gradients::Ask;
use jhalak_cuda::plan::Limits;
use jhalak_problem::DType;
use jhalak_ptx::Target;

use crate::run::check;

fn plain(dtype: DType, limits: Limits, sizes: [usize; 3], causal: bool) {
    let [queries, keys, dim] = sizes;
    let case = Case { dtype, causal, group: 2, ..Case::dense(1, queries, keys, 1, dim) };
    check(&case, &Ask::default(), limits).unwrap();
}

/// Every device of sm_80 and newer, the smallest and the largest.
fn ampere() -> [Limits; 2] {
    let (small, target) = (Limits::of(Target::Sm80), Target::Sm80);
    [small, Limits { shared_bytes: target.max_shared_bytes(), ..small }]
}

#[test]
fn half_precision_on_ampere() {
    for limits in ampere() {
        for dtype in [DType::F16, DType::BF16] {
            plain(dtype, limits, [16, 16, 64], false);
            plain(dtype, limits, [150, 200, 64], true);
            plain(dtype, limits, [130, 140, 128], false);
            plain(dtype, limits, [140, 130, 128], true);
            plain(dtype, limits, [70, 90, 256], true);
            plain(dtype, limits, [70, 90, 208], false);
        }
    }
}

#[test]
fn single_precision_on_ampere() {
    for limits in ampere() {
        plain(DType::F32, limits, [70, 90, 64], true);
        plain(DType::F32, limits, [70, 90, 128], false);
        plain(DType::F32, limits, [40, 50, 256], true);
    }
}

#[test]
fn turing() {
    let limits = Limits::of(Target::Sm75);
    for dim in [64, 128, 256] {
        plain(DType::F16, limits, [70, 90, dim], true);
        plain(DType::F32, limits, [40, 50, dim], true);
    }
}
