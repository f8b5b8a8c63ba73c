"""The interface of FlashAttention-3, as far as jhalak supports it.

The names and signatures of the module `flash_attn_interface` of the distribution flash-attn-3. What
only its hardware has (fp8 descales, `qv`, `attention_chunk`) is refused by name.
"""

import torch
from torch import Tensor

import jhalak
from jhalak._types import Window
from jhalak.flash_attn import _core
from jhalak.flash_attn._kvcache import flash_attn_with_kvcache as _with_kvcache

__all__ = [
    "flash_attn_combine",
    "flash_attn_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_with_kvcache",
    "get_scheduler_metadata",
]


def _refuse(attention_chunk=0, **unsupported):
    if attention_chunk:
        raise NotImplementedError("attention_chunk is not supported")
    for name, value in unsupported.items():
        if value is not None:
            raise NotImplementedError(f"{name} is not supported")


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    softmax_scale: float | None = None,
    causal: bool = False,
    qv: Tensor | None = None,
    q_descale: Tensor | None = None,
    k_descale: Tensor | None = None,
    v_descale: Tensor | None = None,
    window_size: Window = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    num_splits: int = 1,
    pack_gqa: bool | None = None,
    deterministic: bool = False,
    sm_margin: int = 0,
    return_attn_probs: bool = False,
    s_aux: Tensor | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """out [B, Sq, Hq, Dv], or (out, lse [B, Hq, Sq]) with return_attn_probs."""
    _refuse(attention_chunk, qv=qv, q_descale=q_descale, k_descale=k_descale, v_descale=v_descale)
    out, lse = _core.attend(q, k, v, 0.0, softmax_scale, causal, window_size, softcap, None, s_aux)
    return (out, lse) if return_attn_probs else out


def flash_attn_qkvpacked_func(
    qkv: Tensor,
    softmax_scale: float | None = None,
    causal: bool = False,
    q_descale: Tensor | None = None,
    k_descale: Tensor | None = None,
    v_descale: Tensor | None = None,
    window_size: Window = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    deterministic: bool = False,
    num_heads_q: int | None = None,
    sm_margin: int = 0,
    return_attn_probs: bool = False,
) -> Tensor | tuple[Tensor, ...]:
    """`flash_attn_func` on qkv [B, S, 3, H, D], or [B, S, Hq + 2 Hk, D] with num_heads_q."""
    if qkv.dim() == 5:
        q, k, v = qkv.unbind(2)
    elif num_heads_q is None:
        raise ValueError("num_heads_q must be given where q, k and v share a dimension")
    else:
        heads_k = (qkv.shape[2] - num_heads_q) // 2
        q, k, v = qkv.split((num_heads_q, heads_k, heads_k), dim=2)
    return flash_attn_func(
        q,
        k,
        v,
        softmax_scale,
        causal,
        q_descale=q_descale,
        k_descale=k_descale,
        v_descale=v_descale,
        window_size=window_size,
        attention_chunk=attention_chunk,
        softcap=softcap,
        return_attn_probs=return_attn_probs,
    )


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    seqused_q: Tensor | None = None,
    seqused_k: Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    qv: Tensor | None = None,
    q_descale: Tensor | None = None,
    k_descale: Tensor | None = None,
    v_descale: Tensor | None = None,
    window_size: Window = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    num_splits: int = 1,
    pack_gqa: bool | None = None,
    deterministic: bool = False,
    sm_margin: int = 0,
    return_attn_probs: bool = False,
    s_aux: Tensor | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """out [total_q, Hq, Dv], or (out, lse [Hq, total_q]) with return_attn_probs."""
    _refuse(attention_chunk, qv=qv, q_descale=q_descale, k_descale=k_descale, v_descale=v_descale)
    out, lse = _core.attend(
        q,
        k,
        v,
        0.0,
        softmax_scale,
        causal,
        window_size,
        softcap,
        None,
        s_aux,
        cu_seqlens_q,
        cu_seqlens_k,
        seqused_k,
        seqused_q=seqused_q,
    )
    return (out, lse) if return_attn_probs else out


def flash_attn_with_kvcache(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    k: Tensor | None = None,
    v: Tensor | None = None,
    qv: Tensor | None = None,
    rotary_cos: Tensor | None = None,
    rotary_sin: Tensor | None = None,
    cache_seqlens: int | Tensor | None = None,
    cache_batch_idx: Tensor | None = None,
    cache_leftpad: Tensor | None = None,
    page_table: Tensor | None = None,
    cu_seqlens_q: Tensor | None = None,
    cu_seqlens_k_new: Tensor | None = None,
    max_seqlen_q: int | None = None,
    rotary_seqlens: Tensor | None = None,
    q_descale: Tensor | None = None,
    k_descale: Tensor | None = None,
    v_descale: Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    scheduler_metadata: Tensor | None = None,
    num_splits: int = 0,
    pack_gqa: bool | None = None,
    sm_margin: int = 0,
    return_softmax_lse: bool = False,
    s_aux: Tensor | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """Attention over a cache, or over pages of one, to which k and v are appended first."""
    _refuse(
        attention_chunk,
        qv=qv,
        q_descale=q_descale,
        k_descale=k_descale,
        v_descale=v_descale,
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k_new=cu_seqlens_k_new,
        rotary_seqlens=rotary_seqlens,
    )
    return _with_kvcache(
        q,
        k_cache,
        v_cache,
        k,
        v,
        rotary_cos,
        rotary_sin,
        cache_seqlens,
        cache_batch_idx,
        cache_leftpad,
        page_table,
        softmax_scale,
        causal,
        window_size,
        softcap,
        rotary_interleaved,
        None,
        num_splits,
        return_softmax_lse,
        s_aux,
    )


def flash_attn_combine(
    out_partial: Tensor,
    lse_partial: Tensor,
    out: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    """Merges partial results: out_partial [splits, B, S, H, D], lse_partial [splits, B, S, H].

    Returns (out, lse [B, S, H]), out in the dtype of out_partial unless told otherwise.
    """
    lses = [part.transpose(1, 2) for part in lse_partial.to(torch.float32)]
    merged, lse = jhalak.merge(list(zip(out_partial, lses, strict=True)))
    if out is not None:
        merged = out.copy_(merged)
    elif out_dtype is not None:
        merged = merged.to(out_dtype)
    return merged, lse.transpose(1, 2)


def get_scheduler_metadata(
    batch_size: int,
    max_seqlen_q: int,
    max_seqlen_k: int,
    num_heads_q: int,
    num_heads_kv: int,
    headdim: int,
    cache_seqlens: Tensor,
    qkv_dtype: torch.dtype = torch.bfloat16,
    headdim_v: int | None = None,
    cu_seqlens_q: Tensor | None = None,
    cu_seqlens_k_new: Tensor | None = None,
    cache_leftpad: Tensor | None = None,
    page_size: int | None = None,
    max_seqlen_k_new: int = 0,
    causal: bool = False,
    window_size: Window = (-1, -1),
    attention_chunk: int = 0,
    has_softcap: bool = False,
    num_splits: int = 0,
    pack_gqa: bool | None = None,
    sm_margin: int = 0,
) -> None:
    """None: jhalak needs no plan ahead of a call. Give it to `flash_attn_with_kvcache`."""
