//! The small kernels around attention. They read and write each number once, so memory alone
//! decides how fast they are.
//!
//! ```text
//! delta ──▶ the backward pass ──▶ finish_dq, finish_dbias
//!   └─────▶ dsinks
//! forward over parts of the keys ──▶ merge
//! ```

mod compensated;
mod delta;
mod dsinks;
mod finish_dbias;
mod finish_dq;
mod lanes;
mod merge;
mod rows;

pub use delta::{DELTA, Delta, DeltaClass, delta};
pub use dsinks::{DSINKS, DsinksClass, dsinks};
pub use finish_dbias::{FINISH_DBIAS, FinishDbiasClass, finish_dbias};
pub use finish_dq::{FINISH_DQ, FinishDqClass, finish_dq};
pub use merge::{MERGE, MergeClass, Parts, merge};

/// Threads of a block, in the kernels that go over rows.
pub const THREADS: u32 = 256;
