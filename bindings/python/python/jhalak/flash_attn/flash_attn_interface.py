"""flash-attn 2.8's functions, public and private, with its signatures and results."""

from torch import Tensor

from jhalak._types import Window
from jhalak.flash_attn import _core, _operations
from jhalak.flash_attn._kvcache import flash_attn_with_kvcache
from jhalak.flash_attn._private import (
    _flash_attn_backward,
    _flash_attn_forward,
    _flash_attn_varlen_backward,
    _flash_attn_varlen_forward,
    maybe_contiguous,
    round_multiple,
)

__all__ = [
    "_flash_attn_backward",
    "_flash_attn_forward",
    "_flash_attn_varlen_backward",
    "_flash_attn_varlen_forward",
    "_wrapped_flash_attn_backward",
    "_wrapped_flash_attn_forward",
    "_wrapped_flash_attn_varlen_backward",
    "_wrapped_flash_attn_varlen_forward",
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_with_kvcache",
    "maybe_contiguous",
    "round_multiple",
]

(
    _wrapped_flash_attn_forward,
    _wrapped_flash_attn_varlen_forward,
    _wrapped_flash_attn_backward,
    _wrapped_flash_attn_varlen_backward,
) = _operations.register("jhalak")


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    s_aux: Tensor | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """Attention on q [B, Sq, Hq, D] and k, v [B, Sk, Hk, D]; out [B, Sq, Hq, Dv].

    return_attn_probs gives (out, lse [B, Hq, Sq], S_dmask): the softmax's weights, negative where
    dropped; empty without dropout. Results are deterministic whatever `deterministic` says.
    s_aux [Hq] are attention sinks.
    """
    del deterministic
    options = (softmax_scale, causal, window_size, softcap, alibi_slopes, s_aux)
    return _call(q, k, v, dropout_p, options, None, None, None, return_attn_probs)


def flash_attn_qkvpacked_func(
    qkv: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Tensor | tuple[Tensor, ...]:
    """`flash_attn_func` on qkv [B, S, 3, H, D]."""
    return flash_attn_func(
        *_unpacked(qkv, "qkv", -3, 3),
        dropout_p,
        softmax_scale,
        causal,
        window_size,
        softcap,
        alibi_slopes,
        deterministic,
        return_attn_probs,
    )


def flash_attn_kvpacked_func(
    q: Tensor,
    kv: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Tensor | tuple[Tensor, ...]:
    """`flash_attn_func` on q and kv [B, Sk, 2, Hk, D]."""
    return flash_attn_func(
        q,
        *_unpacked(kv, "kv", -3, 2),
        dropout_p,
        softmax_scale,
        causal,
        window_size,
        softcap,
        alibi_slopes,
        deterministic,
        return_attn_probs,
    )


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Tensor | None = None,
    s_aux: Tensor | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """Attention on packed q [total_q, Hq, D] and k, v [total_k, Hk, D]; lse is [Hq, total_q].

    With block_table, k and v are paged [num_pages, page_size, Hk, D], forward only.
    max_seqlen_q and max_seqlen_k never change a result.
    """
    del max_seqlen_q, max_seqlen_k, deterministic
    options = (softmax_scale, causal, window_size, softcap, alibi_slopes, s_aux)
    if block_table is not None:
        k, v, cu_seqlens_k = _core.packed_from_pages(k, v, cu_seqlens_k, block_table)
    return _call(q, k, v, dropout_p, options, cu_seqlens_q, cu_seqlens_k, None, return_attn_probs)


def flash_attn_varlen_qkvpacked_func(
    qkv: Tensor,
    cu_seqlens: Tensor,
    max_seqlen: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Tensor | tuple[Tensor, ...]:
    """`flash_attn_varlen_func` on qkv [total, 3, H, D]."""
    return flash_attn_varlen_func(
        *_unpacked(qkv, "qkv", -3, 3),
        cu_seqlens,
        cu_seqlens,
        max_seqlen,
        max_seqlen,
        dropout_p,
        softmax_scale,
        causal,
        window_size,
        softcap,
        alibi_slopes,
        deterministic,
        return_attn_probs,
    )


def flash_attn_varlen_kvpacked_func(
    q: Tensor,
    kv: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Tensor | tuple[Tensor, ...]:
    """`flash_attn_varlen_func` on q and kv [total_k, 2, Hk, D]."""
    return flash_attn_varlen_func(
        q,
        *_unpacked(kv, "kv", -3, 2),
        cu_seqlens_q,
        cu_seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        dropout_p,
        softmax_scale,
        causal,
        window_size,
        softcap,
        alibi_slopes,
        deterministic,
        return_attn_probs,
    )


def _unpacked(packed, name, dim, count):
    if packed.dim() < 4 or packed.shape[dim] != count:
        raise ValueError(f"{name} must be [..., {count}, H, D], but has {list(packed.shape)}")
    return packed.unbind(dim)


def _call(q, k, v, dropout_p, options, cu_q, cu_k, seqused_k, return_attn_probs):
    if not return_attn_probs:
        out, _ = _core.attend(q, k, v, dropout_p, *options, cu_q, cu_k, seqused_k)
        return out
    if not dropout_p:
        out, lse = _core.attend(q, k, v, dropout_p, *options, cu_q, cu_k, seqused_k)
        return out, lse, q.new_empty(0)
    rng_state = _core.draw_rng_state()
    out, lse = _core.attend(q, k, v, dropout_p, *options, cu_q, cu_k, seqused_k, rng_state)
    signed = _core.signed_probabilities(
        q.detach(), k.detach(), v.detach(), rng_state, options, dropout_p, cu_q, cu_k
    )
    return out, lse, signed
