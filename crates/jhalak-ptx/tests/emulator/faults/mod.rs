//! Planted faults: each is found, whatever the seed, and named with its instruction.

mod asynchronous;
mod barriers;
mod memory;
mod pipeline;
mod warps;

use jhalak_ptx::emulator::{Fault, Launch, Memory, Report};
use jhalak_ptx::{B64, KernelBuilder, Module};

use crate::module;

const SEEDS: u64 = 20;

/// Bytes of the program's global memory: `input` is written, `output` is not.
const BYTES: usize = 4096;

/// Runs a program of one block. The body gets the addresses of `input` and `output`.
fn reports(
    threads: u32,
    body: impl FnOnce(&mut KernelBuilder, B64, B64),
) -> Vec<Result<(), Report>> {
    reports_of_grid(1, threads, body)
}

fn reports_of_grid(
    blocks: u32,
    threads: u32,
    body: impl FnOnce(&mut KernelBuilder, B64, B64),
) -> Vec<Result<(), Report>> {
    let module = module(|k| {
        let [input, output] = ["input", "output"].map(|name| k.param_pointer(name, 16));
        let [input, output] = [input, output].map(|pointer| k.ld_param(pointer));
        body(k, input, output);
    });
    (0..SEEDS).map(|seed| run(&module, blocks, threads, seed)).collect()
}

fn run(module: &Module, blocks: u32, threads: u32, seed: u64) -> Result<(), Report> {
    let mut memory = Memory::new();
    let input = memory.alloc(&vec![1u32; BYTES / 4]);
    let output = memory.alloc_uninitialised(BYTES);
    let shared = module.kernels()[0].dynamic_shared().bytes();
    let launch = Launch::new(module, "kernel").grid(blocks, 1, 1).block(threads);
    let launch = launch.dynamic_shared(shared).arg(input).arg(output);
    launch.seed(seed).run(&mut memory).map(|_| ())
}

/// Every seed finds the fault, at an instruction whose text has this in it (or one of several,
/// between bars). A race may be found at either of its accesses.
fn assert_found(
    reports: &[Result<(), Report>],
    instruction: &str,
    is_the_fault: impl Fn(&Fault) -> bool,
) {
    for (seed, report) in reports.iter().enumerate() {
        let report = report.as_ref().expect_err("the fault was not found");
        assert!(is_the_fault(&report.fault), "seed {seed}: {report}");
        let mut places: Vec<&str> = Vec::new();
        places.extend(report.place.as_ref().map(|place| &*place.instruction));
        match &report.fault {
            Fault::Race { other, .. } | Fault::MissingProxyFence { other, .. } => {
                places.push(&other.instruction);
            }
            Fault::Deadlock { waiting } => {
                places.extend(waiting.iter().map(|(place, _)| &*place.instruction));
            }
            _ => {}
        }
        let named = |text: &&str| instruction.split('|').any(|wanted| text.contains(wanted));
        assert!(places.iter().any(named), "seed {seed}: {report}");
    }
}

fn is_race(fault: &Fault) -> bool {
    matches!(fault, Fault::Race { .. })
}

/// No seed finds anything.
fn assert_good(reports: &[Result<(), Report>]) {
    for report in reports {
        if let Err(report) = report {
            panic!("{report}");
        }
    }
}
