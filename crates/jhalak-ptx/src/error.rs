//! What can be wrong with a kernel, said with the rule and with the Rust line.

use std::fmt;
use std::panic::Location;

use crate::target::{Target, Version};

/// Why a module could not be built. It names the first fault only: what follows from it would be
/// noise. Shown by `{:?}` as by `{}`, so that `unwrap` reads well.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An instruction breaks a rule of PTX.
    #[error("{location}: {rule}\n  in `{instruction}` of kernel `{kernel}`")]
    Illegal {
        /// The kernel's name.
        kernel: String,
        /// The instruction as text.
        instruction: String,
        /// The rule.
        rule: &'static str,
        /// The Rust line that emitted the instruction.
        location: &'static Location<'static>,
    },
    /// An instruction that the module's target does not have.
    #[error(
        "{location}: this form needs {needs} (PTX {version}), the module is for {target}\n  in `{instruction}` of kernel `{kernel}`"
    )]
    Unsupported {
        /// The kernel's name.
        kernel: String,
        /// The instruction as text.
        instruction: String,
        /// The oldest target that has the form.
        needs: Target,
        /// The version of PTX that brought it there.
        version: Version,
        /// The module's target.
        target: Target,
        /// The Rust line that emitted the instruction.
        location: &'static Location<'static>,
    },
    /// A kernel's declarations break a rule.
    #[error("{location}: {rule}\n  in kernel `{kernel}`, {what}")]
    Declaration {
        /// The kernel's name.
        kernel: String,
        /// What was declared.
        what: String,
        /// The rule.
        rule: &'static str,
        /// The Rust line that declared it.
        location: &'static Location<'static>,
    },
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
