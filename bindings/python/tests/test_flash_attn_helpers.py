"""flash-attn's helpers: padding taken out and put back, rotary embeddings, and ring attention."""

import inspect

import pytest
import torch

from jhalak.flash_attn import bert_padding, flash_attn_varlen_func
from jhalak.flash_attn import flash_attn_interface as fa2
from jhalak.flash_attn.layers import rotary
from standard import attention, judge, tensors

MASK = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0], [0, 1, 0, 1, 0]])


@pytest.mark.parametrize("mask", [MASK, MASK.bool(), MASK.float()])
def test_unpadding_keeps_the_real_rows_and_padding_puts_them_back(mask):
    (x,) = tensors((4, 5, 3, 2))
    rows, indices, cu_seqlens, longest, used = bert_padding.unpad_input(x, mask)
    assert torch.equal(rows, x[mask.bool()])
    assert indices.tolist() == [0, 1, 2, 5, 6, 7, 8, 9, 16, 18]
    assert cu_seqlens.tolist() == [0, 3, 8, 8, 10] and cu_seqlens.dtype == torch.int32
    assert longest == 5 and isinstance(longest, int)
    assert used.tolist() == [3, 5, 0, 2] and used.dtype == torch.int32
    back = bert_padding.pad_input(rows, indices, 4, 5)
    assert torch.equal(back, x * mask.bool()[:, :, None, None])


def test_unused_rows_are_kept_but_not_counted():
    (x,) = tensors((2, 4, 3))
    mask, unused = torch.tensor([[1, 1, 0, 0], [1, 0, 0, 0]]), torch.tensor([[0, 0, 1, 0], [0] * 4])
    rows, indices, cu_seqlens, longest, used = bert_padding.unpad_input(x, mask, unused)
    assert torch.equal(rows, x.flatten(0, 1)[[0, 1, 2, 4]]) and indices.tolist() == [0, 1, 2, 4]
    assert cu_seqlens.tolist() == [0, 3, 4] and longest == 3 and used.tolist() == [2, 1]


def test_rows_of_several_sequences_are_unpadded_by_their_lengths():
    (x,) = tensors((2, 6, 3))
    lengths = torch.tensor([[2, 3, 0, 0, 0, 0], [4, 0, 0, 0, 0, 0]])
    rows, indices, cu_seqlens, longest = bert_padding.unpad_input_for_concatenated_sequences(
        x, lengths
    )
    assert torch.equal(rows, torch.cat((x[0, :5], x[1, :4])))
    assert indices.tolist() == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    assert cu_seqlens.tolist() == [0, 2, 5, 9] and longest == 4


def test_rows_are_taken_and_put_with_gradients():
    x, values = tensors((6, 3), (2, 3), grad=True)
    indices = torch.tensor([4, 1])
    taken, same = bert_padding.index_first_axis_residual(x, indices)
    assert same is x and torch.equal(taken, bert_padding.index_first_axis(x, indices))
    put = bert_padding.index_put_first_axis(values, indices, 6)
    assert torch.equal(put[4], values[0]) and torch.equal(put[1], values[1])
    assert int((put != 0).any(-1).sum()) == 2
    (taken.sum() + put.square().sum()).backward()
    assert x.grad.sum(-1).tolist() == [0, 3, 0, 0, 3, 0]
    assert torch.equal(values.grad, 2 * values.detach())


