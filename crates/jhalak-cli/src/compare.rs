//! `jhalak compare`: jhalak against standard attention, on longer and longer sequences.

use std::path::PathBuf;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::engine::EngineArgs;
use crate::failure::{Failure, say};
use crate::files;
use crate::memory;
use crate::plot;
use crate::report;
use crate::standard::score_bytes;
use crate::step::{Kind, Measurement, Step};

/// The shortest sequence.
const FIRST: usize = 1024;

/// Compare with standard attention on growing sequences.
///
/// Standard attention writes down the whole score matrix; here it does so with a fast matrix
/// product and a vectorised softmax on all cores, in f32. Each measurement runs in a process of
/// its own. Memory is what a call needs beyond q, k, v and out.
#[derive(Clone, Debug, Args)]
pub(crate) struct Compare {
    /// The longest sequence; each one is twice as long as the one before, from 1024 on
    #[arg(long, value_name = "N", default_value = "32768", value_parser = parse_length)]
    max: usize,
    /// Number of heads
    #[arg(long, value_name = "H", default_value_t = 4,
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    heads: u16,
    /// Head dimension
    #[arg(long, value_name = "D", default_value_t = 64,
          value_parser = clap::value_parser!(u16).range(1..=4096))]
    dim: u16,
    /// Stop standard attention above this, as in 8GiB [default: half of the free memory]
    #[arg(long, value_name = "SIZE", value_parser = memory::parse_amount)]
    memory_limit: Option<u64>,
    /// Write the numbers to this file
    #[arg(long, value_name = "FILE.json")]
    json: Option<PathBuf>,
    /// Draw time and memory against length into this file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    engine: EngineArgs,
}

fn parse_length(text: &str) -> Result<usize, String> {
    let (digits, factor) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1024),
        None => (text, 1),
    };
    match digits.parse::<usize>().ok().and_then(|n| n.checked_mul(factor)) {
        Some(n @ 1..=16_777_216) => Ok(n),
        _ => Err("a length is a number from 1 to 16777216, or as in 32k".into()),
    }
}

/// The whole comparison, as `--json` writes it.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    pub(crate) jhalak: &'static str,
    pub(crate) isa: String,
    pub(crate) threads: usize,
    pub(crate) dtype: &'static str,
    pub(crate) heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) memory_limit_bytes: u64,
    pub(crate) steps: Vec<Compared>,
}

/// One length.
#[derive(Debug, Serialize)]
pub(crate) struct Compared {
    pub(crate) seqlen: usize,
    pub(crate) jhalak: Measurement,
    pub(crate) standard: Option<Measurement>,
    /// Why standard attention was not measured.
    pub(crate) standard_stopped: Option<String>,
}

impl Compare {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let engine = self.engine.engine()?;
        let limit = self.memory_limit.or_else(|| memory::available().map(|free| free / 2));
        let mut comparison = Comparison {
            jhalak: env!("CARGO_PKG_VERSION"),
            isa: engine.isa().to_string(),
            threads: self.engine.thread_count(),
            dtype: "f32",
            heads: self.heads.into(),
            head_dim: self.dim.into(),
            memory_limit_bytes: limit.unwrap_or(u64::MAX),
            steps: Vec::new(),
        };
        say(format_args!(
            "jhalak {} with {} on {}; {}, head dimension {}, f32, not causal",
            comparison.jhalak,
            comparison.isa,
            report::count(comparison.threads, "thread"),
            report::count(comparison.heads, "head"),
            comparison.head_dim,
        ))?;
        say(HEADING)?;
        let lengths = self.lengths();
        let progress = progress_bar(2 * lengths.len() as u64);
        for seqlen in lengths {
            let compared = self.measure(seqlen, &comparison, &progress)?;
            progress.suspend(|| say(row(&compared)))?;
            comparison.steps.push(compared);
        }
        progress.finish_and_clear();
        if let Some(path) = &self.json {
            let json = serde_json::to_string_pretty(&comparison)
                .map_err(|error| Failure::file(path, error))?;
            files::write(path, (json + "\n").as_bytes())?;
        }
        if let Some(path) = &self.plot {
            let svg = plot::draw(&comparison).map_err(|problem| Failure::file(path, problem))?;
            files::write(path, svg.as_bytes())?;
        }
        Ok(())
    }

    /// Powers of two from [`FIRST`], then the maximum itself.
    fn lengths(&self) -> Vec<usize> {
        let doubling = std::iter::successors(Some(FIRST), |n| Some(n * 2));
        doubling.take_while(|&n| n < self.max).chain([self.max]).collect()
    }

    fn measure(
        &self,
        seqlen: usize,
        comparison: &Comparison,
        progress: &ProgressBar,
    ) -> Result<Compared, Failure> {
        let (heads, dim) = (comparison.heads, comparison.head_dim);
        let step = |kind| Step { kind, seqlen, heads, dim, engine: self.engine };
        progress.set_message(format!("jhalak, N = {seqlen}"));
        let jhalak = step(Kind::Jhalak)
            .in_child()
            .map_err(|problem| Failure::Verdict(format!("jhalak, N = {seqlen}: {problem}")))?;
        progress.inc(1);
        progress.set_message(format!("standard attention, N = {seqlen}"));
        let needed = score_bytes(seqlen, heads);
        let standard = if needed > comparison.memory_limit_bytes {
            Err(format!(
                "needs {}, the limit is {}",
                report::bytes(needed),
                report::bytes(comparison.memory_limit_bytes)
            ))
        } else {
            step(Kind::Standard).in_child()
        };
        progress.inc(1);
        let (standard, standard_stopped) = match standard {
            Ok(measurement) => (Some(measurement), None),
            Err(reason) => (None, Some(reason)),
        };
        Ok(Compared { seqlen, jhalak, standard, standard_stopped })
    }
}

/// Bars draw themselves on stderr, and only where it is a terminal.
fn progress_bar(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({elapsed})");
    let progress = ProgressBar::new(steps);
    progress.enable_steady_tick(std::time::Duration::from_millis(200));
    match style {
        Ok(style) => progress.with_style(style),
        Err(_) => progress,
    }
}

const HEADING: &str = "
       N |    jhalak     memory |  standard     memory |  faster   less memory   difference
---------+----------------------+----------------------+------------------------------------";

fn row(compared: &Compared) -> String {
    let jhalak = &compared.jhalak;
    let (time, memory) = (report::time(jhalak.seconds), report::bytes(jhalak.peak_bytes));
    let left = format!("{:>8} | {time:>9} {memory:>10} |", compared.seqlen);
    let Some(standard) = &compared.standard else {
        let reason = compared.standard_stopped.as_deref().unwrap_or("not measured");
        return format!("{left} {reason}");
    };
    let (time, memory) = (report::time(standard.seconds), report::bytes(standard.peak_bytes));
    let faster = standard.seconds / jhalak.seconds;
    let less = standard.peak_bytes as f64 / jhalak.peak_bytes.max(1) as f64;
    let difference = standard.largest_difference.unwrap_or(f64::NAN);
    let (faster, less) = (report::three_digits(faster) + "×", report::three_digits(less) + "×");
    format!("{left} {time:>9} {memory:>10} | {faster:>7} {less:>13} {difference:>12.1e}")
}
