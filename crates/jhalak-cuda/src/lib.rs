//! FlashAttention on NVIDIA GPUs, without a CUDA toolkit.
//!
//! ```text
//! a checked call ──▶ plan ──▶ a kernel's class, grid, arguments ──▶ Engine ──▶ the driver
//!                                       └──▶ kernels: PTX text, compiled once by the driver
//! ```
//!
//! [`Engine`] runs calls on one GPU. [`plan`] and [`kernels`] need no GPU; [`driver`] is what jhalak
//! needs of NVIDIA's driver, found at run time. A machine without one gets an error that says so.

pub mod driver;
mod engine;
mod error;
pub mod kernels;
pub mod plan;
mod warm_up;

pub use engine::Engine;
pub use error::{Error, Result};
