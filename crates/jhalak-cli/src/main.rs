//! The command `jhalak`: exact attention on files, measured, and checked on this machine.

mod attend;
mod cases;
mod check;
mod compare;
mod engine;
mod failure;
mod files;
mod info;
mod inputs;
mod interrupt;
mod memory;
mod npy;
mod options;
mod plot;
mod report;
mod standard;
mod step;
mod warmup;
mod yardstick;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::failure::Failure;

/// Exact attention in linear memory.
///
/// jhalak computes attention the FlashAttention way: the same result as standard attention,
/// without ever writing down the score of every query with every key.
#[derive(Debug, Parser)]
#[command(
    name = "jhalak",
    version,
    arg_required_else_help = true,
    after_help = "Exit codes: 0 all is well, 1 a comparison or check failed, 2 something was \
                  wrong with the input, 130 interrupted."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Attend(attend::Attend),
    Compare(compare::Compare),
    Check(check::Check),
    Info(info::Info),
    Warmup(warmup::Warmup),
    #[command(hide = true)]
    Step(step::Step),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help and version; a closed pipe is no reason to complain.
        Err(error) if !error.use_stderr() => {
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => return failure::from_clap(&error).report(),
    };
    match interrupt::catch().and_then(|()| run(cli.command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Attend(attend) => attend.run(),
        Command::Compare(compare) => compare.run(),
        Command::Check(check) => check.run(),
        Command::Info(info) => info.run(),
        Command::Warmup(warmup) => warmup.run(),
        Command::Step(step) => step.run(),
    }
}
