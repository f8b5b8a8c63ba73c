//! What Python is told when a call cannot be made.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use jhalak::Error;
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;

/// The exception of Python that an error of jhalak becomes, with the same words.
pub(crate) fn exception(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::DType { .. } => PyTypeError::new_err(text),
        Error::OutOfMemory { .. } => PyMemoryError::new_err(text),
        Error::Environment(_) => PyRuntimeError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

/// Runs `work` without the interpreter's lock; a panic becomes a RuntimeError.
pub(crate) fn without_python<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> jhalak::Result<T> + Send,
) -> PyResult<T> {
    match py.detach(|| catch_unwind(AssertUnwindSafe(work))) {
        Ok(result) => result.map_err(exception),
        Err(panic) => Err(PyRuntimeError::new_err(format!(
            "jhalak failed inside, which is a bug in it: {}",
            message(&*panic)
        ))),
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    if let Some(text) = panic.downcast_ref::<&str>() {
        text
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text
    } else {
        "no message"
    }
}
