"""The private functions as operations of torch, for every device, as diffusers calls them."""

import torch

from jhalak.flash_attn import _private
from jhalak.torch import _kernels

_TAIL = (
    "float dropout_p, float? softmax_scale, bool causal, int window_size_left, "
    "int window_size_right, float softcap, Tensor? alibi_slopes"
)
_GRADS = "Tensor(a!)? dq, Tensor(b!)? dk, Tensor(c!)? dv"
_SAVED = "Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor softmax_lse"
_PACKING = "Tensor cu_seqlens_q, Tensor cu_seqlens_k, SymInt max_seqlen_q, SymInt max_seqlen_k"
_FOUR = " -> (Tensor, Tensor, Tensor, Tensor)"
_FORWARD = f"(Tensor q, Tensor k, Tensor v, {_TAIL}, bool return_softmax){_FOUR}"
_VARLEN_FORWARD = (
    f"(Tensor q, Tensor k, Tensor v, {_PACKING}, float dropout_p, float? softmax_scale, "
    "bool causal, int window_size_left=-1, int window_size_right=-1, float softcap=0.0, "
    "Tensor? alibi_slopes=None, bool return_softmax=False, Tensor? block_table=None, "
    "Tensor? leftpad_k=None, Tensor? seqused_k=None, bool zero_tensors=False, int num_splits=0)"
    f"{_FOUR}"
)
_WRITTEN = ("dq", "dk", "dv")
_BACKWARD = f"({_SAVED}, {_GRADS}, {_TAIL}, bool deterministic, Tensor? rng_state=None) -> Tensor"
_VARLEN_BACKWARD = (
    f"({_SAVED}, {_GRADS}, {_PACKING}, {_TAIL}, bool deterministic, Tensor? rng_state=None, "
    "bool zero_tensors=False) -> Tensor"
)


def register(namespace):
    """torch.ops.NAMESPACE: forward, varlen forward, backward, varlen backward."""
    return (
        _operation(namespace, _private._flash_attn_forward, _FORWARD, (), _fake_forward),
        _operation(
            namespace, _private._flash_attn_varlen_forward, _VARLEN_FORWARD, (), _fake_varlen
        ),
        _operation(namespace, _private._flash_attn_backward, _BACKWARD, _WRITTEN, _fake_backward),
        _operation(
            namespace,
            _private._flash_attn_varlen_backward,
            _VARLEN_BACKWARD,
            _WRITTEN,
            _fake_backward,
        ),
    )


def _operation(namespace, function, schema, mutates, fake):
    name = f"{namespace}::{function.__name__}"
    operation = torch.library.custom_op(name, mutates_args=mutates, schema=schema)(function)
    operation.register_fake(fake)
    return operation


def _fake_forward(
    q, k, v, dropout_p, softmax_scale, causal, window_size_left, window_size_right, softcap,
    alibi_slopes, return_softmax,
):  # fmt: skip
    batch, seqlen, heads, _ = q.shape
    weights = (batch, heads, seqlen, k.shape[1])
    return _fake_results(q, v, False, weights if return_softmax and dropout_p else (0,))


def _fake_varlen(
    q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p, softmax_scale,
    causal, window_size_left=-1, window_size_right=-1, softcap=0.0, alibi_slopes=None,
    return_softmax=False, block_table=None, leftpad_k=None, seqused_k=None, zero_tensors=False,
    num_splits=0,
):  # fmt: skip
    weights = (cu_seqlens_q.shape[0] - 1, q.shape[1], max_seqlen_q, max_seqlen_k)
    pages_to_rows = v if block_table is None else v.flatten(0, 1)
    return _fake_results(q, pages_to_rows, True, weights if return_softmax and dropout_p else (0,))


def _fake_results(q, v, packed, weights):
    out, lse = _kernels.new_results(q, v, packed, q.dtype)
    return out, lse, q.new_empty(weights), torch.empty(2, dtype=torch.int64)


def _fake_backward(dout, q, k, v, out, softmax_lse, *options, **named):
    return torch.empty_like(softmax_lse, memory_format=torch.contiguous_format)
