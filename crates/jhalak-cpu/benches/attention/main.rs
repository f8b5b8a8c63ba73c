//! The benchmark: jhalak beside standard attention, in shares of what the machine can do.
//!
//! ```text
//! cargo bench -p jhalak-cpu --bench attention -- --json benchmarks/results/NAME.json
//! ```
//!
//! benchmarks/README.md says how the figures are taken.

mod cases;
mod machine;
mod measure;
mod report;
mod standard;
mod tensors;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use jhalak_cpu::IsaKind;

use cases::Case;
use measure::{Peaks, best, median, time};
use report::Report;

/// Times jhalak and standard attention, and gives both in GFLOP/s and in shares of the peak.
#[derive(Parser)]
struct Options {
    /// Short sequences only, three samples: under two minutes
    #[arg(long)]
    quick: bool,
    /// Only rows whose name holds all these words, such as "f32 D64 causal" or "headline"
    #[arg(long, value_name = "WORDS", default_value = "")]
    filter: String,
    /// Numbers of threads
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [1, 2])]
    threads: Vec<usize>,
    /// Instruction set of jhalak and the softmax: scalar, avx2, avx512, avx512bf16 [default: the best]
    #[arg(long)]
    isa: Option<IsaKind>,
    /// Samples a row
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    samples: Option<u16>,
    /// Where to write the results; relative to the workspace's root
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Given by `cargo bench`; without it, this is a test
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    fn cases(&self) -> Vec<Case> {
        let mut cases = Case::all();
        // As a test, one small case shows that everything runs and the two agree.
        if !self.bench {
            cases = vec![Case { seqlen: 200, backward: true, ..cases[0] }];
        }
        cases.retain(|case| {
            let name = case.name();
            self.filter.split_whitespace().all(|word| name.split(' ').any(|part| part == word))
                && (!self.quick || case.seqlen <= 1024)
        });
        cases
    }
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    let isa = options.isa.map_or_else(IsaKind::selected, Ok)?;
    let cases = options.cases();
    if cases.is_empty() {
        return Err("no row is left to measure".into());
    }
    let samples = options.samples.map_or(if options.quick { 3 } else { 5 }, usize::from);
    let machine = machine::describe();
    println!("{}, {} cores, {isa}", machine::cpu_model(), machine::cores());
    let mut report = Report { machine, isa, peaks: Vec::new(), timings: Vec::new() };
    for &threads in &options.threads {
        if threads > machine::cores() {
            eprintln!("{threads} threads are left out: taking turns, they have no peak");
            continue;
        }
        let before = Peaks::measure(threads);
        for &case in &cases {
            let timing = time(case, isa, threads, samples).map_err(|e| e.to_string())?;
            let [ours, theirs] = [&timing.jhalak, &timing.standard].map(|s| {
                format!("{:.1} (best {:.1})", timing.gflops(median(s)), timing.gflops(best(s)))
            });
            eprintln!("{threads} thread(s)  {}: jhalak {ours}, standard {theirs}", case.name());
            report.timings.push(timing);
        }
        report.peaks.push((before, Peaks::measure(threads)));
    }
    report.print();
    if let Some(path) = &options.json {
        let written = report.write(path).map_err(|e| format!("{}: {e}", path.display()))?;
        println!("\nwritten: {}", written.display());
    }
    Ok(())
}
