//! Inputs on which other libraries have failed, forward and backward.

mod common;

use common::run::{Ask, engine, judge};
use jhalak_cases::known::KNOWN;
use jhalak_cpu::IsaKind;
use jhalak_problem::DType;

#[test]
fn known_failures_of_others_are_right_on_every_instruction_set() {
    let dtypes = [DType::F32, DType::F16, DType::BF16];
    for known in KNOWN {
        for (case, tensors) in dtypes.iter().filter_map(|&dtype| known.in_dtype(dtype)) {
            for isa in IsaKind::available() {
                let attention = case.attention(&tensors);
                let (ask, name) = (Ask::default(), known.name);
                if let Err(error) = judge(&engine(isa, 2), &attention, &tensors, &ask, case.seed) {
                    panic!("{name}, {}, {isa}: {error}", case.dtype);
                }
            }
        }
    }
}
