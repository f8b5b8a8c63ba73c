//! Settings that cannot be had are errors that name them.

use jhalak_cpu::{Engine, IsaKind};
use jhalak_problem::Error;

#[test]
fn an_instruction_set_that_the_machine_lacks_is_an_error() {
    for isa in IsaKind::ALL.into_iter().filter(|isa| !isa.is_available()) {
        let error = Engine::with_isa(isa).unwrap_err();
        assert!(matches!(&error, Error::Environment(m) if m.contains(&isa.to_string())));
    }
}

#[test]
fn no_threads_at_all_are_an_error() {
    let error = Engine::with_isa(IsaKind::Scalar).unwrap().threads(0).unwrap_err();
    assert!(error.to_string().contains("threads"), "{error}");
}
