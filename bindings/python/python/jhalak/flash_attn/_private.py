"""flash-attn's private functions, which context-parallel libraries and diffusers call."""

import torch

from jhalak.flash_attn import _core
from jhalak.torch import _kernels


def maybe_contiguous(x):
    """As flash-attn's: the last dimension made contiguous; jhalak needs no such thing."""
    return x.contiguous() if x is not None and x.stride(-1) != 1 else x


def round_multiple(x, m):
    """x rounded up to a multiple of m."""
    return (x + m - 1) // m * m


def _forward(q, k, v, dropout_p, options, return_softmax, cu_q=None, cu_k=None, seqused_k=None):
    rng_state = _core.draw_rng_state() if dropout_p else torch.zeros(2, dtype=torch.int64)
    out, lse = _core.attend(q, k, v, dropout_p, *options, None, cu_q, cu_k, seqused_k, rng_state)
    if return_softmax and dropout_p:
        weights = _core.signed_probabilities(
            q, k, v, rng_state, (*options, None), dropout_p, cu_q, cu_k
        )
    else:
        weights = q.new_empty(0)
    return out, lse, weights, rng_state


def _flash_attn_forward(
    q,
    k,
    v,
    dropout_p,
    softmax_scale,
    causal,
    window_size_left,
    window_size_right,
    softcap,
    alibi_slopes,
    return_softmax,
):
    """(out, lse [B, Hq, Sq], S_dmask, rng_state), without gradients."""
    window = (window_size_left, window_size_right)
    options = (softmax_scale, causal, window, softcap, alibi_slopes)
    with torch.no_grad():
        return _forward(q, k, v, dropout_p, options, return_softmax)


def _flash_attn_varlen_forward(
    q,
    k,
    v,
    cu_seqlens_q,
    cu_seqlens_k,
    max_seqlen_q,
    max_seqlen_k,
    dropout_p,
    softmax_scale,
    causal,
    window_size_left=-1,
    window_size_right=-1,
    softcap=0.0,
    alibi_slopes=None,
    return_softmax=False,
    block_table=None,
    leftpad_k=None,
    seqused_k=None,
    zero_tensors=False,
    num_splits=0,
):
    """(out, lse [Hq, total_q], S_dmask, rng_state), without gradients."""
    if leftpad_k is not None:
        raise NotImplementedError("leftpad_k is not supported: give k without its padding")
    if block_table is not None:
        k, v, cu_seqlens_k = _core.packed_from_pages(k, v, cu_seqlens_k, block_table)
    window = (window_size_left, window_size_right)
    options = (softmax_scale, causal, window, softcap, alibi_slopes)
    with torch.no_grad():
        return _forward(
            q, k, v, dropout_p, options, return_softmax, cu_seqlens_q, cu_seqlens_k, seqused_k
        )


def _backward(dout, q, k, v, out, lse, grads, dropout_p, options, rng_state, cu_q=None, cu_k=None):
    """Writes grads, and returns delta = rowsum(dout ∘ out), shaped as lse."""
    softmax_scale, causal, window, softcap, alibi_slopes = options
    if dropout_p and rng_state is None:
        raise ValueError("rng_state must be given with dropout_p: it is that of the forward")
    seed, offset = (0, 0) if rng_state is None else rng_state.tolist()
    delta = (dout.to(lse.dtype) * out.to(lse.dtype)).sum(-1).transpose(-1, -2).contiguous()
    _kernels.backward(
        dout,
        q,
        k,
        v,
        None,
        delta,
        lse,
        None,
        _core.option_tensors(alibi_slopes, None, cu_q, cu_k),
        _core.scalars(softmax_scale, causal, window, softcap, dropout_p),
        seed,
        offset,
        (*grads, None, None),
    )
    return delta


def _flash_attn_backward(
    dout,
    q,
    k,
    v,
    out,
    softmax_lse,
    dq,
    dk,
    dv,
    dropout_p,
    softmax_scale,
    causal,
    window_size_left,
    window_size_right,
    softcap,
    alibi_slopes,
    deterministic,
    rng_state=None,
):
    """Writes dq, dk and dv where they are given; returns softmax_d = rowsum(dout ∘ out)."""
    window = (window_size_left, window_size_right)
    options = (softmax_scale, causal, window, softcap, alibi_slopes)
    with torch.no_grad():
        return _backward(
            dout, q, k, v, out, softmax_lse, (dq, dk, dv), dropout_p, options, rng_state
        )


