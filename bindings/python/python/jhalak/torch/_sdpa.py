"""`enable_sdpa`: torch's scaled_dot_product_attention, computed by jhalak."""

import torch
import torch.nn.functional as F
from torch import Tensor

from jhalak.torch import _calls

_SDPA = F.scaled_dot_product_attention
_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
_enabled = 0


class SdpaSwitch:
    """Switches it off again: by `disable()`, or as a context manager at the block's end."""

    def __init__(self):
        self._on = True

    def disable(self) -> None:
        """Gives the function back to torch, once every switch is off."""
        global _enabled
        if self._on:
            self._on = False
            _enabled -= 1
            if _enabled == 0:
                F.scaled_dot_product_attention = _SDPA

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.disable()


def enable_sdpa() -> SdpaSwitch:
    """Sends torch.nn.functional.scaled_dot_product_attention to jhalak, on tensors it can take.

        with jhalak.torch.enable_sdpa():
            logits = model(tokens)

    Its meaning stays torch's: [B, H, S, D], causal from the top left, dropout where dropout_p says
    so, and the lower precision of autocast. A row that sees no key gives 0. Calls that jhalak
    cannot take (nested tensors, another device, batch dimensions that broadcast) stay with torch.
    Code that kept the function under a name of its own (from … import) is not reached; compile
    models after switching it on.
    """
    global _enabled
    _enabled += 1
    F.scaled_dot_product_attention = scaled_dot_product_attention
    return SdpaSwitch()


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """torch's function of this name, by jhalak."""
    if not _takes(query, key, value, attn_mask, is_causal, enable_gqa):
        return _SDPA(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    device = query.device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        query, key, value = (x.to(dtype) for x in (query, key, value))
    *batch, heads, seqlen, dim = query.shape
    q, k, v = (_four(x).transpose(1, 2) for x in (query, key, value))
    mask = bias = None
    if attn_mask is not None:
        attn_mask = _four_mask(attn_mask)
        if attn_mask.dtype is torch.bool:
            mask = attn_mask
        else:
            bias = attn_mask if attn_mask.dtype is torch.float32 else attn_mask.to(q.dtype)
    tensors = (bias, mask, None, None, None, None, None, None)
    # Position 0 for the first query and the first key: causal from the top left.
    start = 0 if is_causal else None
    scalars = (scale, is_causal, -1, -1, 0.0, dropout_p, start, start)
    out, _ = _calls.attend(q, k, v, tensors, scalars, None, 0, q.dtype)
    return out.transpose(1, 2).reshape(*batch, heads, seqlen, value.shape[-1])


def _takes(query, key, value, attn_mask, is_causal, enable_gqa):
    """Whether jhalak computes this call; torch itself says what is wrong with a wrong one."""
    tensors = (query, key, value)
    if not all(isinstance(x, torch.Tensor) and x.is_cpu and not x.is_nested for x in tensors):
        return False
    if query.dtype not in _FLOATS or not (query.dtype == key.dtype == value.dtype):
        return False
    if query.dim() < 3 or not (query.dim() == key.dim() == value.dim()):
        return False
    batch, heads, key_heads = query.shape[:-3], query.shape[-3], key.shape[-3]
    if not (batch == key.shape[:-3] == value.shape[:-3] and key.shape[-2] == value.shape[-2]):
        return False
    if key_heads != value.shape[-3] or query.shape[-1] != key.shape[-1] or query.shape[-1] == 0:
        return False
    if value.shape[-1] == 0 or key_heads == 0:
        return False
    if heads != key_heads and not (enable_gqa and heads % key_heads == 0):
        return False
    if attn_mask is None:
        return True
    return (
        not is_causal
        and attn_mask.dim() <= query.dim()
        and (attn_mask.dtype is torch.bool or attn_mask.dtype in (torch.float32, query.dtype))
        and not _batch_of_mask_needs_copy(attn_mask, query.dim())
    )


def _batch_of_mask_needs_copy(attn_mask, rank):
    """Several batch dimensions, of which the mask has some: they do not flatten to one."""
    return rank > 4 and attn_mask.dim() > 3 and any(n != 1 for n in attn_mask.shape[:-3])


def _four(x):
    """[..., H, S, D] with one batch dimension."""
    return x.reshape(-1, *x.shape[-3:]) if x.dim() != 4 else x


def _four_mask(mask):
    """[B or 1, H or 1, Sq or 1, Sk or 1]."""
    mask = mask.reshape((1,) * (3 - mask.dim()) + mask.shape) if mask.dim() < 3 else mask
    return mask.reshape(-1, *mask.shape[-3:]) if mask.dim() != 4 else mask
