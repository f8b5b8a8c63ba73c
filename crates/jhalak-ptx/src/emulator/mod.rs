//! Runs a kernel on the CPU, lane by lane, and judges it.
//!
//! A [`Launch`] runs one kernel of a module for a grid, on a [`Memory`]. It computes what a device
//! computes, and reports the first thing that a device would let pass in silence: a race, a read of
//! memory nobody wrote, an access out of bounds, a barrier that not all lanes reach, a deadlock. A
//! [`Report`] names the instruction, the Rust line that emitted it, the block, warp and lane.
//!
//! ```text
//! Launch ──▶ Machine: a few blocks at once, warps in bursts, in the order that the seed picks
//!              └ Block: warps, shared memory, barriers
//!                  └ Warp: registers of 32 lanes, paths of diverged lanes, clocks
//! ```
//!
//! Races are found by happens-before, not by luck: whichever order a run happens to take, two
//! accesses of one place (one of them a write) must be ordered by barriers, by `bar.warp.sync`
//! between lanes of a warp, or by releases and acquires; or both must be strong. What is copied
//! asynchronously arrives as late as its wait allows, or at a random earlier moment. Seeds still
//! matter: they change which roles meet, what deadlocks, and which way control flow goes.
//!
//! Integers, sums, products, fused products and conversions agree with the hardware bit for bit.
//! Approximate functions (`ex2`, `lg2`, `rcp`, `sqrt`, `tanh`) and sums inside matrix products are
//! computed more exactly than the hardware does, and may differ from it in the last bits.

mod arena;
mod block;
mod clock;
mod engine;
mod execute;
mod fault;
mod launch;
mod machine;
mod mbarrier;
mod memory;
mod paths;
mod random;
mod registers;
mod seeds;
mod shadow;
mod tile;
mod transfer;
mod warp;

pub use crate::address::Space;
pub use fault::{Action, Fault, Place, Report};
pub use launch::{Argument, Launch, Statistics};
pub use memory::{Memory, Value};
pub use seeds::run_seeds;
