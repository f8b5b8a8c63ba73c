//! Exact attention in linear memory.
//!
//! Standard attention writes down every score between every query and every key: for 32,768
//! tokens and 8 heads that is 32 GiB, most of it read once and thrown away. jhalak (ঝলক, "flash")
//! computes the same result tile by tile and keeps only running sums, so memory grows with the
//! length of the sequence and not with its square:
//!
//! ```text
//!                keys and values, block by block →
//!              ┌───────┬───────┬───────┬───────┐
//!      queries │ ■ ■ ■ │ ◪     │       │       │   for each tile, on the fly:
//!         ↓    ├───────┼───────┼───────┼───────┤     scores    s = scale · q kᵀ
//!              │ ■ ■ ■ │ ■ ■ ■ │ ◪     │       │     maximum   m  ─┐ corrected as
//!              ├───────┼───────┼───────┼───────┤     sum       l   │ each new block
//!              │ ■ ■ ■ │ ■ ■ ■ │ ■ ■ ■ │ ◪     │     output    o  ─┘ comes in
//!              └───────┴───────┴───────┴───────┘   at the end: out = o / l, lse = m + ln l
//!       causal: full tiles need no mask, empty tiles no work
//! ```
//!
//! It is FlashAttention (Dao et al., 2022; Dao, 2023), exact and deterministic, forward and
//! backward, on the CPU; on NVIDIA GPUs by [`FlashAttention::on_gpu`]. What a call means to the last detail, for rows that see no key, for NaN,
//! for dropout, is written once and tested against [`reference`](mod@reference).
//!
//! # A first call
//!
//! Tensors are [batch, sequence, heads, head dimension]. Options are a plain value,
//! [`Attention`]; the trait [`FlashAttention`] runs it.
//!
//! ```
//! use jhalak::{Attention, FlashAttention, Tensor};
//!
//! # let numbers = |n: usize| (0..n).map(|x| (x as f32 * 0.37).sin()).collect::<Vec<_>>();
//! let q = Tensor::from_vec(numbers(128 * 8 * 64), &[1, 128, 8, 64])?;
//! let k = Tensor::from_vec(numbers(128 * 8 * 64), &[1, 128, 8, 64])?;
//! let v = Tensor::from_vec(numbers(128 * 8 * 64), &[1, 128, 8, 64])?;
//!
//! let attended = Attention::new().causal().forward(&q, &k, &v)?;
//! assert_eq!(attended.out.shape(), [1, 128, 8, 64]);
//! assert_eq!(attended.lse.shape(), [1, 8, 128]);
//! # Ok::<(), jhalak::Error>(())
//! ```
//!
//! Memory that lives elsewhere needs no copy: [`TensorView`] takes a slice with any strides, so a
//! [batch, heads, sequence, dimension] tensor is a view away, and
//! [`forward_into`](FlashAttention::forward_into) writes where you like.
//!
//! ```
//! use jhalak::{Attention, FlashAttention, TensorView, TensorViewMut};
//!
//! let (heads, seqlen, dim) = (2, 4, 8);
//! # let data: Vec<f32> = (0..heads * seqlen * dim).map(|x| (x as f32).sin()).collect();
//! // [B, H, S, D] in memory, read as [B, S, H, D].
//! let shape = [1, seqlen, heads, dim];
//! let strides = [0, dim as isize, (seqlen * dim) as isize, 1];
//! let x = TensorView::strided(&data, 0, &shape, &strides)?;
//! let mut out = vec![0f32; data.len()];
//! let mut lse = vec![0f32; heads * seqlen];
//! Attention::new().forward_into(
//!     x,
//!     x,
//!     x,
//!     TensorViewMut::strided(&mut out, 0, &shape, &strides)?,
//!     TensorViewMut::from_slice(&mut lse, &[1, heads, seqlen])?,
//! )?;
//! # assert!(out.iter().any(|&x| x != 0.0));
//! # Ok::<(), jhalak::Error>(())
//! ```
//!
//! # Fewer key heads than query heads
//!
//! Grouped-query and multi-query attention need no option: give k and v fewer heads.
//!
//! ```
//! # use jhalak::{Attention, FlashAttention, Tensor};
//! let q = Tensor::from_vec(vec![0.5f32; 16 * 8 * 32], &[1, 16, 8, 32])?;
//! let kv = Tensor::from_vec(vec![0.5f32; 16 * 2 * 32], &[1, 16, 2, 32])?;
//! // Query heads 0 to 3 read key head 0, the others key head 1.
//! let attended = Attention::new().forward(&q, &kv, &kv)?;
//! # assert_eq!(attended.out.shape(), q.shape());
//! # Ok::<(), jhalak::Error>(())
//! ```
//!
//! # What a query sees
//!
//! Causal attention puts the last query on the last key, which is what generating text needs:
//! new queries come at the end of a longer cache. `q_start(0)` puts the first query on the first
//! key instead. A window limits how far back and ahead a query looks.
//!
//! ```
//! # use jhalak::{Attention, FlashAttention, Tensor};
//! let q = Tensor::from_vec(vec![0.0f32; 2 * 4], &[1, 2, 1, 4])?; // 2 queries
//! let k = Tensor::from_vec(vec![0.0f32; 5 * 4], &[1, 5, 1, 4])?; // 5 keys
//! // The lse of equal scores tells how many keys a query sees.
//! let seen = |attention: Attention| -> Result<Vec<f64>, jhalak::Error> {
//!     let lse = attention.forward(&q, &k, &k)?.lse;
//!     Ok(lse.to_f64_vec().into_iter().map(|x| x.exp().round()).collect())
//! };
//! assert_eq!(seen(Attention::new())?, [5.0, 5.0]);
//! assert_eq!(seen(Attention::new().causal())?, [4.0, 5.0]);
//! assert_eq!(seen(Attention::new().causal().q_start(0))?, [1.0, 2.0]);
//! assert_eq!(seen(Attention::new().window(2, 0))?, [3.0, 3.0]);
//! assert_eq!(seen(Attention::new().window(1, 1))?, [3.0, 2.0]);
//! # Ok::<(), jhalak::Error>(())
//! ```
//!
//! # Sequences of different lengths
//!
//! Pack them one after the other and say where each one starts; nothing is padded.
//!
//! ```
//! # use jhalak::{Attention, FlashAttention, Tensor, TensorView};
//! # let x = Tensor::from_vec((0..9 * 2 * 8).map(|x| (x as f32).cos()).collect(), &[9, 2, 8])?;
//! // Three sequences of 4, 0 and 5 rows: x is [total, heads, dimension].
//! let starts = [0i32, 4, 4, 9];
//! let starts = TensorView::from_slice(&starts, &[4])?;
//! let attended = Attention::new().causal().cu_seqlens(starts, starts).forward(&x, &x, &x)?;
//! assert_eq!(attended.out.shape(), [9, 2, 8]);
//! assert_eq!(attended.lse.shape(), [2, 9]);
//! # Ok::<(), jhalak::Error>(())
//! ```
//!
//! # Gradients
//!
//! The backward takes what the forward returned, and computes the scores again rather than
//! keeping them. [`backward_into`](FlashAttention::backward_into) computes single gradients, adds
//! to f32 sums, and takes the gradient of lse.
//!
//! ```
//! # use jhalak::{Attention, FlashAttention, Tensor};
//! # let x = Tensor::from_vec((0..6 * 8).map(|x| (x as f32).cos()).collect(), &[1, 6, 1, 8])?;
//! # let (q, k, v, dout) = (&x, &x, &x, &x);
//! let attention = Attention::new().causal().dropout(0.1, 42, 0);
//! let saved = attention.forward(q, k, v)?;
//! let gradients = attention.backward(q, k, v, &saved, dout)?;
//! assert_eq!(gradients.dq.shape(), q.shape());
//! # Ok::<(), jhalak::Error>(())
//! ```
//!
//! # Keys that arrive in parts
//!
//! Ring attention, caches on several machines, a shared prefix: attend to each part, tell where it
//! stands with `q_start` and `k_start`, and [`merge`] gives the result over all of it.
//!
//! ```
//! # use jhalak::{Attention, DType, FlashAttention, Tensor, TensorView, merge};
//! # let data: Vec<f32> = (0..8 * 16).map(|x| (x as f32).cos()).collect();
//! let x = TensorView::from_slice(&data, &[1, 8, 1, 16])?;
//! let first = TensorView::from_slice(&data[..5 * 16], &[1, 5, 1, 16])?;
//! let second = TensorView::from_slice(&data[5 * 16..], &[1, 3, 1, 16])?;
//!
//! let causal = Attention::new().causal().out_dtype(DType::F32);
//! let merged = merge(&[
//!     causal.clone().q_start(0).k_start(0).forward(x, first, first)?,
//!     causal.clone().q_start(0).k_start(5).forward(x, second, second)?,
//! ])?;
//! let whole = causal.forward(x, x, x)?;
//! # let pairs = merged.out.to_f64_vec().into_iter().zip(whole.out.to_f64_vec());
//! # assert!(pairs.map(|(a, b)| (a - b).abs()).all(|error| error < 1e-6));
//! # Ok::<(), jhalak::Error>(())
//! ```
//!
//! # ndarray
//!
//! With the feature `ndarray`, arrays and views go in and out as they are, transposed, reversed
//! and sliced ones too.
//!
#![cfg_attr(feature = "ndarray", doc = "```")]
#![cfg_attr(not(feature = "ndarray"), doc = "```ignore")]
//! use jhalak::{Attention, FlashAttention};
//! use ndarray::{Array3, Array4};
//!
//! let x = Array4::from_shape_fn((1, 2, 6, 8), |(_, h, s, d)| (h + s * d) as f32 * 0.1);
//! let x = x.view().permuted_axes([0, 2, 1, 3]); // [B, H, S, D] seen as [B, S, H, D]
//! let mut out = Array4::<f32>::zeros((1, 6, 2, 8));
//! let mut lse = Array3::<f32>::zeros((1, 2, 6));
//! Attention::new().causal().forward_into(&x, &x, &x, &mut out, &mut lse)?;
//! # assert!((&out.slice(ndarray::s![0, 0, .., ..]) - &x.slice(ndarray::s![0, 0, .., ..]))
//! #     .iter().all(|x| x.abs() < 1e-6));
//! # Ok::<(), jhalak::Error>(())
//! ```
//!
//! # Threads and instructions
//!
//! A call uses the best instructions the machine has, and every core. [`Engine`] chooses others,
//! [`FlashAttention::on`] runs a call there. A result depends on the instruction set, never on
//! the number of threads.

mod dropout;
mod flash;
mod gpu;
mod merge;
mod results;
mod views;

pub use flash::{FlashAttention, On};
pub use gpu::OnGpu;
pub use half::{bf16, f16};
pub use jhalak_cpu::{Engine, IsaKind};
/// NVIDIA GPUs: the engine for [`FlashAttention::on_gpu`], and the driver's streams and memory.
pub use jhalak_cuda as cuda;
pub use jhalak_problem::{
    Attention, BackwardInputs, DType, Device, Element, Error, Gradient, GradientTargets, MAX_RANK,
    OutOrDelta, Problem, Result, Tensor, TensorView, TensorViewMut, reference,
};
pub use merge::merge;
pub use results::{Attended, Gradients};
pub use views::{IntoView, IntoViewMut};

/// The examples of the README run as doc tests too.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
