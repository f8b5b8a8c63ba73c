//! The compiled part of the Python package `jhalak`.
//!
//! Python allocates with the caller's framework and passes integers; each function here makes one
//! call of the `jhalak` crate from them, without the interpreter's lock. No attention happens here.

mod calls;
mod dlpack;
mod engine;
mod error;
mod options;
mod tensor;

use pyo3::pymodule;

/// Exact attention in linear memory; the package `jhalak` is what to import.
#[pymodule]
mod _jhalak {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::calls::{backward, dropout_mask, forward, merge};
    #[pymodule_export]
    use crate::dlpack::{Array, Borrowed};

    #[pymodule_init]
    fn constants(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }

    /// The instruction set that calls on the CPU use.
    #[pyfunction]
    fn instruction_set() -> PyResult<String> {
        Ok(crate::engine::engine(jhalak::Device::Cpu, 0)?.isa().to_string())
    }
}
