//! Where and when: what must stand next to a figure.

use std::process::Command;

use serde_json::{Value, json};

/// The CPU's own name for itself.
pub fn cpu_model() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = info.lines().find(|line| line.split(':').next().unwrap_or("").trim() == name)?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let model = field("model name").unwrap_or_else(|| "unknown CPU".into());
    match (field("cpu family"), field("model")) {
        (Some(family), Some(number)) => format!("{model} (family {family}, model {number})"),
        _ => model,
    }
}

/// Threads that this process can run at once.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

/// Processes that wanted to run in the last minute: above what the benchmark itself takes, its
/// figures are disturbed.
fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// All of it, for the results file. Called before anything is measured.
pub fn describe() -> Value {
    json!({
        "cpu": cpu_model(),
        "cores": cores(),
        "load_before": load(),
        "date": answer("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]),
        "commit": answer("git", &["rev-parse", "HEAD"]),
        "uncommitted_changes":
            answer("git", &["status", "--porcelain", "--untracked-files=no"]).is_some(),
    })
}

/// What a command prints, if it is there, succeeds and prints anything.
fn answer(command: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(command).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
