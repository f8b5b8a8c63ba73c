//! Where and when: what must stand next to a figure.

use std::process::Command;
use std::time::Instant;

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

/// CPU time since the machine started, in ticks of the kernel: by everybody, and by this process.
#[derive(Clone, Copy)]
pub struct CpuTime {
    start: Instant,
    all: u64,
    own: u64,
}

/// Ticks a second: fixed for all that the kernel shows to programs.
const TICKS: f64 = 100.0;

impl CpuTime {
    pub fn now() -> Option<Self> {
        let numbers = |line: &str| -> Vec<u64> {
            line.split_whitespace().map(|word| word.parse().unwrap_or(0)).collect()
        };
        let stat = std::fs::read_to_string("/proc/stat").ok()?;
        // user, nice, system, idle, iowait, irq, softirq, steal; guests are in user already.
        let cpu = numbers(stat.lines().next()?.strip_prefix("cpu")?);
        let all = cpu.iter().take(8).sum::<u64>() - cpu.iter().skip(3).take(2).sum::<u64>();
        // After the name in parentheses: utime and stime are fields 14 and 15 of the whole line.
        let own = std::fs::read_to_string("/proc/self/stat").ok()?;
        let own = numbers(own.rsplit_once(')')?.1).iter().skip(11).take(2).sum();
        Some(CpuTime { start: Instant::now(), all, own })
    }

    /// The share of the machine that others have used since then, from 0 to 1.
    pub fn used_by_others_since(self) -> Option<f64> {
        let now = Self::now()?;
        let others = (now.all - self.all).saturating_sub(now.own - self.own) as f64 / TICKS;
        Some(others / (self.start.elapsed().as_secs_f64() * cores() as f64))
    }
}

/// All of it, for the results file. Called before anything is measured.
pub fn describe() -> Value {
    json!({
        "cpu": cpu_model(),
        "cores": cores(),
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
