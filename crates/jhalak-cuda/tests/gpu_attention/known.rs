//! Inputs on which other libraries have failed.

use jhalak_cases::gradients::Ask;
use jhalak_cases::known::KNOWN;
use jhalak_problem::DType::{self, BF16, F16, F32};
use jhalak_ptx::Target;

use crate::run::check_tensors;

fn all(target: Target, dtypes: &[DType]) {
    for known in KNOWN {
        for (case, tensors) in dtypes.iter().filter_map(|&dtype| known.in_dtype(dtype)) {
            if let Err(error) = check_tensors(&case, &tensors, &Ask::default(), target) {
                panic!("{}, {}: {error}", known.name, case.dtype);
            }
        }
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn known_failures_of_others_are_right_on_ampere() {
    all(Target::Sm80, &[BF16, F32]);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn known_failures_of_others_are_right_on_turing() {
    all(Target::Sm75, &[F16]);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn known_failures_of_others_are_right_on_hopper() {
    all(Target::Sm90a, &[F16]);
}
