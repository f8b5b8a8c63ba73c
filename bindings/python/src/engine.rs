//! Which engine runs a call: by the device of its tensors, and by the number of threads.

use std::sync::{Mutex, OnceLock, PoisonError};

use jhalak::{Device, Engine};
use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;

use crate::error::exception;

/// The engine with a number of threads that was asked for last, and the process that made it.
static CHOSEN: Mutex<Option<(u32, usize, Engine)>> = Mutex::new(None);

/// The engine for tensors on `device`; 0 threads are as many as the machine has.
///
/// Called with the interpreter's lock held, which Python's fork holds too: no child inherits the
/// mutex locked.
pub(crate) fn engine(device: Device, threads: usize) -> PyResult<Engine> {
    if device != Device::Cpu {
        return Err(PyNotImplementedError::new_err(format!(
            "q is on {device}, but this version of jhalak for Python has no GPU kernels yet: \
             move the tensors to the CPU"
        )));
    }
    if threads == 0 {
        return default_engine();
    }
    let mut chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if let Some((owner, count, engine)) = &*chosen
        && (*owner, *count) == (process, threads)
    {
        return Ok(engine.clone());
    }
    let engine = default_engine()?.threads(threads).map_err(exception)?;
    if let Some(old) = chosen.replace((process, threads, engine.clone()))
        && old.0 != process
    {
        // It was inherited through a fork, and its threads were not: dropping it would wait for them.
        std::mem::forget(old);
    }
    Ok(engine)
}

/// The engine of the best instruction set, asked for once: the question takes microseconds.
fn default_engine() -> PyResult<Engine> {
    static DEFAULT: OnceLock<Engine> = OnceLock::new();
    if let Some(engine) = DEFAULT.get() {
        return Ok(engine.clone());
    }
    let engine = Engine::new().map_err(exception)?;
    Ok(DEFAULT.get_or_init(|| engine).clone())
}
