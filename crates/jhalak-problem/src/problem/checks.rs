//! Checks of the options and of the tensors that every call has.

use super::dim;
use crate::attention::Attention;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::philox::Dropout;
use crate::tensor::{Device, TensorView};

/// The largest |q_start| and |k_start|: positions and their differences stay within `i64`.
const MAX_START: i64 = 1 << 61;

pub(super) fn f32_or(dtype: DType) -> String {
    if dtype == DType::F32 { "f32".into() } else { format!("f32 or {dtype}") }
}

pub(super) fn check_dtype(
    argument: &'static str,
    view: &TensorView<'_>,
    dtype: DType,
) -> Result<()> {
    if view.dtype() == dtype {
        return Ok(());
    }
    Err(Error::DType { argument, expected: dtype.to_string(), got: view.dtype() })
}

pub(super) fn device_error(argument: &'static str, expected: Device, got: Device) -> Error {
    Error::Device { argument, expected: expected.to_string(), got: got.to_string() }
}

pub(super) fn check_devices(
    attention: &Attention<'_>,
    q: &TensorView<'_>,
    k: &TensorView<'_>,
    v: &TensorView<'_>,
) -> Result<()> {
    let others = [
        ("k", Some(k)),
        ("v", Some(v)),
        ("bias", attention.bias.as_ref()),
        ("mask", attention.mask.as_ref()),
        ("alibi_slopes", attention.alibi_slopes.as_ref()),
        ("sinks", attention.sinks.as_ref()),
        ("cu_seqlens_q", attention.cu_seqlens_q.as_ref()),
        ("cu_seqlens_k", attention.cu_seqlens_k.as_ref()),
        ("seqused_q", attention.seqused_q.as_ref()),
        ("seqused_k", attention.seqused_k.as_ref()),
    ];
    for (argument, view) in others {
        if let Some(view) = view.filter(|view| view.device() != q.device()) {
            return Err(device_error(argument, q.device(), view.device()));
        }
    }
    Ok(())
}

pub(super) fn check_dtypes(
    q: &TensorView<'_>,
    k: &TensorView<'_>,
    v: &TensorView<'_>,
) -> Result<()> {
    if !q.dtype().is_float() {
        return Err(Error::DType {
            argument: "q",
            expected: "f32, f16, bf16 or f64".into(),
            got: q.dtype(),
        });
    }
    check_dtype("k", k, q.dtype())?;
    check_dtype("v", v, q.dtype())
}

pub(super) fn check_shapes(
    packed: bool,
    q: &TensorView<'_>,
    k: &TensorView<'_>,
    v: &TensorView<'_>,
) -> Result<()> {
    let wanted = if packed {
        ["[total_q, Hq, D]", "[total_k, Hk, D]", "[total_k, Hk, Dv]"]
    } else {
        ["[B, Sq, Hq, D]", "[B, Sk, Hk, D]", "[B, Sk, Hk, Dv]"]
    };
    let rank = if packed { 3 } else { 4 };
    for (argument, view, wanted) in [("q", q, wanted[0]), ("k", k, wanted[1]), ("v", v, wanted[2])]
    {
        if view.shape().len() != rank {
            return Err(Error::shape(argument, wanted, view.shape()));
        }
        if dim(view, 3) == 0 {
            return Err(Error::shape(
                argument,
                format!("{wanted} with a head dimension of at least 1"),
                view.shape(),
            ));
        }
    }
    if dim(k, 3) != dim(q, 3) {
        let expected = format!("{} with D = {}, as q", wanted[1], dim(q, 3));
        return Err(Error::shape("k", expected, k.shape()));
    }
    if !packed && k.shape()[0] != q.shape()[0] {
        let expected = format!("{} with B = {}, as q", wanted[1], q.shape()[0]);
        return Err(Error::shape("k", expected, k.shape()));
    }
    let leading = rank - 1;
    if v.shape()[..leading] != k.shape()[..leading] {
        let expected = format!("{:?} and Dv, as k", &k.shape()[..leading]);
        return Err(Error::shape("v", expected, v.shape()));
    }
    Ok(())
}

pub(super) fn checked_scale(attention: &Attention<'_>, head_dim: usize) -> Result<f64> {
    match attention.scale {
        None => Ok(1.0 / (head_dim as f64).sqrt()),
        Some(scale) if (scale as f32).is_finite() => Ok(scale),
        Some(scale) => Err(Error::value("scale", "a finite f32 number", scale)),
    }
}

pub(super) fn checked_softcap(attention: &Attention<'_>) -> Result<Option<f64>> {
    let c = attention.softcap;
    if c.is_finite() && c >= 0.0 && (c as f32).is_finite() {
        return Ok((c as f32 > 0.0).then_some(c));
    }
    Err(Error::value("softcap", "a finite number of at least 0", c))
}

/// Keys visible to the left and right of the diagonal; `i64::MAX` is unbounded.
pub(super) fn window_bounds(attention: &Attention<'_>) -> Result<(i64, i64)> {
    let (left, right) = attention.window.unwrap_or((-1, -1));
    for bound in [left, right] {
        if bound < -1 {
            return Err(Error::value("window", "at least 0, or -1 for unbounded", bound));
        }
    }
    let unbounded = |bound: i64| if bound == -1 { i64::MAX } else { bound };
    Ok((unbounded(left), if attention.causal { 0 } else { unbounded(right) }))
}

pub(super) fn checked_starts(attention: &Attention<'_>) -> Result<Option<(i64, i64)>> {
    for (argument, start) in [("q_start", attention.q_start), ("k_start", attention.k_start)] {
        if let Some(start) = start.filter(|s| !(-MAX_START..=MAX_START).contains(s)) {
            return Err(Error::value(argument, "within ±2^61", start));
        }
    }
    Ok(match (attention.q_start, attention.k_start) {
        (None, None) => None,
        (q, k) => Some((q.unwrap_or(0), k.unwrap_or(0))),
    })
}

pub(super) fn checked_dropout(attention: &Attention<'_>) -> Result<Option<Dropout>> {
    let Some(dropout) = attention.dropout else { return Ok(None) };
    let p = dropout.probability();
    if !(0.0..=1.0).contains(&p) {
        return Err(Error::value("dropout p", "from 0 to 1", p));
    }
    Ok((dropout.threshold() > 0).then_some(dropout))
}
