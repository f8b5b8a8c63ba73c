//! Plain attention: each dtype, head dimension and architecture.

use jhalak_cases::case::Case;
use jhalak_cases::gradients::Ask;
use jhalak_cuda::plan::Limits;
use jhalak_problem::DType;
use jhalak_ptx::Target;

use crate::run::check;

fn plain(dtype: DType, target: Target, sizes: [usize; 3], causal: bool) {
    let [queries, keys, dim] = sizes;
    let case = Case { dtype, causal, ..Case::dense(1, queries, keys, 1, dim) };
    check(&case, &Ask::default(), Limits::of(target)).unwrap();
}

#[test]
fn half_precision_on_ampere() {
    for dtype in [DType::F16, DType::BF16] {
        plain(dtype, Target::Sm80, [16, 16, 64], false);
        plain(dtype, Target::Sm80, [150, 200, 64], true);
        plain(dtype, Target::Sm80, [130, 140, 128], false);
    }
}
