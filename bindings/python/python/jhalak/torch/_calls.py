"""`jhalak.attention` and its relatives on torch tensors."""

import torch

from jhalak import _raw
from jhalak._results import Gradients
from jhalak.torch import _direct, _kernels, _ops, _transformed
from jhalak.torch._kernels import NO_TENSORS  # noqa: F401 - for jhalak.attention

_LARGEST_SEED = 2**63 - 1
# The order in which options travel: tensors, then scalars.
_TENSORS = (
    "bias",
    "mask",
    "alibi_slopes",
    "sinks",
    "cu_seqlens_q",
    "cu_seqlens_k",
    "seqused_q",
    "seqused_k",
)


def attention(q, k, v, tensors, scalars, seed, offset, out_dtype, layout):
    """out and lse; tensors and scalars are the options in the ops' order."""
    if out_dtype is None:
        out_dtype = q.dtype
    elif out_dtype is not q.dtype and out_dtype is not torch.float32:
        raise TypeError(f"out_dtype must be torch.float32 or {q.dtype}, but is {out_dtype}")
    if layout == "bshd" or not _raw.check_layout(layout):
        return attend(q, k, v, tensors, scalars, seed, offset, out_dtype)
    q, k, v = _exchanged(q, "q"), _exchanged(k, "k"), _exchanged(v, "v")
    out, lse = attend(q, k, v, tensors, scalars, seed, offset, out_dtype)
    return out.transpose(1, 2), lse


def attend(q, k, v, tensors, scalars, seed, offset, out_dtype):
    """out and lse by the shortest way that serves whoever is watching; seed None draws one."""
    drops = scalars[5] != 0.0
    if _direct.applies(q, k, v, tensors):
        if drops and seed is None:
            seed, offset = draw_seed().tolist()
        return _direct.attention(q, k, v, tensors, scalars, seed or 0, offset, out_dtype)
    for name, tensor in (("k", k), ("v", v)):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} must be a torch.Tensor, as q, but is {type(tensor).__name__}")
    _ops.check_slopes(tensors[2])
    rng = None
    if drops:
        rng = draw_seed() if seed is None else torch.tensor([seed, offset], dtype=torch.int64)
    call = _transformed.Forward.apply if _direct.transformed() else _ops.forward
    return call(q, k, v, *tensors, rng, *scalars, out_dtype is not q.dtype)


def draw_seed():
    """Seed and offset from torch's generator: int64 [2] on the host."""
    # Not random_(): torch.compile traces only what works out of place.
    return torch.randint(_LARGEST_SEED, (2,), dtype=torch.int64, device="cpu")


def attention_backward(dout, q, k, v, out, lse, delta, dlse, wanted, accumulate, o):
    """The gradients that `wanted` asks for by name: True for a new tensor, or a tensor to fill."""
    heads_first = _raw.check_layout(o["layout"])
    originals = {"dq": q, "dk": k, "dv": v, "dbias": o["bias"], "dsinks": o["sinks"]}
    results, targets = {}, []
    for name, want in wanted.items():
        if want is True:
            if originals[name] is None:
                raise ValueError(f"{name} needs the tensor that it is the gradient of")
            want = originals[name].new_empty(originals[name].shape)
        elif want is False:
            want = None
        results[name] = want
        exchange = heads_first and want is not None and name in ("dq", "dk", "dv")
        targets.append(_exchanged(want, name) if exchange else want)
    if heads_first:
        q, k, v = _exchanged(q, "q"), _exchanged(k, "k"), _exchanged(v, "v")
        dout = _exchanged(dout, "dout")
        out = out if out is None else _exchanged(out, "out")
    tensors = tuple(o.get(name) for name in _TENSORS)
    if o["dropout_p"] and o["seed"] is None:
        raise ValueError("seed must be given with dropout_p: it is that of the forward")
    with torch.no_grad():
        _kernels.backward(
            dout, q, k, v, out, delta, lse, dlse, tensors, _scalars(o), o["seed"] or 0,
            o["offset"], targets, accumulate,
        )  # fmt: skip
    return Gradients(**results)


def merge(parts):
    """out and lse over the keys of all parts."""
    outs, lses = [out for out, _ in parts], [lse for _, lse in parts]
    if _direct.applies(outs[0], outs[0], lses[0], outs + lses) and not (
        torch.is_grad_enabled() and any(tensor.requires_grad for tensor in outs + lses)
    ):
        return _kernels.merge(outs, lses)
    if _direct.transformed():
        return _transformed.Merge.apply(*outs, *lses)
    return _ops.merge(outs, lses)


def dropout_mask(q, k, v, o):
    """The weights that dropout keeps, bool [B, Hq, Sq, Sk]."""
    if _raw.check_layout(o["layout"]):
        q, k, v = _exchanged(q, "q"), _exchanged(k, "k"), _exchanged(v, "v")
    tensors = tuple(o.get(name) for name in _TENSORS)
    options = _kernels.raw_options(tensors, _scalars(o), o["seed"], o["offset"])
    described = [_kernels.describe(x, name) for name, x in (("q", q), ("k", k), ("v", v))]
    shape, kept = _raw.dropout_mask(*described, options)
    if not kept:
        return torch.empty(shape, dtype=torch.bool)
    return torch.frombuffer(bytearray(kept), dtype=torch.bool).reshape(shape)


def _scalars(o):
    left, right = _raw.window_bounds(o["window"])
    return (
        o["scale"],
        o["causal"],
        left,
        right,
        o["softcap"] or 0.0,
        o["dropout_p"],
        o["q_start"],
        o["k_start"],
    )


def _exchanged(tensor, name):
    """[B, H, S, D] as [B, S, H, D]."""
    if tensor.dim() != 4:
        raise ValueError(f"{name} must have 4 dimensions, but has shape {list(tensor.shape)}")
    return tensor.transpose(1, 2)
