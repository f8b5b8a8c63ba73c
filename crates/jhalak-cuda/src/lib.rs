//! FlashAttention on NVIDIA GPUs, without a CUDA toolkit.
//!
//! So far this crate holds the [`driver`] layer: what jhalak needs of NVIDIA's driver, found at run
//! time. A machine without one gets an error that says so.

pub mod driver;
pub mod kernels;
pub mod plan;
