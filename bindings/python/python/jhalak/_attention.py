"""The functions everybody calls, for any kind of array."""

import sys
from collections.abc import Iterable
from typing import Any

from jhalak import _arrays, _raw
from jhalak._results import Gradients
from jhalak._types import Array, Window


def _is_torch(x):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def _torch():
    calls = sys.modules.get("jhalak.torch._calls")
    if calls is None:
        from jhalak.torch import _calls as calls
    return calls


def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    scale: float | None = None,
    causal: bool = False,
    window: Window | None = None,
    softcap: float | None = 0.0,
    bias: Array | None = None,
    mask: Array | None = None,
    alibi_slopes: Array | None = None,
    sinks: Array | None = None,
    dropout_p: float = 0.0,
    seed: int | None = None,
    offset: int = 0,
    q_start: int | None = None,
    k_start: int | None = None,
    seqused_q: Array | None = None,
    seqused_k: Array | None = None,
    out_dtype: Any = None,
    return_lse: bool = False,
    layout: str = "bshd",
) -> Any:
    """Exact attention in linear memory: softmax(scale · q kᵀ) v.

    q is [B, Sq, Hq, D], k [B, Sk, Hk, D], v [B, Sk, Hk, Dv], all float32, float16, bfloat16 or
    float64, with any strides. Hq is a multiple of Hk: query head h reads key head h // (Hq // Hk).
    With layout="bhsd" the heads come first: [B, H, S, D], for out too.

    Args:
        scale: what q·k is multiplied by; 1/√D unless given.
        causal: hides the keys after the query; the last query sits on the last key. q_start=0
            puts the first query on the first key instead.
        window: (left, right), the keys seen before and after the query's position, both
            inclusive; None or -1 is unbounded.
        softcap: c > 0 turns a score s into c · tanh(s / c).
        bias: added to the scores; broadcasts to [B, Hq, Sq, Sk]; float32 or the dtype of q.
        mask: bool, broadcasts to [B, Hq, Sq, Sk]; False hides the key.
        alibi_slopes: [Hq] or [B, Hq], float32.
        sinks: [Hq], joins the softmax's denominator.
        dropout_p: the share of weights that is dropped. seed and offset choose which; torch's
            generator draws them unless given.
        q_start, k_start: positions of the first query and key, for parts of a longer context.
        seqused_q, seqused_k: [B], how many rows of each sequence are used.
        out_dtype: float32 for results that are merged later; the dtype of q unless given.
        return_lse: also returns lse [B, Hq, Sq], the logarithm of each row's sum.

    Returns:
        out [B, Sq, Hq, Dv], or (out, lse). A query that sees no key gives 0 and -inf.
    """
    if _is_torch(q):
        calls = _torch()
        if bias is mask is alibi_slopes is sinks is seqused_q is seqused_k is None:
            tensors = calls.NO_TENSORS
        else:
            tensors = (bias, mask, alibi_slopes, sinks, None, None, seqused_q, seqused_k)
        left, right = (-1, -1) if window is None else _raw.window_bounds(window)
        scalars = (scale, causal, left, right, softcap or 0.0, dropout_p, q_start, k_start)
        result = calls.attention(q, k, v, tensors, scalars, seed, offset, out_dtype, layout)
        return result if return_lse else result[0]
    options = {
        "scale": scale,
        "causal": causal,
        "window": window,
        "softcap": softcap,
        "bias": bias,
        "mask": mask,
        "alibi_slopes": alibi_slopes,
        "sinks": sinks,
        "dropout_p": dropout_p,
        "seed": seed,
        "offset": offset,
        "q_start": q_start,
        "k_start": k_start,
        "seqused_q": seqused_q,
        "seqused_k": seqused_k,
        "out_dtype": out_dtype,
        "layout": layout,
    }
    result = _arrays.attention(q, k, v, options)
    return result if return_lse else result[0]


def varlen_attention(
    q: Array,
    k: Array,
    v: Array,
    cu_seqlens_q: Array,
    cu_seqlens_k: Array,
    *,
    max_seqlen_q: Any = None,
    max_seqlen_k: Any = None,
    scale: float | None = None,
    causal: bool = False,
    window: Window | None = None,
    softcap: float | None = 0.0,
    bias: Array | None = None,
    mask: Array | None = None,
    alibi_slopes: Array | None = None,
    sinks: Array | None = None,
    dropout_p: float = 0.0,
    seed: int | None = None,
    offset: int = 0,
    q_start: int | None = None,
    k_start: int | None = None,
    seqused_q: Array | None = None,
    seqused_k: Array | None = None,
    out_dtype: Any = None,
    return_lse: bool = False,
) -> Any:
    """`attention` for sequences packed one after the other: q [total_q, Hq, D], k, v [total_k, …].

    Sequence b holds the rows cu_seqlens[b] to cu_seqlens[b + 1], int32 or int64. max_seqlen_q and
    max_seqlen_k are hints that never change a result. bias and mask are [B or 1, Hq or 1, longest
    Sq, longest Sk]. Returns out [total_q, Hq, Dv], or (out, lse) with lse [Hq, total_q].
    """
    del max_seqlen_q, max_seqlen_k
    if cu_seqlens_q is None or cu_seqlens_k is None:
        raise TypeError("cu_seqlens_q and cu_seqlens_k must be arrays, but one is None")
    if _is_torch(q):
        tensors = (
            bias,
            mask,
            alibi_slopes,
            sinks,
            cu_seqlens_q,
            cu_seqlens_k,
            seqused_q,
            seqused_k,
        )
        left, right = (-1, -1) if window is None else _raw.window_bounds(window)
        scalars = (scale, causal, left, right, softcap or 0.0, dropout_p, q_start, k_start)
        result = _torch().attention(q, k, v, tensors, scalars, seed, offset, out_dtype, "bshd")
        return result if return_lse else result[0]
    options = {
        "scale": scale,
        "causal": causal,
        "window": window,
        "softcap": softcap,
        "bias": bias,
        "mask": mask,
        "alibi_slopes": alibi_slopes,
        "sinks": sinks,
        "dropout_p": dropout_p,
        "seed": seed,
        "offset": offset,
        "q_start": q_start,
        "k_start": k_start,
        "cu_seqlens_q": cu_seqlens_q,
        "cu_seqlens_k": cu_seqlens_k,
        "seqused_q": seqused_q,
        "seqused_k": seqused_k,
        "out_dtype": out_dtype,
        "layout": "bshd",
    }
    result = _arrays.attention(q, k, v, options)
    return result if return_lse else result[0]


