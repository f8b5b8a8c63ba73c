//! Every instruction set and dtype of the machine.

use jhalak_cpu::IsaKind;
use jhalak_problem::DType;

use super::case::Case;
use super::run::{Ask, check};

/// Calls `body` for f32, f16 and bf16 on every instruction set, and for f64, which has one engine,
/// once.
pub fn everywhere(body: impl Fn(IsaKind, DType)) {
    for isa in IsaKind::available() {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            body(isa, dtype);
        }
    }
    body(IsaKind::Scalar, DType::F64);
}

/// Judges a case in every dtype on every instruction set.
pub fn check_everywhere(case: &Case, ask: &Ask) {
    everywhere(|isa, dtype| {
        let case = Case { dtype, ..case.clone() };
        check(&case, ask, isa, 2).unwrap_or_else(|e| panic!("{isa} {case:?}: {e}"));
    });
}
