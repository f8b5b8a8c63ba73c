//! Branches and the end of a thread. The builder's closures make them; see [`crate::control`].

use super::Label;
use crate::describe::{Describe, Reader};

/// Goes to `target`: all lanes, or those that the instruction's guard picks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Branch {
    pub(crate) target: Label,
    /// Where the lanes that part here meet again: each of them comes by, except those that return
    /// or break out of an enclosing loop before. `None` when lanes do not part (no guard), or part
    /// for good (roles).
    pub(crate) reconverge: Option<Label>,
}

impl Describe for Branch {
    fn describe(&self, to: &mut impl Reader) {
        to.name(&["bra"]);
        to.label(self.target);
    }
}

/// The thread is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Return;

impl Describe for Return {
    fn describe(&self, to: &mut impl Reader) {
        to.name(&["ret"]);
    }
}
