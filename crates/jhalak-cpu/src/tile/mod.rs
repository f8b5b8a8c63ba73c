//! What is done on tiles: products, the online-softmax step, and the gradient's elementwise part.

pub(crate) mod gemm;
#[cfg(target_arch = "x86_64")]
pub(crate) mod gemm_bf16;
pub(crate) mod gradient;
pub(crate) mod in_place;
pub(crate) mod softmax;
