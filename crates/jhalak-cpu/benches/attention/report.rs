//! The table for people and the file for machines.

use std::path::{Path, PathBuf};

use jhalak_cpu::IsaKind;
use serde_json::{Value, json};

use crate::measure::{Peaks, Timing, best, median};

/// The share of the machine from which on other programs spoil a figure.
const DISTURBED: f64 = 0.06;

/// All that was measured.
pub struct Report {
    pub machine: Value,
    pub isa: IsaKind,
    /// Before and after the rows of each number of threads.
    pub peaks: Vec<(Peaks, Peaks)>,
    pub timings: Vec<Timing>,
}

/// One row: what is made of a [`Timing`].
struct Row<'a> {
    timing: &'a Timing,
    jhalak: f64,
    standard: f64,
    /// Of the peak.
    share: f64,
}

impl Row<'_> {
    fn ratio(&self) -> f64 {
        self.jhalak / self.standard
    }

    fn is_disturbed(&self) -> bool {
        self.timing.others.is_some_and(|others| others >= DISTURBED)
    }

    /// Marks headline rows, and says whether they reach their goal.
    fn mark(&self) -> String {
        match self.timing.case.goal() {
            Some(goal) if self.share >= goal => format!("<== headline, goal {goal:.2} reached"),
            Some(goal) if self.is_disturbed() => {
                format!("<== headline, goal {goal:.2} not reached, but disturbed")
            }
            Some(goal) => format!("<== headline, goal {goal:.2} MISSED"),
            None => String::new(),
        }
    }
}

impl Report {
    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.timings.iter().map(|timing| {
            let (before, after) =
                self.peaks.iter().find(|(p, _)| p.threads == timing.threads).expect("measured");
            let ceiling = before.larger(after).ceiling(timing.case.dtype, self.isa);
            let jhalak = timing.gflops(median(&timing.jhalak));
            let standard = timing.gflops(median(&timing.standard));
            Row { timing, jhalak, standard, share: jhalak / ceiling }
        })
    }

    pub fn print(&self) {
        for (before, after) in &self.peaks {
            let larger = before.larger(after);
            for ((isa, before), (_, after)) in before.fma.iter().zip(&after.fma) {
                let threads = larger.threads;
                println!(
                    "peak  {threads} thread(s)  {isa:<10}  f32  {:8.1} GFLOP/s  (before {before:.1}, after {after:.1})",
                    before.max(*after)
                );
            }
            if let Some(bf16) = larger.bf16 {
                println!("peak  {} thread(s)  vdpbf16ps   bf16 {bf16:8.1} GFLOP/s", larger.threads);
            }
        }
        println!(
            "\nGFLOP/s, medians. others: the share of the machine that other programs used \
             meanwhile; from {:.0} % on, a row is disturbed.",
            100.0 * DISTURBED
        );
        println!(
            "{:<6}{:<24}{:<10}{:>7}{:>10}{:>9}{:>10}{:>7}{:>8}",
            "dtype",
            "shape",
            "direction",
            "threads",
            "jhalak",
            "of peak",
            "standard",
            "ratio",
            "others"
        );
        for row in self.rows() {
            println!("{}", line(&row));
        }
        let headlines: Vec<String> =
            self.rows().filter(|row| row.timing.case.is_headline()).map(|row| line(&row)).collect();
        if !headlines.is_empty() {
            println!("\nHeadline ({}):\n{}", self.isa, headlines.join("\n"));
        }
    }

    fn json(&self) -> Value {
        let rows = self.rows().map(|row| {
            let Timing { case, threads, jhalak, standard, others } = row.timing;
            json!({
                "dtype": case.dtype.to_string(),
                "heads": case.heads,
                "heads_k": case.heads_k,
                "seqlen": case.seqlen,
                "head_dim": case.head_dim,
                "causal": case.causal,
                "direction": case.direction(),
                "threads": threads,
                "headline": case.is_headline(),
                "goal": case.goal(),
                "flops": case.flops(),
                "jhalak_gflops": row.jhalak,
                "jhalak_best_gflops": row.timing.gflops(best(jhalak)),
                "jhalak_seconds": jhalak,
                "share_of_peak": row.share,
                "standard_gflops": row.standard,
                "standard_best_gflops": row.timing.gflops(best(standard)),
                "standard_seconds": standard,
                "ratio": row.ratio(),
                "used_by_others": others,
            })
        });
        let peaks = self.peaks.iter().map(|(before, after)| {
            json!({
                "threads": before.threads,
                "before": peaks_json(before),
                "after": peaks_json(after),
            })
        });
        json!({
            "machine": self.machine,
            "isa": self.isa.to_string(),
            "peaks_gflops": peaks.collect::<Vec<_>>(),
            "results": rows.collect::<Vec<_>>(),
        })
    }

    /// Writes the file; a relative path starts at the workspace's root, since cargo starts
    /// benchmarks in the crate's folder.
    pub fn write(&self, path: &Path) -> std::io::Result<PathBuf> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&path, format!("{:#}\n", self.json()))?;
        path.canonicalize()
    }
}

fn line(row: &Row<'_>) -> String {
    let Timing { case, threads, others, .. } = row.timing;
    let line = format!(
        "{:<6}{:<24}{:<10}{threads:>7}{:>10.1}{:>8.0}%{:>10.1}{:>7.2}{:>8}  {}",
        case.dtype.to_string(),
        case.shape(),
        case.direction(),
        row.jhalak,
        100.0 * row.share,
        row.standard,
        row.ratio(),
        others.map_or(String::new(), |others| format!("{:.0}%", 100.0 * others)),
        row.mark()
    );
    line.trim_end().to_owned()
}

fn peaks_json(peaks: &Peaks) -> Value {
    let fma = peaks.fma.iter().map(|(isa, peak)| (isa.to_string(), json!(peak)));
    json!({ "f32": fma.collect::<serde_json::Map<_, _>>(), "bf16": peaks.bf16 })
}
