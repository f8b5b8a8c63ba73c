"""`flash_attn_with_kvcache`: new keys appended to a cache in place, then attention over it."""

import torch
from torch import Tensor

from jhalak._types import Window
from jhalak.flash_attn import _core
from jhalak.flash_attn.layers.rotary import apply_rotary_emb


def flash_attn_with_kvcache(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    k: Tensor | None = None,
    v: Tensor | None = None,
    rotary_cos: Tensor | None = None,
    rotary_sin: Tensor | None = None,
    cache_seqlens: int | Tensor | None = None,
    cache_batch_idx: Tensor | None = None,
    cache_leftpad: Tensor | None = None,
    block_table: Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: Tensor | None = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
    s_aux: Tensor | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """Attention of q [B, Sq, Hq, D] over a cache [slots, S_max, Hk, D], or over pages of one.

    New k and v [B, S_new, Hk, D] are written behind the first cache_seqlens[b] keys. With rotary
    tables, new k turns by its position, and q by cache_seqlens + i where causal or windowed, else
    by cache_seqlens. With block_table [B, pages] the cache is [num_pages, page_size, Hk, D]. Rows
    before cache_leftpad[b] are not seen. Forward only; num_splits changes nothing here.
    """
    del num_splits
    with torch.no_grad():
        batch = q.shape[0]
        if (k is None) != (v is None):
            raise ValueError("k and v must be given together")
        cache = _Cache(k_cache, v_cache, batch, cache_batch_idx, block_table)
        lengths = cache.lengths(cache_seqlens, k)
        new = 0 if k is None else k.shape[1]
        cache.check(lengths + new)
        if rotary_cos is not None:
            if rotary_sin is None:
                raise ValueError("rotary_sin must be given with rotary_cos")
            turns = causal or any(bound not in (-1, None) for bound in window_size)
            q = _turned(q, rotary_cos, rotary_sin, rotary_interleaved, lengths, turns)
            if k is not None:
                k = _turned(k, rotary_cos, rotary_sin, rotary_interleaved, lengths, True)
        if k is not None:
            cache.append(k, v, lengths)
        keys, values, used = cache.read(lengths + new, cache_leftpad)
        out, lse = _core.attend(
            q,
            keys,
            values,
            0.0,
            softmax_scale,
            causal,
            window_size,
            softcap,
            alibi_slopes,
            s_aux,
            seqused_k=used,
        )
    return (out, lse) if return_softmax_lse else out


def _turned(x, cos, sin, interleaved, lengths, along):
    """Row i turned by position lengths + i, or every row by lengths alone."""
    if along:
        return apply_rotary_emb(x, cos, sin, interleaved, seqlen_offsets=lengths)
    batch, seqlen, heads, dim = x.shape
    as_one = x.transpose(1, 2).reshape(batch, 1, heads * seqlen, dim)
    turned = apply_rotary_emb(as_one, cos, sin, interleaved, seqlen_offsets=lengths)
    return turned.reshape(batch, heads, seqlen, dim).transpose(1, 2)


class _Cache:
    """Where the keys of each sequence of the batch are: a slot of rows, or pages."""

    def __init__(self, k_cache, v_cache, batch, batch_idx, block_table):
        self.k, self.v = k_cache, v_cache
        self.batch = batch
        self.table = block_table
        if block_table is not None:
            if batch_idx is not None:
                raise ValueError("cache_batch_idx must not be given with block_table")
            if block_table.dim() != 2 or block_table.shape[0] != batch:
                raise ValueError(
                    f"block_table must be [{batch}, pages], but has {list(block_table.shape)}"
                )
            self.room = block_table.shape[1] * k_cache.shape[1]
            return
        self.room = k_cache.shape[1]
        slots = torch.arange(batch, device=k_cache.device) if batch_idx is None else batch_idx
        if slots.numel() != batch or bool(((slots < 0) | (slots >= k_cache.shape[0])).any()):
            raise ValueError(
                f"cache_batch_idx must be [{batch}] of slots 0 to {k_cache.shape[0] - 1}, "
                f"but is {slots.tolist()}"
            )
        self.slots = slots.long()
        self.whole = batch_idx is None and k_cache.shape[0] == batch

    def lengths(self, cache_seqlens, k):
        """cache_seqlens as int64 [B]."""
        device = self.k.device
        if cache_seqlens is None:
            if k is not None:
                raise ValueError("cache_seqlens must be given with k: it says where k goes")
            return torch.full((self.batch,), self.room, device=device)
        if isinstance(cache_seqlens, int):
            return torch.full((self.batch,), cache_seqlens, device=device)
        if cache_seqlens.shape != (self.batch,):
            raise ValueError(
                f"cache_seqlens must be [{self.batch}], but has {list(cache_seqlens.shape)}"
            )
        return cache_seqlens.long()

    def check(self, lengths):
        """Nothing is written past the cache's end, or read from a page that is none."""
        if bool((lengths < 0).any()) or bool((lengths > self.room).any()):
            worst = lengths.max() if bool((lengths > self.room).any()) else lengths.min()
            raise ValueError(
                f"cache_seqlens with the new keys must be from 0 to {self.room}, the cache's "
                f"length, but is {int(worst)}"
            )
        if self.table is not None:
            _core.check_pages(lengths, self.table, self.k.shape[0], self.k.shape[1])

    def _rows(self, positions):
        """Indices (slot or page, row in it) of positions [B, n]; those of unused pages are 0."""
        if self.table is None:
            return self.slots[:, None].expand_as(positions), positions
        page_size = self.k.shape[1]
        page = self.table.gather(1, positions // page_size).long()
        return page.clamp(0, self.k.shape[0] - 1), positions % page_size

    def append(self, k, v, lengths):
        """Writes k and v behind the keys that are there."""
        positions = lengths[:, None] + torch.arange(k.shape[1], device=lengths.device)
        where = self._rows(positions)
        self.k[where] = k.to(self.k.dtype)
        self.v[where] = v.to(self.v.dtype)

    def read(self, lengths, leftpad):
        """Keys and values [B, longest, Hk, D], and how many of each sequence count."""
        if self.table is None and self.whole and leftpad is None:
            return self.k, self.v, lengths
        if leftpad is not None:
            lengths = (lengths - leftpad).clamp(min=0)
        longest = int(lengths.max()) if self.batch else 0
        positions = torch.arange(longest, device=lengths.device).expand(self.batch, longest)
        if leftpad is not None:
            positions = positions + leftpad.long()[:, None]
        where = self._rows(positions.clamp(max=max(self.room - 1, 0)))
        return self.k[where], self.v[where], lengths
