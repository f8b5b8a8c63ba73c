//! What can go wrong on the way to an assembled module.

use std::path::PathBuf;

/// Why there is no answer from the assembler.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tool is not where it should be.
    #[error("{} is missing: run `make gate-tools`, which installs it from PyPI", path.display())]
    Missing {
        /// Where the tool was looked for.
        path: PathBuf,
    },
    /// A tool has another version than the one whose word counts.
    #[error("{} must have version {expected}, but says:\n{got}", path.display())]
    Version {
        /// The tool.
        path: PathBuf,
        /// The pinned version.
        expected: String,
        /// What `--version` printed.
        got: String,
    },
    /// ptxas refused the module. Each message is followed by the line it speaks of.
    #[error("ptxas {version} refuses the module for {target}:\n{messages}")]
    Refused {
        /// The version of ptxas.
        version: String,
        /// The architecture asked for.
        target: String,
        /// ptxas's messages, each with its line of PTX.
        messages: String,
    },
    /// A tool's answer has a form that this crate does not know.
    #[error("cannot read {what} in:\n{text}")]
    Unreadable {
        /// What was looked for.
        what: &'static str,
        /// The tool's answer.
        text: String,
    },
    /// A file or a process failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// The system's answer.
        source: std::io::Error,
    },
}

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        |source| Error::Io { what, source }
    }
}
