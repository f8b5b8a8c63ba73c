"""Exact attention in linear memory, on torch tensors, NumPy arrays and anything with DLPack.

    import jhalak
    out = jhalak.attention(q, k, v, causal=True)  # [B, S, H, D]

`jhalak.torch` has what only torch needs, `jhalak.flash_attn` the API of flash-attn,
`jhalak.transformers` a line that brings it to Hugging Face models.
"""

from jhalak._attention import (
    attention,
    attention_backward,
    dropout_mask,
    merge,
    varlen_attention,
)
from jhalak._jhalak import Array, __version__, instruction_set
from jhalak._results import Gradients

__all__ = [
    "Array",
    "Gradients",
    "__version__",
    "attention",
    "attention_backward",
    "dropout_mask",
    "instruction_set",
    "merge",
    "varlen_attention",
]
