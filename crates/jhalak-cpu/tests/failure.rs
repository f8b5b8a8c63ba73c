//! A bad environment and bad settings are errors that name them.

use std::process::Command;

use jhalak_cpu::{Engine, IsaKind};
use jhalak_problem::Error;

/// Set in a child process of this binary, which then prints what it found.
const CHILD: &str = "JHALAK_TEST_CHILD";

/// What `Engine::new` says where `JHALAK_ISA` is `isa`.
fn engine_of(isa: &str) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "in_a_child_process", "--nocapture"])
        .env("JHALAK_ISA", isa)
        .env(CHILD, "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let found = text.split_once('<').and_then(|(_, rest)| rest.rsplit_once('>'));
    found.unwrap_or_else(|| panic!("no answer in {text}")).0.to_string()
}

/// Does nothing but in a child.
#[test]
fn in_a_child_process() {
    if std::env::var_os(CHILD).is_some() {
        match Engine::new() {
            Ok(engine) => println!("<{}>", engine.isa()),
            Err(error) => println!("<{error}>"),
        }
    }
}

#[test]
fn an_unknown_instruction_set_is_an_error_that_names_it() {
    let message = engine_of("sse9");
    assert!(message.contains("JHALAK_ISA") && message.contains("sse9"), "{message}");
    assert!(message.contains("avx2"), "what there is: {message}");
}

#[test]
fn the_environment_chooses_the_instruction_set() {
    for isa in IsaKind::available() {
        assert_eq!(engine_of(&isa.to_string()), isa.to_string());
    }
    let best = IsaKind::available().last().unwrap();
    assert_eq!(engine_of(""), best.to_string());
}

#[test]
fn an_instruction_set_that_the_machine_lacks_is_an_error() {
    for isa in IsaKind::ALL.into_iter().filter(|isa| !isa.is_available()) {
        assert!(engine_of(&isa.to_string()).contains(&isa.to_string()));
        let error = Engine::with_isa(isa).unwrap_err();
        assert!(matches!(&error, Error::Environment(m) if m.contains(&isa.to_string())));
    }
}

#[test]
fn no_threads_at_all_are_an_error() {
    let error = Engine::with_isa(IsaKind::Scalar).unwrap().threads(0).unwrap_err();
    assert!(error.to_string().contains("threads"), "{error}");
}
