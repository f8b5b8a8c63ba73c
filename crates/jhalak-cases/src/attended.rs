//! [`Attended`]: the outputs of a forward call, poisoned before and judged after.

use jhalak_problem::Problem;
use jhalak_problem::reference::{self, judge};

use crate::strided::{Layout, Strided};

/// out and lse.
pub struct Attended {
    /// out.
    pub out: Strided,
    /// lse.
    pub lse: Strided,
}

impl Attended {
    /// Outputs of a problem that nobody has written.
    pub fn poisoned(problem: &Problem<'_>, layout: &Layout) -> Self {
        Attended {
            out: Strided::poisoned(problem.out_dtype(), &problem.out_shape(), layout),
            lse: Strided::poisoned(problem.lse_dtype(), &problem.lse_shape(), layout),
        }
    }

    /// Holds the outputs against the f64 reference of a problem in host memory.
    ///
    /// # Errors
    /// A sentence about what is wrong.
    pub fn judge(&self, problem: &Problem<'_>) -> Result<(), String> {
        if !(self.out.gaps_are_untouched() && self.lse.gaps_are_untouched()) {
            return Err("memory between the elements of out or lse was written".to_owned());
        }
        let exact = reference::forward(problem).map_err(|error| error.to_string())?;
        let yard = reference::in_dtype::forward(problem).map_err(|error| error.to_string())?;
        let out = self.out.values();
        judge::out_close(problem.out_dtype(), &exact.lse, &exact.out, &yard.out, &out)?;
        judge::lse_close(problem.dtype(), &exact.lse, &self.lse.values())
    }
}
