//! The backward pass: five products per tile, gradients in f32, no atomics, no partial copies.
//!
//! ```text
//! S = Q·Kᵀ   P = exp(S − lse)   dP = dO·Vᵀ   dS = P ∘ (dP − delta)
//! dV += Pᵀ·dO      dK += dSᵀ·Q      dQ += dS·K
//! ```
//!
//! A tile adds to dQ for its queries and to dK and dV for its keys, so tiles of one row or one
//! column must not run at once. Queries and keys are cut into as many parts as there are phases,
//! and each phase runs one tile of parts per row and column, a Latin square:
//!
//! ```text
//!              key parts
//!             0   1   2   3         phase 0: the tiles marked 0, at once
//!          0 [0] [3] [2] [1]        phase 1: those marked 1, and so on
//! query    1 [1] [0] [3] [2]
//! parts    2 [2] [1] [0] [3]        Every gradient element is added to in the order of the
//!          3 [3] [2] [1] [0]        phases: the same bits for any number of threads.
//! ```
//!
//! (Gradient formulas: Dao et al., 2022, FlashAttention, appendix B.4.)

mod bias;
mod careful;
mod pass;
mod plan;
mod prepare;
mod tile;

pub(crate) use pass::backward;
