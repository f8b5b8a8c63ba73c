//! What can be wrong with a call, said so that the caller can mend it.

use crate::dtype::DType;

/// Why a call was refused. Raised before any work is done: nothing has been written.
///
/// Every message names the argument, what it must be, and what it was.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tensor has the wrong rank or a wrong size in some dimension.
    #[error("{argument} must have shape {expected}, but has {got}")]
    Shape {
        /// The argument's name, as in the documentation.
        argument: &'static str,
        /// The shape that was needed.
        expected: String,
        /// The shape that was given.
        got: String,
    },
    /// A tensor's elements have a type that this argument cannot take.
    #[error("{argument} must have dtype {expected}, but has {got}")]
    DType {
        /// The argument's name.
        argument: &'static str,
        /// The types that were possible.
        expected: String,
        /// The type that was given.
        got: DType,
    },
    /// Tensors live on different devices, or on one that this build cannot use.
    #[error("{argument} must be on {expected}, but is on {got}")]
    Device {
        /// The argument's name.
        argument: &'static str,
        /// The device that was needed.
        expected: String,
        /// The device that was given.
        got: String,
    },
    /// A value lies outside its range.
    #[error("{argument} must be {expected}, but is {got}")]
    Value {
        /// The argument's name.
        argument: &'static str,
        /// The range that was possible.
        expected: String,
        /// The value that was given.
        got: String,
    },
    /// Strides or an offset reach outside the buffer, or address arithmetic would overflow.
    #[error(
        "{argument} must lie inside its buffer of {available} elements, but reaches element {reached}"
    )]
    OutOfBounds {
        /// The argument's name.
        argument: &'static str,
        /// Elements in the buffer.
        available: usize,
        /// The first element outside that the view would touch.
        reached: i128,
    },
    /// An output writes an element twice, or shares memory with another tensor of the call.
    #[error("{argument} must not overlap {other}")]
    Overlap {
        /// The output's name.
        argument: &'static str,
        /// What it overlaps; `itself` for a stride of 0, say.
        other: &'static str,
    },
    /// Two options or arguments that cannot be given together, or one that needs another.
    #[error("{argument} {rule}")]
    Combination {
        /// The argument's name.
        argument: &'static str,
        /// The rule that was broken.
        rule: &'static str,
    },
    /// Memory for a result or for work space could not be had.
    #[error("{what} needs {bytes} bytes, which could not be allocated")]
    OutOfMemory {
        /// What the memory was for.
        what: &'static str,
        /// How much was asked for.
        bytes: usize,
    },
    /// The environment asks for something this machine does not have.
    #[error("{0}")]
    Environment(String),
}

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn shape(
        argument: &'static str,
        expected: impl Into<String>,
        got: &[usize],
    ) -> Self {
        Error::Shape { argument, expected: expected.into(), got: format!("{got:?}") }
    }

    pub(crate) fn value(
        argument: &'static str,
        expected: impl Into<String>,
        got: impl ToString,
    ) -> Self {
        Error::Value { argument, expected: expected.into(), got: got.to_string() }
    }
}
