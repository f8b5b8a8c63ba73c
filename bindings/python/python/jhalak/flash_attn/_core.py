"""From flash-attn's arguments to a call of jhalak, and flash-attn's extra results."""

import torch

import jhalak
from jhalak import _raw
from jhalak.torch import _calls
from jhalak.torch._calls import draw_seed as draw_rng_state

__all__ = [
    "attend",
    "draw_rng_state",
    "option_tensors",
    "packed_from_pages",
    "scalars",
    "signed_probabilities",
]


def scalars(softmax_scale, causal, window_size, softcap, dropout_p):
    """The options that are numbers, in the operations' order; flash-attn has no positions."""
    left, right = _raw.window_bounds(window_size)
    return softmax_scale, causal, left, right, softcap or 0.0, dropout_p, None, None


def option_tensors(alibi_slopes, s_aux=None, cu_q=None, cu_k=None, used_q=None, used_k=None):
    """The options that are tensors, in the operations' order; flash-attn has no bias or mask."""
    return None, None, alibi_slopes, s_aux, cu_q, cu_k, used_q, used_k


def attend(
    q,
    k,
    v,
    dropout_p,
    softmax_scale,
    causal,
    window_size,
    softcap,
    alibi_slopes,
    s_aux=None,
    cu_seqlens_q=None,
    cu_seqlens_k=None,
    seqused_k=None,
    rng_state=None,
    seqused_q=None,
):
    """out and lse. `rng_state`, int64 [2], chooses dropout's mask; without it torch does."""
    numbers = scalars(softmax_scale, causal, window_size, softcap, dropout_p)
    tensors = option_tensors(alibi_slopes, s_aux, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k)
    seed, offset = (None, 0) if rng_state is None else rng_state.tolist()
    return _calls.attend(q, k, v, tensors, numbers, seed, offset, q.dtype)


def packed_from_pages(k_pages, v_pages, cu_seqlens_k, block_table):
    """k, v and their offsets, packed, from pages [num_pages, page_size, Hk, D]."""
    lengths = cu_seqlens_k.diff().long()
    check_pages(lengths, block_table, k_pages.shape[0], k_pages.shape[1])
    rows = torch.cat(
        [page_rows(block_table[b], length, k_pages.shape[1]) for b, length in enumerate(lengths)]
    )
    k, v = (pages.flatten(0, 1).index_select(0, rows) for pages in (k_pages, v_pages))
    return k, v, cu_seqlens_k - cu_seqlens_k[0]


def check_pages(lengths, block_table, num_pages, page_size):
    """Every entry that a sequence uses must name a page; the others are never read."""
    used = torch.arange(block_table.shape[1], device=block_table.device)
    pages = (lengths + page_size - 1) // page_size
    if bool((pages > block_table.shape[1]).any()):
        most = block_table.shape[1] * page_size
        raise ValueError(f"block_table has room for {most} keys, but {int(lengths.max())} are used")
    wrong = (used < pages[:, None]) & ((block_table < 0) | (block_table >= num_pages))
    if bool(wrong.any()):
        entry = int(block_table[wrong][0])
        raise ValueError(f"block_table must name pages 0 to {num_pages - 1}, but has {entry}")


def page_rows(table, length, page_size):
    """The rows, among all pages' rows, of the first `length` keys of a sequence."""
    position = torch.arange(int(length), device=table.device)
    return table[position // page_size].long() * page_size + position % page_size


@torch.no_grad()
def signed_probabilities(q, k, v, rng_state, options, dropout_p, cu_q, cu_k, longest=None):
    """The softmax's weights [B, Hq, Sq, Sk], negative where dropout drops them; for tests only.

    Packed sequences have the `longest` (Sq, Sk) where it is given.
    """
    seed, offset = rng_state.tolist()
    kept = jhalak.dropout_mask(
        q,
        k,
        v,
        dropout_p=dropout_p,
        seed=seed,
        offset=offset,
        cu_seqlens_q=cu_q,
        cu_seqlens_k=cu_k,
    ).to(q.device)
    weights = torch.zeros(kept.shape, dtype=q.dtype, device=q.device)
    if cu_q is None:
        weights += _weights(q, k, options)
    else:
        ends = zip(cu_q[:-1], cu_q[1:], cu_k[:-1], cu_k[1:], strict=True)
        for b, (q0, q1, k0, k1) in enumerate(ends):
            *front, slopes, sinks = options
            if slopes is not None and slopes.dim() == 2:
                slopes = slopes[b]
            part = _weights(q[None, q0:q1], k[None, k0:k1], (*front, slopes, sinks))
            weights[b, :, : q1 - q0, : k1 - k0] = part[0]
    signed = torch.where(kept, weights, -weights)
    if longest is None or cu_q is None:
        return signed
    rows, columns = longest[0] - signed.shape[2], longest[1] - signed.shape[3]
    return torch.nn.functional.pad(signed, (0, columns, 0, rows))


def _weights(q, k, options):
    """Values that are the rows of the identity make attention return its weights."""
    keys = k.shape[1]
    if keys == 0:
        return q.new_zeros(q.shape[0], q.shape[2], q.shape[1], 0)
    identity = torch.eye(keys, dtype=q.dtype, device=q.device)
    identity = identity[None, :, None].expand(k.shape[0], keys, k.shape[2], keys)
    out, _ = attend(q, k, identity, 0.0, *options)
    return out.transpose(1, 2)
