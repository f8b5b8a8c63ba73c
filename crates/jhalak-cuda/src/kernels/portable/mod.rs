//! Kernels for every card: matrix products by `mma.sync`, tiles brought by `cp.async` from sm_80 on.

mod copy;
mod epilogue;
mod forward;
mod products;
mod products_f32;
mod repair;

pub use forward::{FORWARD, forward, shared_bytes};
