"""flash-attn's private functions, which context-parallel libraries and diffusers call."""

import torch
from torch import Tensor

from jhalak.flash_attn import _core
from jhalak.torch import _kernels


def maybe_contiguous(x: Tensor | None) -> Tensor | None:
    """As flash-attn's: the last dimension made contiguous; jhalak needs no such thing."""
    return x.contiguous() if x is not None and x.stride(-1) != 1 else x


def round_multiple(x: int, m: int) -> int:
    """x rounded up to a multiple of m."""
    return (x + m - 1) // m * m


def _forward(
    q, k, v, dropout_p, options, return_softmax, cu_q=None, cu_k=None, seqused_k=None, longest=None
):
    rng_state = _core.draw_rng_state() if dropout_p else torch.zeros(2, dtype=torch.int64)
    out, lse = _core.attend(q, k, v, dropout_p, *options, None, cu_q, cu_k, seqused_k, rng_state)
    if return_softmax and dropout_p:
        weights = _core.signed_probabilities(
            q, k, v, rng_state, (*options, None), dropout_p, cu_q, cu_k, longest
        )
    else:
        weights = q.new_empty(0)
    return out, lse, weights, rng_state


def _flash_attn_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float,
    softmax_scale: float | None,
    causal: bool,
    window_size_left: int,
    window_size_right: int,
    softcap: float,
    alibi_slopes: Tensor | None,
    return_softmax: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(out, lse [B, Hq, Sq], S_dmask, rng_state), without gradients."""
    window = (window_size_left, window_size_right)
    options = (softmax_scale, causal, window, softcap, alibi_slopes)
    with torch.no_grad():
        return _forward(q, k, v, dropout_p, options, return_softmax)


def _flash_attn_varlen_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float,
    softmax_scale: float | None,
    causal: bool,
    window_size_left: int = -1,
    window_size_right: int = -1,
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    return_softmax: bool = False,
    block_table: Tensor | None = None,
    leftpad_k: Tensor | None = None,
    seqused_k: Tensor | None = None,
    zero_tensors: bool = False,
    num_splits: int = 0,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(out, lse [Hq, total_q], S_dmask, rng_state), without gradients."""
    if seqused_k is not None and return_softmax and dropout_p:
        raise NotImplementedError("return_softmax is not supported with seqused_k")
    if leftpad_k is not None:
        raise NotImplementedError("leftpad_k is not supported: give k without its padding")
    if block_table is not None:
        k, v, cu_seqlens_k = _core.packed_from_pages(k, v, cu_seqlens_k, block_table)
    window = (window_size_left, window_size_right)
    options = (softmax_scale, causal, window, softcap, alibi_slopes)
    with torch.no_grad():
        return _forward(
            q, k, v, dropout_p, options, return_softmax, cu_seqlens_q, cu_seqlens_k, seqused_k,
            (int(max_seqlen_q), int(max_seqlen_k)),
        )  # fmt: skip


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
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    softmax_lse: Tensor,
    dq: Tensor | None,
    dk: Tensor | None,
    dv: Tensor | None,
    dropout_p: float,
    softmax_scale: float | None,
    causal: bool,
    window_size_left: int,
    window_size_right: int,
    softcap: float,
    alibi_slopes: Tensor | None,
    deterministic: bool,
    rng_state: Tensor | None = None,
) -> Tensor:
    """Writes dq, dk and dv where they are given; returns softmax_d = rowsum(dout ∘ out)."""
    window = (window_size_left, window_size_right)
    options = (softmax_scale, causal, window, softcap, alibi_slopes)
    with torch.no_grad():
        return _backward(
            dout, q, k, v, out, softmax_lse, (dq, dk, dv), dropout_p, options, rng_state
        )


def _flash_attn_varlen_backward(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    softmax_lse: Tensor,
    dq: Tensor | None,
    dk: Tensor | None,
    dv: Tensor | None,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float,
    softmax_scale: float | None,
    causal: bool,
    window_size_left: int,
    window_size_right: int,
    softcap: float,
    alibi_slopes: Tensor | None,
    deterministic: bool,
    rng_state: Tensor | None = None,
    zero_tensors: bool = False,
) -> Tensor:
    """As `_flash_attn_backward`, for packed sequences."""
    window = (window_size_left, window_size_right)
    options = (softmax_scale, causal, window, softcap, alibi_slopes)
    with torch.no_grad():
        return _backward(
            dout, q, k, v, out, softmax_lse, (dq, dk, dv), dropout_p, options, rng_state,
            cu_seqlens_q, cu_seqlens_k,
        )  # fmt: skip
