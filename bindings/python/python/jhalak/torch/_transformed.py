"""The operations under torch.func: its transforms see only gradients that are Functions."""

import torch

from jhalak.torch import _ops


class Forward(torch.autograd.Function):
    """torch.ops.jhalak.forward."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*arguments):
        """out and lse."""
        return _ops.forward(*arguments)

    setup_context = staticmethod(_ops.save)

    @staticmethod
    def backward(ctx, dout, dlse):
        """Gradients of the tensors among the arguments."""
        return _ops.gradients(ctx, dout, dlse, _Backward.apply)


class _Backward(torch.autograd.Function):
    """torch.ops.jhalak.backward."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*arguments):
        return _ops.backward(*arguments)

    @staticmethod
    def setup_context(ctx, inputs, output):
        del ctx, inputs, output

    backward = staticmethod(_ops.no_second_derivative)


class Merge(torch.autograd.Function):
    """torch.ops.jhalak.merge, its two lists one after the other; not for vmap."""

    @staticmethod
    def forward(*parts):
        """out and lse over the keys of all parts."""
        return _ops.merge(*_halves(parts))

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Keeps what the backward needs."""
        _ops.save_merge(ctx, _halves(inputs), output)

    @staticmethod
    def backward(ctx, dout, dlse):
        """Gradients of the parts' out, then of their lse."""
        douts, dlses = _ops.merge_gradients(ctx, dout, dlse)
        return (*douts, *dlses)


def _halves(parts):
    count = len(parts) // 2
    return list(parts[:count]), list(parts[count:])
