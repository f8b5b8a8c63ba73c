//! [`Engine`]: which instructions and which threads a call runs on.

use std::sync::Arc;

use jhalak_problem::{Backward, Error, Forward, Result};

use crate::executor::Executor;
use crate::simd::IsaKind;

/// Runs checked calls on this machine's CPU.
///
/// Results depend on the instruction set, never on the number of threads. Inside a rayon pool a
/// call runs there; elsewhere on jhalak's own pool, which has as many threads as the machine, or
/// as `RAYON_NUM_THREADS` says. Small calls stay on the calling thread.
#[derive(Clone, Debug)]
pub struct Engine {
    isa: IsaKind,
    executor: Executor,
}

impl Engine {
    /// The best instruction set of this machine, or the one that `JHALAK_ISA` names.
    ///
    /// # Errors
    /// [`Error::Environment`] if `JHALAK_ISA` names one that this machine lacks.
    pub fn new() -> Result<Self> {
        let isa = IsaKind::selected().map_err(Error::Environment)?;
        Ok(Engine { isa, executor: Executor::shared() })
    }

    /// This instruction set, whatever `JHALAK_ISA` says.
    ///
    /// # Errors
    /// [`Error::Environment`] if this machine lacks it.
    pub fn with_isa(isa: IsaKind) -> Result<Self> {
        if !isa.is_available() {
            return Err(Error::Environment(format!("this machine has no {isa}")));
        }
        Ok(Engine { isa, executor: Executor::shared() })
    }

    /// The same engine on a pool of its own with `threads` threads; 1 stays on the calling
    /// thread.
    ///
    /// # Errors
    /// [`Error::Environment`] if the threads cannot be started.
    pub fn threads(mut self, threads: usize) -> Result<Self> {
        self.executor = Executor::with_threads(threads)?;
        Ok(self)
    }

    /// The instruction set in use.
    pub fn isa(&self) -> IsaKind {
        self.isa
    }

    /// Computes out and lse.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if work space cannot be had; nothing has been written then.
    pub fn forward(&self, call: &Forward<'_>) -> Result<()> {
        let _ = call;
        Err(Error::Environment("soon".into()))
    }

    /// Computes the gradients that the call asks for.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if work space cannot be had; nothing has been written then.
    pub fn backward(&self, call: &Backward<'_>) -> Result<()> {
        let _ = call;
        Err(Error::Environment("soon".into()))
    }
}
