"""The short way for plain tensors in eager mode, past torch's dispatcher: a few microseconds."""

import torch

from jhalak.torch import _kernels
from jhalak.torch._ops import check_slopes, no_second_derivative

_PLAIN = {torch.Tensor, torch.nn.Parameter}
_dispatch_modes = getattr(torch._C, "_len_torch_dispatch_stack", None)
_transforms = getattr(getattr(torch._C, "_functorch", None), "peek_interpreter_stack", None)
_tracing = getattr(torch._C, "_get_tracing_state", None)
_KNOWN = None not in (_dispatch_modes, _transforms, _tracing)


def applies(q, k, v, tensors):
    """Whether nobody but autograd wants to see the operation."""
    if torch.compiler.is_compiling() or not _KNOWN:
        return False
    if _dispatch_modes() or _transforms() is not None or _tracing() is not None:
        return False
    if type(q) not in _PLAIN or type(k) not in _PLAIN or type(v) not in _PLAIN:
        return False
    if tensors is not _kernels.NO_TENSORS:
        for tensor in tensors:
            if tensor is not None and type(tensor) not in _PLAIN:
                return False
    return True


def transformed():
    """Whether torch.func's grad, vmap or another of its transforms is at work."""
    return _transforms is not None and _transforms() is not None


def attention(q, k, v, tensors, scalars, seed, offset, out_dtype):
    """out and lse, with gradients where they are wanted."""
    if torch.is_grad_enabled():
        bias, mask, alibi_slopes, sinks, *lengths = tensors
        if alibi_slopes is not None:
            check_slopes(alibi_slopes)
        if (
            q.requires_grad
            or k.requires_grad
            or v.requires_grad
            or (bias is not None and bias.requires_grad)
            or (sinks is not None and sinks.requires_grad)
        ):
            return _Attention.apply(
                q, k, v, bias, sinks, mask, alibi_slopes, *lengths, scalars, seed, offset, out_dtype
            )
    return _kernels.forward(q, k, v, tensors, scalars, seed, offset, out_dtype)


class _Attention(torch.autograd.Function):
    """Saves the inputs, out and lse; the backward computes the scores again."""

    @staticmethod
    def forward(ctx, q, k, v, bias, sinks, mask, slopes, cu_q, cu_k, used_q, used_k, *rest):
        scalars, seed, offset, out_dtype = rest
        tensors = (bias, mask, slopes, sinks, cu_q, cu_k, used_q, used_k)
        out, lse = _kernels.forward(q, k, v, tensors, scalars, seed, offset, out_dtype)
        ctx.save_for_backward(q, k, v, *tensors, out, lse)
        ctx.call = scalars, seed, offset
        ctx.set_materialize_grads(False)
        return out, lse

    @staticmethod
    def backward(ctx, dout, dlse):
        if dout is None and dlse is None:
            return (None,) * 15
        q, k, v, *tensors, out, lse = ctx.saved_tensors
        needs = ctx.needs_input_grad[:5]
        if dout is None:
            dout = torch.zeros_like(out)
        if torch.is_grad_enabled():
            grads = _Gradients.apply(dout, dlse, q, k, v, out, lse, tensors, ctx.call, needs)
        else:
            grads = _gradients(dout, dlse, q, k, v, out, lse, tensors, ctx.call, needs)
        return (*grads, None, None, None, None, None, None, None, None, None, None)


class _Gradients(torch.autograd.Function):
    """The backward where a graph of it is recorded: to say clearly that it has no derivative."""

    @staticmethod
    def forward(ctx, *call):
        return _gradients(*call)

    @staticmethod
    def backward(ctx, *_):
        no_second_derivative()


def _gradients(dout, dlse, q, k, v, out, lse, tensors, call, needs):
    targets = _kernels.new_gradients(q, k, v, tensors[0], tensors[3], needs)
    _kernels.backward(dout, q, k, v, out, None, lse, dlse, tensors, *call, targets)
    return targets
