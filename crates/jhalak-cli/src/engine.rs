//! The flags that choose instructions and threads.

use clap::Args;
use jhalak::{Engine, IsaKind};

use crate::failure::Failure;

/// Where the work runs.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Machine")]
pub(crate) struct EngineArgs {
    /// Number of threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Instruction set: scalar, avx2, avx512 or avx512bf16 [default: the best there is]
    #[arg(long, value_name = "NAME")]
    pub(crate) isa: Option<IsaKind>,
}

impl EngineArgs {
    /// The engine that was asked for.
    pub(crate) fn engine(self) -> Result<Engine, Failure> {
        let engine = match self.isa {
            Some(isa) => Engine::with_isa(isa)?,
            None => Engine::new()?,
        };
        Ok(match self.threads {
            Some(threads) => engine.threads(threads.into())?,
            None => engine,
        })
    }

    /// How many threads it uses.
    pub(crate) fn thread_count(self) -> usize {
        self.threads.map_or_else(rayon::current_num_threads, usize::from)
    }

    /// The same flags for a child process.
    pub(crate) fn to_flags(self) -> Vec<String> {
        let threads = self.threads.map(|n| format!("--threads={n}"));
        let isa = self.isa.map(|isa| format!("--isa={isa}"));
        threads.into_iter().chain(isa).collect()
    }
}
