//! Why a call on a GPU failed.

use crate::driver;

/// What can be wrong with a call on a GPU.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The call itself, or something that this GPU cannot do. Nothing was launched.
    #[error(transparent)]
    Call(#[from] jhalak_problem::Error),
    /// The driver, or the machine.
    #[error(transparent)]
    Driver(#[from] driver::Error),
}

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
