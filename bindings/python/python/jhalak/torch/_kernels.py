"""torch tensors handed to the compiled part: described by integers, results allocated by torch."""

import torch

from jhalak import _raw
from jhalak._raw import CODES, HOST

_CODES = {getattr(torch, name): code for name, code in CODES.items()}
_NAMES = (
    "bias",
    "mask",
    "alibi_slopes",
    "sinks",
    "cu_seqlens_q",
    "cu_seqlens_k",
    "seqused_q",
    "seqused_k",
)
# All options that are tensors, left out.
NO_TENSORS = (None,) * len(_NAMES)


def describe(tensor, name):
    """The integers that say where a tensor is and how it is laid out; None for None."""
    if tensor is None:
        return None
    code = _CODES.get(tensor.dtype)
    if code is None:
        raise TypeError(f"{name} must have dtype {', '.join(CODES)}, but has {tensor.dtype}")
    if tensor.is_cpu:
        return tensor.data_ptr(), code, HOST, tensor.shape, tensor.stride()
    if tensor.is_cuda:
        return tensor.data_ptr(), code, tensor.get_device(), tensor.shape, tensor.stride()
    raise ValueError(f"{name} must be on the CPU or a CUDA device, but is on {tensor.device}")


def new_results(q, v, packed, out_dtype):
    """Row-major out and lse, not yet written."""
    q_shape, v_shape = q.shape, v.shape
    rank = 3 if packed else 4
    if len(q_shape) != rank or len(v_shape) != rank:
        name, shape = ("q", q_shape) if len(q_shape) != rank else ("v", v_shape)
        raise ValueError(f"{name} must have {rank} dimensions, but has shape {list(shape)}")
    if packed:
        total, heads, _ = q_shape
        out_shape, lse_shape = (total, heads, v_shape[2]), (heads, total)
    else:
        batch, seqlen, heads, _ = q_shape
        out_shape, lse_shape = (batch, seqlen, heads, v_shape[3]), (batch, heads, seqlen)
    dtype = q.dtype
    # Sizes one by one are what torch reads fastest.
    if out_dtype is dtype:
        out = q.new_empty(*out_shape)
    else:
        out = q.new_empty(out_shape, dtype=out_dtype)
    if dtype is torch.float32 or dtype is torch.float64:
        return out, q.new_empty(*lse_shape)
    return out, q.new_empty(lse_shape, dtype=torch.float32)


def raw_options(tensors, scalars, seed, offset):
    """The options as one tuple; `tensors` are those after q, k and v, in the ops' order."""
    scale, causal, left, right, softcap, dropout_p, q_start, k_start = scalars
    return _raw.options(
        scale, causal, left, right, softcap, dropout_p, seed, offset, q_start, k_start,
        *(tensors if tensors is NO_TENSORS else map(describe, tensors, _NAMES)),
    )  # fmt: skip


def forward(q, k, v, tensors, scalars, seed, offset, out_dtype):
    """New tensors out and lse."""
    raw_q, raw_k, raw_v = describe(q, "q"), describe(k, "k"), describe(v, "v")
    options = raw_options(tensors, scalars, seed, offset)
    out, lse = new_results(q, v, tensors[4] is not None, out_dtype)
    raw_out, raw_lse = describe(out, "out"), describe(lse, "lse")
    _raw.forward(raw_q, raw_k, raw_v, options, raw_out, raw_lse, torch.get_num_threads())
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
