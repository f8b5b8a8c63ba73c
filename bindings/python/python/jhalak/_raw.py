"""What the compiled part takes: integers that describe tensors, and one tuple of options.

A tensor is (address, dtype code, device, shape, strides in elements); device -1 is host memory.
"""

import operator

from jhalak import _jhalak

F32, F16, BF16, F64, I32, I64, BOOL = range(7)

# Names as NumPy and torch say them.
CODES = {
    "float32": F32,
    "float16": F16,
    "bfloat16": BF16,
    "float64": F64,
    "int32": I32,
    "int64": I64,
    "bool": BOOL,
}

HOST = -1
UNBOUNDED = -1

forward = _jhalak.forward
backward = _jhalak.backward
merge = _jhalak.merge
dropout_mask = _jhalak.dropout_mask


def options(
    scale,
    causal,
    left,
    right,
    softcap,
    dropout_p,
    seed,
    offset,
    q_start,
    k_start,
    bias=None,
    mask=None,
    alibi_slopes=None,
    sinks=None,
    cu_seqlens_q=None,
    cu_seqlens_k=None,
    seqused_q=None,
    seqused_k=None,
):
    """The tuple of options; tensors are described already."""
    if dropout_p:
        seed, offset = _bits("seed", seed, 64), _bits("offset", offset, 32)
    else:
        seed = offset = 0
    return (
        scale,
        causal,
        left,
        right,
        softcap,
        dropout_p,
        seed,
        offset,
        q_start,
        k_start,
        bias,
        mask,
        alibi_slopes,
        sinks,
        cu_seqlens_q,
        cu_seqlens_k,
        seqused_q,
        seqused_k,
    )


def _bits(name, number, count):
    """The lowest bits of an integer."""
    try:
        return operator.index(number) & ((1 << count) - 1)
    except TypeError:
        raise TypeError(f"{name} must be an integer, but is {number!r}") from None


def window_bounds(window):
    """(left, right) with -1 for unbounded; `window` is None or a pair of integers or None."""
    if window is None:
        return UNBOUNDED, UNBOUNDED
    try:
        left, right = window
    except (TypeError, ValueError):
        raise TypeError(f"window must be a pair (left, right), but is {window!r}") from None
    return (UNBOUNDED if left is None else left), (UNBOUNDED if right is None else right)


def check_layout(layout):
    """Whether the heads come before the sequence."""
    if layout == "bshd":
        return False
    if layout == "bhsd":
        return True
    raise ValueError(f'layout must be "bshd" or "bhsd", but is {layout!r}')
