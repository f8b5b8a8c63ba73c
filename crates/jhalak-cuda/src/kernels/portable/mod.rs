//! Kernels for every card: matrix products by `mma.sync`, tiles brought by `cp.async` from sm_80 on.

mod any_products;
mod backward;
mod copy;
mod epilogue;
mod forward;
mod products;
mod products_f32;

pub use backward::{BACKWARD, backward, backward_shared_bytes};
pub use forward::{FORWARD, forward, shared_bytes};
