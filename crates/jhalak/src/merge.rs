//! [`merge`]: one result from parts that saw different keys.

use jhalak_cpu::Engine;
use jhalak_problem::{Error, Result, Tensor, TensorView};

use crate::results::Attended;

/// Merges results of the same queries over different keys into the result over all of them.
///
/// Exact: each part is weighted by its share of the softmax's denominator, which its lse holds. A
/// part whose lse is −∞ saw no key, and counts for nothing. The result has the dtypes of the
/// first part; compute parts with `out_dtype(DType::F32)`, so that they are not rounded in
/// between. With attention sinks, give the sinks to exactly one part.
///
/// [`Engine::merge`] does the same in the caller's memory.
///
/// ```
/// use jhalak::{Attention, FlashAttention, Tensor, merge};
///
/// let numbers = |n: usize| (0..n).map(|x| (x as f32 * 0.7).sin()).collect::<Vec<_>>();
/// let q = Tensor::from_vec(numbers(2 * 8), &[1, 2, 1, 8])?;
/// let kv = numbers(6 * 8);
/// let near = Tensor::from_vec(kv[..4 * 8].to_vec(), &[1, 4, 1, 8])?;
/// let far = Tensor::from_vec(kv[4 * 8..].to_vec(), &[1, 2, 1, 8])?;
/// let all = Tensor::from_vec(kv, &[1, 6, 1, 8])?;
///
/// let attention = Attention::new();
/// let parts = [attention.forward(&q, &near, &near)?, attention.forward(&q, &far, &far)?];
/// let merged = merge(&parts)?;
/// let whole = attention.forward(&q, &all, &all)?;
/// for (a, b) in merged.out.to_f64_vec().into_iter().zip(whole.out.to_f64_vec()) {
///     assert!((a - b).abs() < 1e-6);
/// }
/// # Ok::<(), jhalak::Error>(())
/// ```
///
/// # Errors
/// No parts; parts whose shapes or dtypes do not fit together.
pub fn merge<'p>(parts: impl IntoIterator<Item = &'p Attended>) -> Result<Attended> {
    let parts: Vec<(TensorView<'_>, TensorView<'_>)> =
        parts.into_iter().map(|part| (part.out.view(), part.lse.view())).collect();
    let Some((out, lse)) = parts.first() else {
        return Err(Error::Value {
            argument: "parts",
            expected: "at least one result".into(),
            got: "none".into(),
        });
    };
    let mut out = Tensor::zeros(out.dtype(), out.shape())?;
    let mut lse = Tensor::zeros(lse.dtype(), lse.shape())?;
    Engine::new()?.merge(&parts, out.view_mut(), lse.view_mut())?;
    Ok(Attended { out, lse })
}
