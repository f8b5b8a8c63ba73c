//! FlashAttention on x86-64 CPUs: tiled online softmax, forward and backward.

mod arithmetic;
#[cfg(target_arch = "x86_64")]
mod arithmetic_bf16;
mod backward;
#[doc(hidden)]
pub mod baseline;
mod caches;
mod careful;
mod dispatch;
mod engine;
mod executor;
mod float_state;
mod forward;
mod isa;
#[doc(hidden)]
pub mod kernels;
mod memory;
mod merge;
mod pack;
pub mod peak;
mod rows;
mod scores;
mod softcap;
mod streamed;
mod tile;
mod units;

pub use engine::Engine;
pub use isa::IsaKind;
