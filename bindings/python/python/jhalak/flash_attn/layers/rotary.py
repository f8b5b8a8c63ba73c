"""Rotary position embeddings with flash-attn's names (Su et al., 2021, "RoFormer")."""

import torch
from torch import Tensor

__all__ = [
    "RotaryEmbedding",
    "apply_rotary_emb",
    "apply_rotary_emb_func",
    "apply_rotary_emb_kv_",
    "apply_rotary_emb_qkv_",
    "apply_rotary_emb_torch",
    "rotate_half",
]


def rotate_half(x: Tensor, interleaved: bool = False) -> Tensor:
    """Each pair (a, b) as (-b, a); pairs are neighbours, or lie half a vector apart."""
    if not interleaved:
        first, second = x.chunk(2, dim=-1)
        return torch.cat((-second, first), dim=-1)
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


def apply_rotary_emb_torch(
    x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False
) -> Tensor:
    """x [B, S, H, D] turned by cos, sin [S, rotary_dim / 2] or [B, S, rotary_dim / 2]."""
    turning = cos.shape[-1] * 2
    if turning > x.shape[-1]:
        raise ValueError(
            f"cos must have at most {x.shape[-1] // 2} columns, half of x's, but has {turning // 2}"
        )
    if interleaved:
        cos, sin = (table.repeat_interleave(2, dim=-1) for table in (cos, sin))
    else:
        cos, sin = (table.repeat(*(1,) * (table.dim() - 1), 2) for table in (cos, sin))
    cos, sin = cos.unsqueeze(-2), sin.unsqueeze(-2)
    part = x[..., :turning]
    turned = part * cos + rotate_half(part, interleaved) * sin
    return torch.cat((turned, x[..., turning:]), dim=-1)


def apply_rotary_emb(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    interleaved: bool = False,
    inplace: bool = False,
    seqlen_offsets: int | Tensor = 0,
    cu_seqlens: Tensor | None = None,
    max_seqlen: int | None = None,
) -> Tensor:
    """x [B, S, H, D], or [total, H, D] with cu_seqlens, turned by its positions.

    cos and sin are [longest position, rotary_dim / 2]. Row i of sequence b has position
    i + seqlen_offsets, one number or one for each sequence.
    """
    rows = torch.arange(x.shape[0] if cu_seqlens is not None else x.shape[1], device=x.device)
    offsets = torch.as_tensor(seqlen_offsets, device=x.device)
    if cu_seqlens is not None:
        sequence = torch.searchsorted(cu_seqlens[1:].long(), rows, right=True)
        sequence = sequence.clamp(max=cu_seqlens.numel() - 2)
        positions = rows - cu_seqlens[sequence] + (offsets[sequence] if offsets.dim() else offsets)
    else:
        positions = rows + (offsets[:, None] if offsets.dim() else offsets)
    if positions.numel() and int(positions.max()) >= cos.shape[0]:
        raise ValueError(
            f"cos must have a row for position {int(positions.max())}, but has {cos.shape[0]}"
        )
    wide = torch.promote_types(x.dtype, torch.float32)
    cos, sin = cos[positions].to(wide), sin[positions].to(wide)
    turned = apply_rotary_emb_torch(x.to(wide), cos, sin, interleaved).to(x.dtype)
    return x.copy_(turned) if inplace else turned


apply_rotary_emb_func = apply_rotary_emb


def apply_rotary_emb_qkv_(
    qkv: Tensor,
    cos: Tensor,
    sin: Tensor,
    cos_k: Tensor | None = None,
    sin_k: Tensor | None = None,
    interleaved: bool = False,
    seqlen_offsets: int | Tensor = 0,
    num_heads_q: int | None = None,
) -> Tensor:
    """q and k within qkv turned in place: [B, S, 3, H, D], or [B, S, Hq + 2 Hk, D]."""
    if qkv.dim() == 5:
        q, k = qkv[:, :, 0], qkv[:, :, 1]
    else:
        if num_heads_q is None:
            raise ValueError("num_heads_q must be given where q, k and v share a dimension")
        heads_k = (qkv.shape[2] - num_heads_q) // 2
        q, k = qkv[:, :, :num_heads_q], qkv[:, :, num_heads_q : num_heads_q + heads_k]
    cos_k, sin_k = (cos, sin) if cos_k is None else (cos_k, sin_k)
    turned_q = apply_rotary_emb(q, cos, sin, interleaved, seqlen_offsets=seqlen_offsets)
    turned_k = apply_rotary_emb(k, cos_k, sin_k, interleaved, seqlen_offsets=seqlen_offsets)
    q.copy_(turned_q)
    k.copy_(turned_k)
    return qkv


def apply_rotary_emb_kv_(
    kv: Tensor,
    cos: Tensor,
    sin: Tensor,
    interleaved: bool = False,
    seqlen_offsets: int | Tensor = 0,
) -> Tensor:
    """k within kv [B, S, 2, Hk, D] turned in place."""
    k = kv[:, :, 0]
    k.copy_(apply_rotary_emb(k, cos, sin, interleaved, seqlen_offsets=seqlen_offsets))
    return kv


class RotaryEmbedding(torch.nn.Module):
    """Tables of cos and sin, made as long as they are needed, and their use on q, k and v.

    scale_base (Sun et al., 2022, "A Length-Extrapolatable Transformer") is not supported.
    """

    def __init__(self, dim, base=10000.0, interleaved=False, scale_base=None, device=None):
        super().__init__()
        if scale_base is not None:
            raise NotImplementedError("scale_base is not supported")
        self.dim, self.base, self.interleaved = dim, float(base), interleaved
        powers = torch.arange(0, dim, 2, device=device, dtype=torch.float32) / dim
        self.register_buffer("inv_freq", 1.0 / self.base**powers, persistent=False)
        self._cos = self._sin = None

    def _tables(self, seqlen, like):
        known = self._cos
        if known is None or known.shape[0] < seqlen or known.device != like.device:
            angles = torch.outer(
                torch.arange(seqlen, device=like.device, dtype=torch.float32),
                self.inv_freq.to(device=like.device, dtype=torch.float32),
            )
            self._cos, self._sin = angles.cos(), angles.sin()
        return self._cos.to(like.dtype), self._sin.to(like.dtype)

    def forward(self, qkv, kv=None, seqlen_offset=0, max_seqlen=None, num_heads_q=None):
        """Turns qkv in place, or q (a copy) and kv (in place); as flash-attn's module does."""
        seqlen = qkv.shape[1]
        offset = seqlen_offset
        last = int(offset.max()) if isinstance(offset, torch.Tensor) else offset
        cos, sin = self._tables(max(max_seqlen or 0, seqlen + last), qkv)
        if kv is None:
            return apply_rotary_emb_qkv_(
                qkv,
                cos,
                sin,
                interleaved=self.interleaved,
                seqlen_offsets=offset,
                num_heads_q=num_heads_q,
            )
        q = apply_rotary_emb(qkv, cos, sin, self.interleaved, seqlen_offsets=offset)
        return q, apply_rotary_emb_kv_(kv, cos, sin, self.interleaved, seqlen_offsets=offset)
