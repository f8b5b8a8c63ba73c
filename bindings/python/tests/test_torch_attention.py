"""`jhalak.attention` on torch tensors, forward and backward, against standard attention in f64."""

import itertools

import pytest
import torch

import jhalak
from standard import against_standard, tensors

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
OPTIONS = {
    "plain": {},
    "causal": {"causal": True},
    "window": {"window": (3, 2)},
    "window without left bound": {"window": (None, 1)},
    "causal window": {"causal": True, "window": (4, -1)},
    "scale": {"scale": -0.3},
    "softcap": {"softcap": 1.5},
    "positions": {"causal": True, "q_start": 2, "k_start": 1},
    "everything": {"causal": True, "window": (7, 3), "softcap": 3.0, "scale": 0.5},
}


def bias_mask_slopes_sinks(batch, heads, seqlen_q, seqlen_k, dtype):
    return {
        "bias": torch.randn(1, heads, seqlen_q, seqlen_k).to(dtype),
        "mask": torch.rand(batch, 1, seqlen_q, seqlen_k) > 0.2,
        "alibi_slopes": torch.rand(heads),
        "sinks": torch.randn(heads).to(dtype),
    }


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPTIONS)
def test_options_agree_with_standard_attention_forward_and_backward(name, dtype):
    q, k, v = tensors((2, 9, 4, 20), (2, 13, 2, 20), (2, 13, 2, 12), dtype=dtype)
    against_standard(q, k, v, OPTIONS[name])


@pytest.mark.parametrize("dtype", DTYPES)
def test_bias_mask_slopes_and_sinks_combine(dtype):
    q, k, v = tensors((2, 9, 4, 20), (2, 13, 2, 20), (2, 13, 2, 12), dtype=dtype)
    options = bias_mask_slopes_sinks(2, 4, 9, 13, dtype)
    against_standard(q, k, v, {**options, "causal": True}, grads=("bias", "sinks"))


@pytest.mark.parametrize("shape", [(13,), (9, 13), (4, 1, 13), (2, 1, 9, 1), (1, 4, 1, 1)])
def test_a_bias_broadcasts_and_its_gradient_has_its_own_shape(shape):
    q, k, v = tensors((2, 9, 4, 8), (2, 13, 4, 8), (2, 13, 4, 8))
    against_standard(q, k, v, {"bias": torch.randn(shape)}, grads=("bias",))


@pytest.mark.parametrize("sizes", [(1, 1), (1, 300), (70, 70), (3, 129), (129, 3)])
def test_sizes_around_the_tiles_agree(sizes):
    seqlen_q, seqlen_k = sizes
    q, k, v = tensors((1, seqlen_q, 6, 40), (1, seqlen_k, 2, 40), (1, seqlen_k, 2, 40))
    against_standard(q, k, v, {"causal": True})


def test_any_strides_give_the_same_bits():
    q, k, v = tensors((2, 9, 4, 16), (2, 11, 4, 16), (2, 11, 4, 16))
    expected = jhalak.attention(q, k, v)
    heads_first = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    dims_first = [x.movedim(-1, 0).contiguous().movedim(0, -1) for x in (q, k, v)]
    sliced = [torch.randn(2, x.shape[1] * 2, 4, 16)[:, ::2].copy_(x) for x in (q, k, v)]
    shifted = [torch.randn(x.numel() + 1)[1:].view(x.shape).copy_(x) for x in (q, k, v)]
    for views in (heads_first, dims_first, sliced, shifted):
        for use in itertools.product((False, True), repeat=3):
            mixed = [view if u else x for u, view, x in zip(use, views, (q, k, v), strict=True)]
            assert torch.equal(jhalak.attention(*mixed), expected)
    expanded = jhalak.attention(q, k[:1, :, :1].expand(2, 11, 4, 16), v)
    assert torch.equal(expanded, jhalak.attention(q, k[:1, :, :1].repeat(2, 1, 4, 1), v))


def test_a_gradient_that_is_expanded_is_read_right():
    leaves = tensors((1, 32, 4, 16), (1, 32, 1, 16), (1, 32, 1, 16), grad=True)
    jhalak.attention(*leaves).sum().backward()
    found = [x.grad.clone() for x in leaves]
    for x in leaves:
        x.grad = None
    (jhalak.attention(*leaves) * torch.ones(1, 32, 4, 16)).sum().backward()
    for x, grad in zip(leaves, found, strict=True):
        assert torch.equal(x.grad, grad)


def test_layout_bhsd_takes_and_gives_the_heads_first():
    q, k, v = tensors((2, 9, 4, 16), (2, 11, 2, 16), (2, 11, 2, 16))
    out, lse = jhalak.attention(q, k, v, causal=True, return_lse=True)
    turned = [x.transpose(1, 2) for x in (q, k, v)]
    out2, lse2 = jhalak.attention(*turned, causal=True, return_lse=True, layout="bhsd")
    assert torch.equal(out2, out.transpose(1, 2))
    assert torch.equal(lse2, lse)


