//! `jhalak check` and `jhalak info` on the machine that runs the tests.

mod common;

use std::path::Path;

use common::{command, jhalak, refusal};
use jhalak_cpu::IsaKind;

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

/// What `jhalak info` says where `JHALAK_ISA` is `isa`: its line about instructions, or its error.
fn chosen(isa: &str) -> Result<String, String> {
    let output = command(&["info"]).env("JHALAK_ISA", isa).output().unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|x| String::from_utf8(x).unwrap());
    if output.status.success() {
        Ok(stdout.lines().find(|line| line.starts_with("instructions")).unwrap().to_string())
    } else {
        assert_eq!(output.status.code(), Some(2));
        Err(stderr)
    }
}

#[test]
fn the_environment_chooses_the_instruction_set() {
    let first_word = |line: &str| line.split([' ', ',']).nth(2).unwrap().to_string();
    for isa in IsaKind::ALL.map(|isa| isa.to_string()) {
        if IsaKind::available().any(|available| available.to_string() == isa) {
            assert_eq!(first_word(&chosen(&isa).unwrap()), isa);
        } else {
            let sentence = chosen(&isa).unwrap_err();
            assert!(sentence.contains(&isa) && sentence.contains("lacks"), "{sentence}");
        }
    }
    assert_eq!(first_word(&chosen("").unwrap()), IsaKind::best().to_string());
}

#[test]
fn an_unknown_instruction_set_in_the_environment_is_refused() {
    let sentence = chosen("sse9").unwrap_err();
    assert!(sentence.contains("JHALAK_ISA") && sentence.contains("sse9"), "{sentence}");
    assert!(sentence.contains("avx2"), "what there is: {sentence}");
}
