//! What NVIDIA's own assembler says about a PTX module, for jhalak's tests. No GPU is needed.
//!
//! ptxas comes from PyPI (`make gate-tools`), in one pinned version that decides: [`Gate::new`]. A
//! newer one, [`Gate::newer`], is only reported beside it, so that a change in NVIDIA's compiler is
//! seen before users meet it in their driver.
//!
//! ```no_run
//! # let ptx = "";
//! let gate = jhalak_gate::Gate::new()?;
//! let module = gate.assemble(ptx, "sm_90a")?;
//! module.assert_no_advisory();
//! module.kernel("forward").assert_no_spills();
//! assert_eq!(module.kernel("forward").registers, 168);
//! assert!(module.sass()?.kernel("forward").count("HGMMA") > 0);
//! # Ok::<(), jhalak_gate::Error>(())
//! ```
//!
//! A tool that is missing is an error that names the command to install it: nothing is skipped.
//! Results are kept in jhalak's cache folder, by the hash of the text, the target and the tools'
//! versions, so that an unchanged module costs nothing the next time.

mod assembled;
mod error;
mod gate;
mod results;
mod sass;
mod tools;

pub use assembled::{Assembled, Kernel};
pub use error::{Error, Result};
pub use gate::Gate;
pub use sass::{Opcodes, Sass};
