//! FlashAttention on x86-64 CPUs: tiled online softmax, forward and backward.

mod arithmetic;
mod careful;
mod dispatch;
mod engine;
mod executor;
mod float_state;
mod forward;
mod isa;
mod memory;
pub mod peak;
mod rows;
mod scores;
mod softcap;
mod tile;
mod units;

pub use engine::Engine;
pub use isa::IsaKind;
