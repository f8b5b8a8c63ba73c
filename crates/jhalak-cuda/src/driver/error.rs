//! What can go wrong between jhalak and the driver.

/// Why the driver did not do what was asked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine has no NVIDIA driver, or one that cannot be loaded.
    #[error("no NVIDIA driver: {library} could not be loaded ({reason})")]
    NoDriver {
        /// The library that was looked for.
        library: String,
        /// The operating system's words.
        reason: String,
    },
    /// The driver is older than everything jhalak needs.
    #[error(
        "the NVIDIA driver is too old: it supports CUDA {}.{}, jhalak needs CUDA 12.0 (driver 525 \
         or newer)",
        version / 1000, version % 1000 / 10
    )]
    OldDriver {
        /// What `cuDriverGetVersion` says: 1000 × major + 10 × minor.
        version: u32,
    },
    /// The driver lacks one function that this call needs.
    #[error("this NVIDIA driver has no function {function}; a newer driver may have it")]
    MissingFunction {
        /// The function's name in the driver.
        function: &'static str,
    },
    /// The driver refused a call, or reports a failure of earlier work on the GPU.
    #[error("{function} failed: {name} ({message})")]
    Call {
        /// The driver's function.
        function: &'static str,
        /// The `CUresult`.
        code: i32,
        /// Its name, `CUDA_ERROR_OUT_OF_MEMORY` say.
        name: String,
        /// The driver's description of it.
        message: String,
    },
    /// The driver's compiler refused a module.
    #[error("the driver cannot compile the module: {name}\n{log}")]
    Compile {
        /// The name of the `CUresult`.
        name: String,
        /// The compiler's messages, with line numbers of the PTX text.
        log: String,
    },
    /// The driver's compiler accepted a module, but put waits between instructions that are meant
    /// to overlap, or ignored a request for registers: it would run far below its speed.
    #[error("the driver's compiler serialises the module:\n{advisory}")]
    Serialised {
        /// The compiler's words.
        advisory: String,
    },
    /// A tensor map breaks one of the hardware's rules.
    #[error("tensor map: {argument} must be {rule}, but is {got}")]
    TensorMap {
        /// What is wrong, `strides[0]` say.
        argument: String,
        /// What it must be.
        rule: String,
        /// What it is.
        got: String,
    },
    /// A text for the driver contains a zero byte, where C sees its end.
    #[error("{argument} must not contain a zero byte")]
    ZeroByte {
        /// What the text is.
        argument: &'static str,
    },
    /// This process was forked from one that had already used CUDA.
    #[error(
        "CUDA cannot be used in a process forked from one that has used it: start the process by \
         spawn, or fork before the first use"
    )]
    Forked,
}

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
