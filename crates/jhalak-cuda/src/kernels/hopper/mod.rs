//! Kernels for Hopper: matrix products of warpgroups, tiles brought by the copy engine, and warps
//! with roles of their own.
//!
//! ```text
//! warpgroup 0    warp 0     which tile comes next; copies of Q, K, V     (producer, schedule)
//!                warps 1 …  copies of out, one for each warpgroup below  (store)
//! warpgroups 1 … S = Q·Kᵀ, softmax, O += P·V of 64 rows each             (consumer, softmax)
//! ```

mod class;
mod consumer;
mod epilogue;
mod forward;
mod mask;
mod memory;
mod order;
mod producer;
mod products;
mod ring;
mod schedule;
mod softmax;
mod store;
mod work;

pub use class::{HopperClass, HopperOrder, HopperSoftmax, HopperTuning};
pub use forward::{FORWARD, forward};
