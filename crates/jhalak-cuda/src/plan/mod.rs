//! From a checked call to a kernel's class, its grid and its arguments. Pure: no device is needed.
//!
//! ```text
//! Problem ──▶ ForwardClass (what is compiled)
//!        └──▶ grid, shared memory, the value of each parameter (what changes from call to call)
//! ```

mod backward;
mod boxes;
mod forward;
mod hopper;
mod limits;
mod merge;
mod passes;
mod path;
mod place;
mod split;
mod tensors;
mod tile;
mod tuning;
mod values;

pub use backward::BackwardPlan;
pub use boxes::TensorBox;
pub use forward::ForwardPlan;
pub use limits::Limits;
pub use passes::{BackwardWorkspace, DqSum, PassPlan};
pub use path::{Path, Reason};
pub use split::SplitWorkspace;
pub use values::Value;
