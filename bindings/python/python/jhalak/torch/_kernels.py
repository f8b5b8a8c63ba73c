"""torch tensors handed to the compiled part: described by integers, results allocated by torch."""

import torch

from jhalak import _raw
from jhalak._raw import CODES, HOST

_CODES = {getattr(torch, name): code for name, code in CODES.items()}


def describe(tensor, name):
    """The integers that say where a tensor is and how it is laid out; None for None."""
    if tensor is None:
        return None
    try:
        code = _CODES[tensor.dtype]
    except KeyError:
        names = ", ".join(CODES)
        raise TypeError(f"{name} must have dtype {names}, but has {tensor.dtype}") from None
    if tensor.is_cpu:
        device = HOST
    elif tensor.is_cuda:
        device = tensor.get_device()
    else:
        raise ValueError(f"{name} must be on the CPU or a CUDA device, but is on {tensor.device}")
    return tensor.data_ptr(), code, device, tuple(tensor.shape), tensor.stride()


def lse_dtype(q):
    """float32, or float64 for float64."""
    return torch.float64 if q.dtype is torch.float64 else torch.float32


def forward_shapes(q, v, packed):
    """The shapes of out and lse."""
    rank = 3 if packed else 4
    for name, tensor in (("q", q), ("v", v)):
        if tensor.dim() != rank:
            raise ValueError(
                f"{name} must have {rank} dimensions, but has shape {list(tensor.shape)}"
            )
    if packed:
        total, heads, _ = q.shape
        return (total, heads, v.shape[-1]), (heads, total)
    batch, seqlen, heads, _ = q.shape
    return (batch, seqlen, heads, v.shape[-1]), (batch, heads, seqlen)


def raw_options(tensors, scalars, seed, offset):
    """The options as one tuple; `tensors` are those after q, k and v, in the ops' order."""
    bias, mask, alibi_slopes, sinks, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k = tensors
    scale, causal, left, right, softcap, dropout_p, q_start, k_start = scalars
    return _raw.options(
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
        bias if bias is None else describe(bias, "bias"),
        mask if mask is None else describe(mask, "mask"),
        alibi_slopes if alibi_slopes is None else describe(alibi_slopes, "alibi_slopes"),
        sinks if sinks is None else describe(sinks, "sinks"),
        cu_seqlens_q if cu_seqlens_q is None else describe(cu_seqlens_q, "cu_seqlens_q"),
        cu_seqlens_k if cu_seqlens_k is None else describe(cu_seqlens_k, "cu_seqlens_k"),
        seqused_q if seqused_q is None else describe(seqused_q, "seqused_q"),
        seqused_k if seqused_k is None else describe(seqused_k, "seqused_k"),
    )


def forward(q, k, v, tensors, scalars, seed, offset, out_dtype):
    """New tensors out and lse."""
    out_shape, lse_shape = forward_shapes(q, v, tensors[4] is not None)
    raw = describe(q, "q"), describe(k, "k"), describe(v, "v")
    options = raw_options(tensors, scalars, seed, offset)
    out = q.new_empty(out_shape, dtype=out_dtype)
    lse = q.new_empty(lse_shape, dtype=lse_dtype(q))
    _raw.forward(
        *raw, options, describe(out, "out"), describe(lse, "lse"), torch.get_num_threads()
    )
    return out, lse


def backward(
    dout, q, k, v, out, delta, lse, dlse, tensors, scalars, seed, offset, targets, accumulate=False
):
    """Writes, or adds, the gradients whose tensors `targets` holds: dq, dk, dv, dbias, dsinks."""
    names = ("dq", "dk", "dv", "dbias", "dsinks")
    _raw.backward(
        describe(dout, "dout"),
        describe(q, "q"),
        describe(k, "k"),
        describe(v, "v"),
        describe(out, "out"),
        describe(delta, "delta"),
        describe(lse, "lse"),
        describe(dlse, "dlse"),
        raw_options(tensors, scalars, seed, offset),
        tuple(describe(target, name) for target, name in zip(targets, names, strict=True)),
        accumulate,
        torch.get_num_threads(),
    )


def new_gradients(q, k, v, bias, sinks, needs):
    """Row-major tensors for the gradients that are needed; None for the others."""
    originals = (q, k, v, bias, sinks)
    return tuple(
        original.new_empty(original.shape) if needed else None
        for original, needed in zip(originals, needs, strict=True)
    )


def merge(outs, lses):
    """New tensors out and lse over the keys of all parts."""
    raw = [
        (describe(out, "a part's out"), describe(lse, "a part's lse"))
        for out, lse in zip(outs, lses, strict=True)
    ]
    out, lse = outs[0].new_empty(outs[0].shape), lses[0].new_empty(lses[0].shape)
    _raw.merge(raw, describe(out, "out"), describe(lse, "lse"), torch.get_num_threads())
    return out, lse
