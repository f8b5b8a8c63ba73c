//! Inputs on which other libraries have failed.

use jhalak_cases::gradients::Ask;
use jhalak_cases::known::KNOWN;
use jhalak_cuda::plan::Limits;
use jhalak_problem::DType::{self, BF16, F16, F32};
use jhalak_ptx::Target;

use crate::run::judged;

fn all(target: Target, dtypes: &[DType]) {
    for known in KNOWN {
        for (case, tensors) in dtypes.iter().filter_map(|&dtype| known.in_dtype(dtype)) {
            let limits = Limits::of(target);
            if let Err(error) = judged(&case, &tensors, &Ask::default(), |dout| dout, limits) {
                panic!("{}, {}: {error}", known.name, case.dtype);
            }
        }
    }
}

#[test]
fn known_failures_of_others_have_right_gradients_on_ampere() {
    all(Target::Sm80, &[F16, BF16, F32]);
}

#[test]
fn known_failures_of_others_have_right_gradients_on_turing() {
    all(Target::Sm75, &[F16]);
}