def _flash_attn_varlen_backward(
    dout,
    q,
    k,
    v,
    out,
    softmax_lse,
    dq,
    dk,
    dv,
    cu_seqlens_q,
    cu_seqlens_k,
    max_seqlen_q,
    max_seqlen_k,
    dropout_p,
    softmax_scale,
    causal,
    window_size_left,
    window_size_right,
    softcap,
    alibi_slopes,
    deterministic,
    rng_state=None,
    zero_tensors=False,
):
    """As `_flash_attn_backward`, for packed sequences."""
    window = (window_size_left, window_size_right)
    options = (softmax_scale, causal, window, softcap, alibi_slopes)
    with torch.no_grad():
        return _backward(
            dout, q, k, v, out, softmax_lse, (dq, dk, dv), dropout_p, options, rng_state,
            cu_seqlens_q, cu_seqlens_k,
        )  # fmt: skip


_TAIL = (
    "float dropout_p, float? softmax_scale, bool causal, int window_size_left, "
    "int window_size_right, float softcap, Tensor? alibi_slopes"
)
_GRADS = "Tensor(a!)? dq, Tensor(b!)? dk, Tensor(c!)? dv"
_SAVED = "Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor softmax_lse"
_PACKING = "Tensor cu_seqlens_q, Tensor cu_seqlens_k, SymInt max_seqlen_q, SymInt max_seqlen_k"
_FOUR = " -> (Tensor, Tensor, Tensor, Tensor)"


def _operation(function, schema, mutates):
    """A function as an operation of torch, for every device."""
    return torch.library.custom_op(
        f"jhalak::{function.__name__}", mutates_args=mutates, schema=schema
    )(function)


_wrapped_flash_attn_forward = _operation(
    _flash_attn_forward,
    f"(Tensor q, Tensor k, Tensor v, {_TAIL}, bool return_softmax){_FOUR}",
    (),
)
_wrapped_flash_attn_varlen_forward = _operation(
    _flash_attn_varlen_forward,
    f"(Tensor q, Tensor k, Tensor v, {_PACKING}, float dropout_p, float? softmax_scale, "
    "bool causal, int window_size_left=-1, int window_size_right=-1, float softcap=0.0, "
    "Tensor? alibi_slopes=None, bool return_softmax=False, Tensor? block_table=None, "
    "Tensor? leftpad_k=None, Tensor? seqused_k=None, bool zero_tensors=False, int num_splits=0)"
    f"{_FOUR}",
    (),
)
_wrapped_flash_attn_backward = _operation(
    _flash_attn_backward,
    f"({_SAVED}, {_GRADS}, {_TAIL}, bool deterministic, Tensor? rng_state=None) -> Tensor",
    ("dq", "dk", "dv"),
)
_wrapped_flash_attn_varlen_backward = _operation(
    _flash_attn_varlen_backward,
    f"({_SAVED}, {_GRADS}, {_PACKING}, {_TAIL}, bool deterministic, Tensor? rng_state=None, "
    "bool zero_tensors=False) -> Tensor",
    ("dq", "dk", "dv"),
)


@_wrapped_flash_attn_forward.register_fake
def _(q, k, v, *options):
    dropout_p, return_softmax = options[0], options[-1]
    batch, seqlen, heads, _ = q.shape
    drawn = (batch, heads, seqlen, k.shape[1]) if return_softmax and dropout_p else (0,)
    out, lse = _kernels.new_results(q, v, False, q.dtype)
    return out, lse, q.new_empty(drawn), torch.empty(2, dtype=torch.int64)


@_wrapped_flash_attn_varlen_forward.register_fake
def _(q, k, v, *options, **named):
    out, lse = _kernels.new_results(q, v, True, q.dtype)
    return out, lse, q.new_empty(0), torch.empty(2, dtype=torch.int64)


@_wrapped_flash_attn_backward.register_fake
def _(dout, q, k, v, out, softmax_lse, *options, **named):
    return torch.empty_like(softmax_lse, memory_format=torch.contiguous_format)


@_wrapped_flash_attn_varlen_backward.register_fake
def _(dout, q, k, v, out, softmax_lse, *options, **named):
    return torch.empty_like(softmax_lse, memory_format=torch.contiguous_format)