def test_a_padded_batch_through_varlen_is_masked_attention():
    q, k, v = tensors(*[(4, 5, 2, 8)] * 3, grad=True)
    rows = [bert_padding.unpad_input(x, MASK) for x in (q, k, v)]
    _, indices, cu, longest, _ = rows[0]
    out = flash_attn_varlen_func(*(x[0] for x in rows), cu, cu, longest, longest)
    out = bert_padding.pad_input(out, indices, 4, 5)
    seen = MASK.bool()
    truth, _ = attention(q, k, v, mask=seen[:, None, None], dtype=torch.float64)
    truth = truth * seen[:, :, None, None]
    torch.testing.assert_close(out.double(), truth, atol=1e-6, rtol=1e-5)
    found = torch.autograd.grad(out.sin().sum(), (q, k, v))
    wanted = torch.autograd.grad(truth.sin().sum(), (q, k, v))
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def tables(length, rotary_dim):
    angles = torch.outer(
        torch.arange(float(length)), 10.0 ** -torch.linspace(0, 3, rotary_dim // 2)
    )
    return angles.cos(), angles.sin()


def rotated(x, angles, interleaved):
    """Each pair of the first columns as a complex number times e^(i angle), in f64."""
    half = angles.shape[-1]
    part, rest = x[..., : 2 * half].double(), x[..., 2 * half :].double()
    first, second = (part[..., ::2], part[..., 1::2]) if interleaved else part.chunk(2, -1)
    turn = torch.polar(torch.ones_like(angles), angles).unsqueeze(-2)
    pairs = torch.complex(first, second) * turn
    return torch.cat(
        (torch.stack((pairs.real, pairs.imag), -1 if interleaved else -2).flatten(-2), rest), -1
    )


def angles_at(positions, rotary_dim):
    return positions[..., None].double() * 10.0 ** -torch.linspace(0, 3, rotary_dim // 2).double()


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("offsets", [0, 3, torch.tensor([1, 4])])
@pytest.mark.parametrize("inplace", [False, True])
def test_rotary_is_multiplication_by_unit_complex_numbers(interleaved, offsets, inplace):
    (x,) = tensors((2, 5, 3, 12))
    start = offsets[:, None] if isinstance(offsets, torch.Tensor) else offsets
    expected = rotated(x, angles_at(torch.arange(5).expand(2, 5) + start, 8), interleaved)
    out = rotary.apply_rotary_emb(
        x, *tables(16, 8), interleaved=interleaved, inplace=inplace, seqlen_offsets=offsets
    )
    torch.testing.assert_close(out.double(), expected, atol=1e-5, rtol=1e-5)
    assert (out is x) == inplace


@pytest.mark.parametrize("offsets", [2, torch.tensor([1, 0, 4])])
def test_rotary_of_packed_sequences_starts_each_at_its_offset(offsets):
    (x,) = tensors((9, 3, 8))
    cu = torch.tensor([0, 4, 4, 9], dtype=torch.int32)
    starts = offsets.tolist() if isinstance(offsets, torch.Tensor) else [offsets] * 3
    positions = torch.cat([torch.arange(n) + s for n, s in zip((4, 0, 5), starts, strict=True)])
    out = rotary.apply_rotary_emb(
        x, *tables(16, 8), seqlen_offsets=offsets, cu_seqlens=cu, max_seqlen=5
    )
    expected = rotated(x, angles_at(positions, 8), False)
    torch.testing.assert_close(out.double(), expected, atol=1e-5, rtol=1e-5)


def test_rotary_has_the_gradient_of_a_rotation():
    (x,) = tensors((2, 5, 3, 8), dtype=torch.float64, grad=True)
    cos, sin = (table.double() for table in tables(8, 6))
    assert torch.autograd.gradcheck(lambda x: rotary.apply_rotary_emb(x, cos, sin, True), x)


def test_rotary_turns_q_and_k_within_qkv_and_leaves_v():
    cos, sin = tables(8, 8)
    (qkv,) = tensors((2, 5, 3, 4, 8))
    q, k, v = (x.clone() for x in qkv.unbind(2))
    assert rotary.apply_rotary_emb_qkv_(qkv, cos, sin) is qkv
    assert torch.equal(qkv[:, :, 0], rotary.apply_rotary_emb(q, cos, sin))
    assert torch.equal(qkv[:, :, 1], rotary.apply_rotary_emb(k, cos, sin))
    assert torch.equal(qkv[:, :, 2], v)
    (heads,) = tensors((2, 5, 8, 8))
    before = heads.clone()
    rotary.apply_rotary_emb_qkv_(heads, cos, sin, num_heads_q=4)
    assert torch.equal(heads[:, :, :6], rotary.apply_rotary_emb(before[:, :, :6], cos, sin))
    assert torch.equal(heads[:, :, 6:], before[:, :, 6:])
    (kv,) = tensors((2, 5, 2, 4, 8))
    before = kv.clone()
    assert rotary.apply_rotary_emb_kv_(kv, cos, sin) is kv
    assert torch.equal(kv[:, :, 0], rotary.apply_rotary_emb(before[:, :, 0], cos, sin))
    assert torch.equal(kv[:, :, 1], before[:, :, 1])


def test_the_rotary_module_turns_by_powers_of_its_base():
    module = rotary.RotaryEmbedding(8, base=100.0)
    (qkv,) = tensors((2, 5, 3, 4, 8))
    before = qkv.clone()
    module(qkv, seqlen_offset=2)
    angles = (torch.arange(5) + 2.0)[:, None].double() * 100.0 ** -(torch.arange(4).double() / 4)
    for n in (0, 1):
        expected = rotated(before[:, :, n], angles.expand(2, 5, 4), False)
        torch.testing.assert_close(qkv[:, :, n].double(), expected, atol=1e-5, rtol=1e-5)
    q, kv = tensors((2, 5, 4, 8), (2, 5, 2, 4, 8))
    turned_q, turned_kv = module(q, kv.clone(), seqlen_offset=torch.tensor([0, 3]))
    later = rotary.apply_rotary_emb(q, *module._tables(8, q), seqlen_offsets=torch.tensor([0, 3]))
    assert torch.equal(turned_q, later)
    assert torch.equal(turned_kv[:, :, 1], kv[:, :, 1])


def default_arguments(function):
    """Every argument with its default, or None: how context-parallel libraries make a call."""
    spec = inspect.getfullargspec(function)
    defaults = spec.defaults or ()
    padded = (None,) * (len(spec.args) - len(defaults)) + defaults
    return {**dict(zip(spec.args, padded, strict=True)), "softcap": 0.0}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_ring_attention_from_the_private_functions_is_attention(causal, dtype):
    q, k, v, dout = tensors(*[(2, 12, 4, 16)] * 4, dtype=dtype)
    world, local = 3, 4
    shards = [slice(rank * local, (rank + 1) * local) for rank in range(world)]
    out, dq = torch.empty_like(q), torch.zeros(q.shape)
    dk, dv = torch.zeros(k.shape), torch.zeros(v.shape)
    for rank, mine in enumerate(shards):
        visible = shards[: rank + 1] if causal else shards
        total, total_lse = None, None
        for theirs in visible:
            call = default_arguments(fa2._flash_attn_forward)
            call.update(
                q=q[:, mine], k=k[:, theirs], v=v[:, theirs], dropout_p=0, softmax_scale=0.25,
                causal=causal and theirs == mine, window_size_left=-1, window_size_right=-1,
                return_softmax=False,
            )  # fmt: skip
            part, lse, _, _ = fa2._flash_attn_forward(**call)
            part, lse = part.float(), lse.transpose(1, 2).unsqueeze(-1)
            if total is None:
                total, total_lse = part, lse
            else:
                total = total - torch.sigmoid(lse - total_lse) * (total - part)
                total_lse = total_lse - torch.nn.functional.logsigmoid(total_lse - lse)
        out[:, mine] = total.to(dtype)
        for theirs in visible:
            call = default_arguments(fa2._flash_attn_backward)
            grads = [torch.empty_like(x) for x in (q[:, mine], k[:, theirs], v[:, theirs])]
            call.update(
                dout=dout[:, mine], q=q[:, mine], k=k[:, theirs], v=v[:, theirs], out=out[:, mine],
                softmax_lse=total_lse.squeeze(-1).transpose(1, 2), dropout_p=0, softmax_scale=0.25,
                dq=grads[0], dk=grads[1], dv=grads[2], causal=causal and theirs == mine,
                window_size_left=-1, window_size_right=-1, deterministic=False,
            )  # fmt: skip
            fa2._flash_attn_backward(**call)
            dq[:, mine] += grads[0]
            dk[:, theirs] += grads[1]
            dv[:, theirs] += grads[2]
    runs = []
    for wide in (dtype, torch.float64):
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        expected, _ = attention(*leaves, scale=0.25, causal=causal, dtype=wide)
        runs.append((expected.detach(), torch.autograd.grad((expected * dout).sum(), leaves)))
    judge(out, runs[0][0], runs[1][0])
    for n, grad in enumerate((dq, dk, dv)):
        judge(grad.to(dtype), runs[0][1][n], runs[1][1][n], 3.5, f"gradient {n}")
