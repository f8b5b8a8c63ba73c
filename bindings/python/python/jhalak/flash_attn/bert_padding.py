"""flash-attn's helpers for padded batches: padding taken out, put back, with gradients."""

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = [
    "index_first_axis",
    "index_first_axis_residual",
    "index_put_first_axis",
    "pad_input",
    "unpad_input",
    "unpad_input_for_concatenated_sequences",
]


def index_first_axis(input: Tensor, indices: Tensor) -> Tensor:
    """The rows `indices` of `input` [rows, …]."""
    return input[indices]


def index_put_first_axis(values: Tensor, indices: Tensor, first_axis_dim: int) -> Tensor:
    """[first_axis_dim, …] with `values` in the rows `indices` and 0 in the others."""
    out = values.new_zeros((first_axis_dim, *values.shape[1:]))
    return out.index_put((indices,), values)


def index_first_axis_residual(input: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """The rows `indices` of `input`, and `input` itself."""
    return input[indices], input


def unpad_input(
    hidden_states: Tensor, attention_mask: Tensor, unused_mask: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, int, Tensor]:
    """Takes the padding out of hidden_states [B, S, …].

    attention_mask [B, S] is 1 for real tokens; unused_mask is 1 for rows that are kept although
    they do not count.

    Returns:
        (rows [total, …], their indices in B·S, cu_seqlens int32 [B + 1], the longest sequence, how
        many of each sequence count, int32 [B]).
    """
    kept = attention_mask if unused_mask is None else attention_mask + unused_mask
    seqused = attention_mask.sum(dim=-1, dtype=torch.int32)
    lengths = kept.sum(dim=-1, dtype=torch.int32)
    indices = torch.nonzero(kept.flatten()).flatten()
    longest = int(lengths.max()) if lengths.numel() else 0
    return (
        hidden_states.flatten(0, 1)[indices],
        indices,
        F.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0)),
        longest,
        seqused,
    )


def unpad_input_for_concatenated_sequences(
    hidden_states: Tensor, attention_mask_in_length: Tensor
) -> tuple[Tensor, Tensor, Tensor, int]:
    """`unpad_input` for rows that hold several sequences.

    attention_mask_in_length [B, S] lists the lengths of the sequences in each row, then zeros:
    [2, 3, 0, 0, 0, 0] is a sequence of 2, one of 3, and one row of padding.

    Returns:
        (rows [total, …], their indices in B·S, cu_seqlens int32, the longest sequence).
    """
    seqlen = attention_mask_in_length.shape[-1]
    tokens = attention_mask_in_length.sum(dim=-1)
    position = torch.arange(seqlen, device=tokens.device)
    indices = torch.nonzero((position < tokens[:, None]).flatten()).flatten()
    lengths = attention_mask_in_length.flatten()
    lengths = lengths[lengths > 0].to(torch.int32)
    longest = int(lengths.max()) if lengths.numel() else 0
    cu_seqlens = F.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))
    return hidden_states.flatten(0, 1)[indices], indices, cu_seqlens, longest


def pad_input(hidden_states: Tensor, indices: Tensor, batch: int, seqlen: int) -> Tensor:
    """Puts rows [total, …] back into [batch, seqlen, …], with 0 as padding."""
    padded = index_put_first_axis(hidden_states, indices, batch * seqlen)
    return padded.unflatten(0, (batch, seqlen))