def test_packed_sequences_are_the_single_ones():
    lengths_q, lengths_k = [3, 0, 5, 1], [4, 2, 0, 6]
    cu_q = torch.tensor([0, 3, 3, 8, 9], dtype=torch.int32)
    cu_k = torch.tensor([0, 4, 6, 6, 12], dtype=torch.int64)
    q, k, v = tensors((11, 4, 16), (14, 2, 16), (14, 2, 16), grad=True)
    out, lse = jhalak.varlen_attention(q, k, v, cu_q, cu_k, causal=True, return_lse=True)
    out.sin().sum().backward()
    assert out.shape == (11, 4, 16) and lse.shape == (4, 11)
    for b in range(4):
        rows, keys = slice(cu_q[b], cu_q[b + 1]), slice(cu_k[b], cu_k[b + 1])
        assert (rows.stop - rows.start, keys.stop - keys.start) == (lengths_q[b], lengths_k[b])
        single = [x.detach()[None, part].clone().requires_grad_() for x, part in
                  ((q, rows), (k, keys), (v, keys))]  # fmt: skip
        one, one_lse = jhalak.attention(*single, causal=True, return_lse=True)
        one.sin().sum().backward()
        torch.testing.assert_close(out[rows], one[0], atol=1e-6, rtol=1e-6)
        torch.testing.assert_close(lse[:, rows], one_lse[0], atol=1e-6, rtol=1e-6)
        for whole, x, part in ((q, single[0], rows), (k, single[1], keys), (v, single[2], keys)):
            torch.testing.assert_close(whole.grad[part], x.grad[0], atol=1e-5, rtol=1e-5)
    assert (out[9:] == 0).all() and (lse[:, 9:] == -torch.inf).all()
    assert (q.grad[9:] == 0).all() and (k.grad[12:] == 0).all()


def test_used_lengths_hide_the_rest_whatever_it_holds():
    q, k, v = tensors((2, 5, 2, 8), (2, 7, 2, 8), (2, 7, 2, 8))
    k[0, 3:], v[1, 6:] = torch.nan, torch.inf
    out = jhalak.attention(q, k, v, causal=True, seqused_k=torch.tensor([3, 6]))
    for b, used in enumerate((3, 6)):
        one = [x[b : b + 1, :used] for x in (k, v)]
        torch.testing.assert_close(out[b], jhalak.attention(q[b : b + 1], *one, causal=True)[0])


def test_rows_that_see_nothing_are_zero_with_zero_gradients():
    q, k, v = tensors((1, 8, 2, 8), (1, 3, 2, 8), (1, 3, 2, 8), grad=True)
    out, lse = jhalak.attention(q, k, v, window=(1, 1), return_lse=True)
    out.sum().backward()
    blind = torch.tensor([True] * 4 + [False] * 4)
    assert (out[:, blind] == 0).all() and (lse[..., blind] == -torch.inf).all()
    assert (q.grad[:, blind] == 0).all() and q.grad.isfinite().all()


def test_merged_parts_are_the_whole_with_its_gradients():
    q, k, v = tensors((1, 6, 4, 16), (1, 10, 2, 16), (1, 10, 2, 16), grad=True)
    whole, whole_lse = jhalak.attention(q, k, v, causal=True, q_start=4, return_lse=True)
    expected = torch.autograd.grad((whole.sin().sum() + whole_lse.cos().sum()), (q, k, v))
    parts = []
    for start, stop in ((0, 3), (3, 9), (9, 10)):
        part = k[:, start:stop], v[:, start:stop]
        positions = {"q_start": 4, "k_start": start}
        parts.append(jhalak.attention(q, *part, causal=True, return_lse=True, **positions))
    out, lse = jhalak.merge(parts)
    torch.testing.assert_close(out, whole, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(lse, whole_lse, atol=1e-6, rtol=1e-6)
    found = torch.autograd.grad(out.sin().sum() + lse.cos().sum(), (q, k, v))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def test_an_empty_part_counts_for_nothing_even_if_it_is_nan():
    (out,) = tensors((1, 3, 2, 4))
    lse = torch.randn(1, 2, 3)
    nothing = torch.full_like(out, torch.nan), torch.full_like(lse, -torch.inf)
    merged, merged_lse = jhalak.merge([(out, lse), nothing])
    torch.testing.assert_close(merged, out)
    torch.testing.assert_close(merged_lse, lse)
    empty, empty_lse = jhalak.merge([nothing, nothing])
    assert (empty == 0).all() and (empty_lse == -torch.inf).all()


def test_out_in_f32_is_not_rounded():
    q, k, v = tensors((1, 9, 2, 16), (1, 9, 2, 16), (1, 9, 2, 16), dtype=torch.bfloat16)
    wide = jhalak.attention(q, k, v, out_dtype=torch.float32)
    assert wide.dtype == torch.float32
    assert torch.equal(wide.bfloat16(), jhalak.attention(q, k, v))
    assert not torch.equal(wide, wide.bfloat16().float())


@pytest.mark.parametrize("shape", [(0, 5, 2, 8), (2, 0, 2, 8), (2, 5, 0, 8)])
def test_sizes_of_zero_give_empty_results_and_gradients(shape):
    leaves = tensors(shape, shape, shape, grad=True)
    out = jhalak.attention(*leaves)
    out.sum().backward()
    assert out.shape == shape
    assert all(x.grad.shape == shape for x in leaves)


def test_no_keys_give_zeros():
    q, k, v = tensors((2, 5, 2, 8), (2, 0, 2, 8), (2, 0, 2, 8))
    out, lse = jhalak.attention(q, k, v, return_lse=True)
    assert (out == 0).all() and (lse == -torch.inf).all()
