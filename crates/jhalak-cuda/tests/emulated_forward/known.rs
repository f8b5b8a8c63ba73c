//! Inputs on which other libraries have failed.

use jhalak_cases::known::KNOWN;
use jhalak_cuda::plan::Limits;
use jhalak_problem::DType::{self, BF16, F16, F32};
use jhalak_ptx::Target;

use crate::run::judged_parts;

fn all(target: Target, dtypes: &[DType], parts: u32) {
    for known in KNOWN {
        for (case, tensors) in dtypes.iter().filter_map(|&dtype| known.in_dtype(dtype)) {
            if let Err(error) = judged_parts(&case, &tensors, Limits::of(target), parts) {
                panic!("{}, {}: {error}", known.name, case.dtype);
            }
        }
    }
}

#[test]
fn known_failures_of_others_are_right_on_ampere() {
    all(Target::Sm80, &[F16, BF16, F32], 1);
}

#[test]
fn known_failures_of_others_are_right_on_turing() {
    all(Target::Sm75, &[F16], 1);
}

#[test]
fn known_failures_of_others_are_right_on_hopper() {
    all(Target::Sm90a, &[F16, BF16], 1);
}

#[test]
fn known_failures_of_others_are_right_in_parts() {
    all(Target::Sm80, &[BF16], 4);
}
