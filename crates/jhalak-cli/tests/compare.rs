//! `jhalak compare`: its table, its files, its limits, and being interrupted.

mod common;

use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{jhalak, names, refusal};
use serde_json::Value;

#[test]
fn a_small_comparison_gives_a_table_numbers_and_a_plot() {
    let directory = tempfile::tempdir().unwrap();
    let output = jhalak(
        directory.path(),
        &[
            "compare", "--max", "96", "--heads", "2", "--dim", "16", "--json", "c.json", "--plot",
            "c.svg",
        ],
    );
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.is_empty(), "{stderr}");
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.lines().any(|line| line.trim_start().starts_with("96 |")), "{table}");
    let json = fs::read_to_string(directory.path().join("c.json")).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    let step = &json["steps"][0];
    assert_eq!(step["seqlen"], 96);
    assert!(step["jhalak"]["seconds"].as_f64().unwrap() > 0.0);
    assert!(step["standard"]["largest_difference"].as_f64().unwrap() < 1e-5);
    let svg = fs::read_to_string(directory.path().join("c.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    for words in ["standard attention", "sequence length N", "Memory beyond"] {
        assert!(svg.contains(words), "{words}");
    }
    assert_eq!(names(directory.path()).len(), 2);
}

#[test]
fn standard_attention_stops_at_the_memory_limit_and_everything_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let output = jhalak(
        directory.path(),
        &[
            "compare",
            "--max",
            "64",
            "--heads",
            "1",
            "--dim",
            "8",
            "--memory-limit",
            "1KiB",
            "--json",
            "c.json",
            "--plot",
            "c.svg",
        ],
    );
    assert!(output.status.success());
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("needs 16.0 KiB, the limit is 1.00 KiB"), "{table}");
    let json = fs::read_to_string(directory.path().join("c.json")).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert!(json["steps"][0]["standard"].is_null());
    assert!(json["steps"][0]["standard_stopped"].is_string());
    let svg = fs::read_to_string(directory.path().join("c.svg")).unwrap();
    assert!(svg.contains("stops: memory limit"));
}

#[test]
fn wrong_sizes_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    for arguments in [
        ["compare", "--max", "0"],
        ["compare", "--max", "99999999999999999999"],
        ["compare", "--heads", "0"],
        ["compare", "--dim", "0"],
        ["compare", "--memory-limit", "much"],
    ] {
        refusal(directory.path(), &arguments);
    }
}

#[test]
fn an_interrupt_ends_it_with_130_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_jhalak"))
        .args(["compare", "--max", "512k", "--memory-limit", "0", "--json", "c.json"])
        .current_dir(directory.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    sleep(Duration::from_millis(700));
    let signalled = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(signalled.success());
    let start = Instant::now();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(start.elapsed() < Duration::from_secs(5));
    assert!(names(directory.path()).is_empty());
}