def attention_backward(
    dout: Array,
    q: Array,
    k: Array,
    v: Array,
    out: Array | None,
    lse: Array,
    *,
    delta: Array | None = None,
    dlse: Array | None = None,
    dq: Array | bool | None = True,
    dk: Array | bool | None = True,
    dv: Array | bool | None = True,
    dbias: Array | bool | None = None,
    dsinks: Array | bool | None = None,
    accumulate: bool = False,
    cu_seqlens_q: Array | None = None,
    cu_seqlens_k: Array | None = None,
    scale: float | None = None,
    causal: bool = False,
    window: Window | None = None,
    softcap: float | None = 0.0,
    bias: Array | None = None,
    mask: Array | None = None,
    alibi_slopes: Array | None = None,
    sinks: Array | None = None,
    dropout_p: float = 0.0,
    seed: int | None = None,
    offset: int = 0,
    q_start: int | None = None,
    k_start: int | None = None,
    seqused_q: Array | None = None,
    seqused_k: Array | None = None,
    layout: str = "bshd",
) -> Gradients:
    """The gradients of `attention`, or of `varlen_attention` where cu_seqlens are given.

    out and lse are the forward's; with the global ones of a longer context, the gradients are those
    of the part. delta = rowsum(dout ∘ out), shaped as lse, can take the place of out, then None.
    dlse is the gradient of lse.

    Each of dq, dk, dv, dbias and dsinks is True (computed into a new array), None or False (not
    computed) or an array to write to. accumulate=True adds to those arrays, which are float32 then.
    dbias and dsinks are True where there is a bias, or sinks, unless said otherwise.

    Returns:
        Gradients(dq, dk, dv, dbias, dsinks).
    """
    wanted = {
        "dq": dq,
        "dk": dk,
        "dv": dv,
        "dbias": (True if bias is not None else None) if dbias is None else dbias,
        "dsinks": (True if sinks is not None else None) if dsinks is None else dsinks,
    }
    if accumulate and any(want is True for want in wanted.values()):
        names = ", ".join(name for name, want in wanted.items() if want is True)
        raise ValueError(f"{names} must be arrays, or None, where accumulate is True")
    options = {
        "scale": scale,
        "causal": causal,
        "window": window,
        "softcap": softcap,
        "bias": bias,
        "mask": mask,
        "alibi_slopes": alibi_slopes,
        "sinks": sinks,
        "dropout_p": dropout_p,
        "seed": seed,
        "offset": offset,
        "q_start": q_start,
        "k_start": k_start,
        "cu_seqlens_q": cu_seqlens_q,
        "cu_seqlens_k": cu_seqlens_k,
        "seqused_q": seqused_q,
        "seqused_k": seqused_k,
        "layout": layout,
    }
    engine = _torch() if _is_torch(q) else _arrays
    return engine.attention_backward(
        dout, q, k, v, out, lse, delta, dlse, wanted, accumulate, options
    )


def merge(parts: Iterable[tuple[Array, Array]]) -> tuple[Any, Any]:
    """Merges results of the same queries over different keys into the result over all of them.

    Args:
        parts: pairs (out, lse) as `attention(…, return_lse=True)` returns them. A row whose lse is
            -inf saw no key there and counts for nothing, whatever its out is. With sinks, give
            them to exactly one part.

    Returns:
        (out, lse), typed as the first part.
    """
    parts = list(parts)
    if not parts:
        raise ValueError("parts must be at least one (out, lse), but is empty")
    engine = _torch() if _is_torch(parts[0][0]) else _arrays
    return engine.merge(parts)


def dropout_mask(
    q: Array,
    k: Array,
    v: Array,
    *,
    dropout_p: float,
    seed: int,
    offset: int = 0,
    q_start: int | None = None,
    k_start: int | None = None,
    cu_seqlens_q: Array | None = None,
    cu_seqlens_k: Array | None = None,
    layout: str = "bshd",
) -> Any:
    """The weights that dropout keeps, bool [B, Hq, Sq, Sk], for tests and comparisons.

    Packed sequences give [B, Hq, longest Sq, longest Sk], False outside a sequence.
    """
    options = {
        "scale": None,
        "causal": False,
        "window": None,
        "softcap": 0.0,
        "bias": None,
        "mask": None,
        "alibi_slopes": None,
        "sinks": None,
        "dropout_p": dropout_p,
        "seed": seed,
        "offset": offset,
        "q_start": q_start,
        "k_start": k_start,
        "cu_seqlens_q": cu_seqlens_q,
        "cu_seqlens_k": cu_seqlens_k,
        "seqused_q": None,
        "seqused_k": None,
        "layout": layout,
    }
    engine = _torch() if _is_torch(q) else _arrays
    return engine.dropout_mask(q, k, v, options)
