"""The operations as torch knows them: torch.ops.jhalak.forward, backward and merge.

Functional, with fresh row-major results, so that torch.compile, export, functorch and dispatch
modes can reason about them. Calls that need none of that take the shorter way in _direct.py.
"""

import torch

from jhalak.torch import _kernels

_TENSORS = (
    "Tensor? bias, Tensor? mask, Tensor? alibi_slopes, Tensor? sinks, Tensor? cu_seqlens_q, "
    "Tensor? cu_seqlens_k, Tensor? seqused_q, Tensor? seqused_k"
)
_SCALARS = (
    "float? scale, bool causal, int window_left, int window_right, float softcap, "
    "float dropout_p, int? q_start, int? k_start"
)


def seed_and_offset(rng):
    """The two numbers that choose dropout's mask; `rng` is int64 [2] or None."""
    return (0, 0) if rng is None else rng.tolist()


@torch.library.custom_op(
    "jhalak::forward",
    mutates_args=(),
    schema=f"(Tensor q, Tensor k, Tensor v, {_TENSORS}, Tensor? rng, {_SCALARS}, bool f32_out)"
    " -> (Tensor, Tensor)",
)
def forward(q, k, v, *options):
    """out and lse."""
    tensors, rng, scalars, f32_out = options[:8], options[8], options[9:17], options[17]
    seed, offset = seed_and_offset(rng)
    return _kernels.forward(
        q, k, v, tensors, scalars, seed, offset, torch.float32 if f32_out else q.dtype
    )


@forward.register_fake
def _(q, k, v, *options):
    out_dtype = torch.float32 if options[17] else q.dtype
    return _kernels.new_results(q, v, options[4] is not None, out_dtype)


@torch.library.custom_op(
    "jhalak::backward",
    mutates_args=(),
    schema="(Tensor dout, Tensor? dlse, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, "
    f"{_TENSORS}, Tensor? rng, {_SCALARS}, bool[] needs)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def backward(dout, dlse, q, k, v, out, lse, *options):
    """dq, dk, dv, dbias and dsinks; those that are not needed are empty."""
    tensors, rng, scalars, needs = options[:8], options[8], options[9:17], options[17]
    seed, offset = seed_and_offset(rng)
    targets = _kernels.new_gradients(q, k, v, tensors[0], tensors[3], needs)
    _kernels.backward(dout, q, k, v, out, None, lse, dlse, tensors, scalars, seed, offset, targets)
    return tuple(q.new_empty(0) if target is None else target for target in targets)


@backward.register_fake
def _(dout, dlse, q, k, v, out, lse, *options):
    targets = _kernels.new_gradients(q, k, v, options[0], options[3], options[17])
    return tuple(q.new_empty(0) if target is None else target for target in targets)


def save(ctx, inputs, output):
    """Keeps what `gradients` needs."""
    ctx.save_for_backward(*inputs[:12], *output)
    ctx.scalars = inputs[12:20]
    ctx.set_materialize_grads(False)


def check_slopes(alibi_slopes):
    """Slopes have no gradient."""
    if alibi_slopes is not None and alibi_slopes.requires_grad:
        raise ValueError("alibi_slopes must not require a gradient: they have none")


def gradients(ctx, dout, dlse, call=backward):
    """A gradient, or None, for each argument of `forward`."""
    if dout is None and dlse is None:
        return (None,) * 21
    q, k, v, bias, mask, slopes, sinks, cu_q, cu_k, used_q, used_k, rng, out, lse = (
        ctx.saved_tensors
    )
    needs_input = ctx.needs_input_grad
    needs = [bool(needs_input[n]) for n in (0, 1, 2, 3, 6)]
    if dout is None:
        dout = torch.zeros_like(out)
    grads = call(
        dout, dlse, q, k, v, out, lse, bias, mask, slopes, sinks, cu_q, cu_k, used_q, used_k, rng,
        *ctx.scalars, needs,
    )  # fmt: skip
    dq, dk, dv, dbias, dsinks = (
        grad if needed else None for grad, needed in zip(grads, needs, strict=True)
    )
    return (dq, dk, dv, dbias, None, None, dsinks) + (None,) * 14


forward.register_autograd(gradients, setup_context=save)


def no_second_derivative(*_):
    """What the gradient of a gradient is: an error."""
    raise NotImplementedError(
        "jhalak has first derivatives only: its backward cannot be differentiated again"
    )


backward.register_autograd(no_second_derivative)


@torch.library.custom_op(
    "jhalak::merge", mutates_args=(), schema="(Tensor[] outs, Tensor[] lses) -> (Tensor, Tensor)"
)
def merge(outs, lses):
    """out and lse over the keys of all parts."""
    return _kernels.merge(outs, lses)


@merge.register_fake
def _(outs, lses):
    return outs[0].new_empty(outs[0].shape), lses[0].new_empty(lses[0].shape)


def save_merge(ctx, inputs, output):
    """Keeps what `merge_gradients` needs."""
    outs, lses = inputs
    ctx.parts = len(outs)
    ctx.save_for_backward(*outs, *lses, *output)
    ctx.set_materialize_grads(False)


def merge_gradients(ctx, dout, dlse):
    """Each part has weight exp(lse_part - lse) in out; its lse moves that weight."""
    *parts, out, lse = ctx.saved_tensors
    outs, lses = parts[: ctx.parts], parts[ctx.parts :]
    douts, dlses = [], []
    for part_out, part_lse in zip(outs, lses, strict=True):
        sees = part_lse.isfinite()
        weight = torch.where(sees, (part_lse - lse).exp(), 0)
        moved = torch.zeros_like(weight) if dlse is None else dlse * weight
        if dout is None:
            douts.append(None)
        else:
            per_row = weight.transpose(-1, -2).unsqueeze(-1)
            part = torch.where(sees.transpose(-1, -2).unsqueeze(-1), part_out, 0)
            douts.append((dout * per_row).to(part_out.dtype))
            difference = (dout * (part - out)).sum(-1, dtype=weight.dtype)
            moved = moved + weight * difference.transpose(-1, -2)
        dlses.append(moved)
    return douts, dlses


merge.register_autograd(merge_gradients, setup_context=save_merge)
