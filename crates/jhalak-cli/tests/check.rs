//! `jhalak check` and `jhalak info` on the machine that runs the tests.

mod common;

use std::path::Path;

use common::{jhalak, refusal};

#[test]
fn this_machine_is_right() {
    let output = jhalak(Path::new("."), &["check"]);
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{stdout}");
    assert!(stdout.contains("scalar      right") && stdout.ends_with("all is well\n"), "{stdout}");
}

#[test]
fn an_unknown_instruction_set_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let sentence = refusal(directory.path(), &["check", "--isa", "sse9"]);
    assert!(sentence.contains("sse9") && sentence.contains("avx512bf16"), "{sentence}");
}

#[test]
fn info_names_instructions_and_threads() {
    let output = jhalak(Path::new("."), &["info"]);
    let stdout = String::from_utf8(output.stdout).unwrap();
    for word in ["instructions", "threads", env!("CARGO_PKG_VERSION")] {
        assert!(stdout.contains(word), "{stdout}");
    }
}
