"""Inputs on which attention libraries have failed, each as its whole kind."""

import pytest
import torch

import jhalak
from standard import against_standard, attention, judge, judge_lse, tensors

HALVES = [torch.float16, torch.bfloat16]
DTYPES = [torch.float32, *HALVES]
each_dtype = pytest.mark.parametrize("dtype", DTYPES)


def gradients(q, k, v, **options):
    """out, lse and the gradients of q, k and v under a gradient of ones."""
    leaves = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    out, lse = jhalak.attention(*leaves, return_lse=True, **options)
    return out.detach(), lse.detach(), torch.autograd.grad(out.sum(), leaves)


# Masked rows and masked content


@each_dtype
@pytest.mark.parametrize("hidden", [slice(5, 6), slice(3, 6), slice(0, 6)])
def test_rows_whose_mask_is_all_false_are_zero_with_zero_gradients(dtype, hidden):
    q, k, v = tensors((1, 6, 2, 8), (1, 10, 2, 8), (1, 10, 2, 8), dtype=dtype)
    mask = torch.ones(6, 10, dtype=torch.bool)
    mask[hidden] = False
    out, lse, (dq, dk, dv) = gradients(q, k, v, mask=mask)
    assert (out[:, hidden] == 0).all() and (lse[..., hidden] == -torch.inf).all()
    assert (dq[:, hidden] == 0).all()
    assert all(x.isfinite().all() for x in (dq, dk, dv))
    against_standard(q, k, v, {"mask": mask})


@each_dtype
@pytest.mark.parametrize("poison", [torch.nan, torch.inf, -torch.inf])
def test_what_a_hidden_key_holds_has_no_influence(dtype, poison):
    q, k, v = tensors((1, 5, 2, 8), (1, 7, 2, 8), (1, 7, 2, 8), dtype=dtype)
    seen = torch.tensor([True, False, True, True, False, True, False])
    clean = gradients(q, k[:, seen], v[:, seen])
    k[:, ~seen], v[:, ~seen] = poison, poison
    out, lse, grads = gradients(q, k, v, mask=seen)
    torch.testing.assert_close(out, clean[0])
    torch.testing.assert_close(lse, clean[1])
    torch.testing.assert_close(grads[0], clean[2][0])
    for grad, expected in zip(grads[1:], clean[2][1:], strict=True):
        torch.testing.assert_close(grad[:, seen], expected)
        assert (grad[:, ~seen] == 0).all()


@each_dtype
def test_a_row_of_the_least_finite_number_is_a_uniform_average(dtype):
    q, k, v = tensors((1, 4, 2, 8), (1, 6, 2, 8), (1, 6, 2, 8), dtype=dtype)
    bias = torch.zeros(4, 6)
    bias[2] = torch.finfo(torch.float32).min
    out = jhalak.attention(q, k, v, bias=bias)
    torch.testing.assert_close(out[0, 2].double(), v[0].double().mean(0), atol=4e-3, rtol=1e-2)
    bias[2] = -torch.inf
    out, lse = jhalak.attention(q, k, v, bias=bias, return_lse=True)
    assert (out[0, 2] == 0).all() and (lse[0, :, 2] == -torch.inf).all()


def test_a_head_that_is_masked_out_is_zero_and_the_others_are_not():
    q, k, v = tensors(*[(2, 5, 3, 8)] * 3)
    mask = torch.ones(1, 3, 5, 5, dtype=torch.bool)
    mask[:, 0] = False
    out = jhalak.attention(q, k, v, mask=mask)
    assert (out[:, :, 0] == 0).all()
    assert torch.equal(out[:, :, 1:], jhalak.attention(q, k, v)[:, :, 1:])


@each_dtype
def test_packed_rows_without_keys_have_exactly_zero_gradients(dtype):
    cu_q = torch.tensor([0, 76, 110, 256], dtype=torch.int32)
    cu_k = torch.tensor([0, 1, 2, 3], dtype=torch.int32)
    leaves = [(3 * x).requires_grad_() for x in tensors((256, 1, 32), (3, 1, 32), (3, 1, 32))]
    leaves = [x.detach().to(dtype).requires_grad_() for x in leaves]
    out = jhalak.varlen_attention(*leaves, cu_q, cu_k, causal=True)
    dq, dk, dv = torch.autograd.grad(out.sum(), leaves)
    last = torch.tensor([75, 109, 255])
    blind = torch.ones(256, dtype=torch.bool)
    blind[last] = False
    assert (out[blind] == 0).all() and (dq[blind] == 0).all()
    assert torch.equal(out[last], leaves[2])
    torch.testing.assert_close(dv, torch.ones_like(dv))
    assert all(x.isfinite().all() for x in (dq, dk))


@each_dtype
def test_one_key_gives_its_value_and_no_gradient_of_the_scores(dtype):
    q, k, v = (3 * x for x in tensors(*[(1, 1, 1, 16)] * 3))
    q, k, v = (x.to(dtype) for x in (q, k, v))
    out, _, (dq, dk, dv) = gradients(q, k, v)
    assert torch.equal(out, v) and (dv == 1).all()
    assert dq.abs().max() <= 1e-5 and dk.abs().max() <= 1e-5


@pytest.mark.parametrize("score", [-2e4, -2.45e5, -1e30])
def test_a_score_far_below_zero_still_counts_where_it_is_the_only_one(score):
    q, k, v = torch.zeros(1, 1, 1, 128), torch.zeros(1, 2, 1, 128), torch.ones(1, 2, 1, 128)
    q[..., 0], k[:, :, :, 0], v[:, 1] = score, 1.0, 7.0
    mask = torch.tensor([True, False])
    out, lse = jhalak.attention(q, k, v, scale=1.0, mask=mask, return_lse=True)
    assert (out == 1).all() and lse.item() == q[..., 0].item()


def test_a_long_row_of_keys_outside_the_window_changes_nothing():
    q, k, v = tensors((1, 16, 1, 59), (1, 20000, 1, 59), (1, 20000, 1, 59), dtype=torch.float16)
    out, lse = jhalak.attention(q, k, v, window=(0, 256), return_lse=True)
    part = slice(20000 - 16, 20000)
    truth, truth_lse = attention(q, k[:, part], v[:, part], window=(0, 256), dtype=torch.float64)
    judge(out, attention(q, k[:, part], v[:, part], window=(0, 256))[0], truth)
    judge_lse(lse, truth_lse, torch.float16)


@pytest.mark.parametrize("keys", [63, 64, 65, 129])
def test_softcap_does_not_bring_padding_keys_to_life(keys):
    q, k, v = tensors((1, 3, 2, 16), (1, keys, 2, 16), (1, keys, 2, 16))
    against_standard(q, k, v, {"softcap": 0.5})
    against_standard(q, k, v, {"softcap": 1.0, "causal": True})


def test_gradients_under_a_mask_are_finite_where_lse_is_far_below_zero():
    q, k, v = tensors(*[(1, 704, 1, 64)] * 3)
    mask = torch.rand(704, 704) > 0.1
    options = {"mask": mask, "bias": torch.full((1, 1, 1, 704), -200.0)}
    against_standard(q, k, v, options)


# Causal alignment


def test_causal_puts_the_last_query_on_the_last_key():
    for seqlen_q, seqlen_k, visible in (
        (2, 5, [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]),
        (5, 2, [[0, 0], [0, 0], [0, 0], [1, 0], [1, 1]]),
    ):
        q, k, v = tensors((1, seqlen_q, 2, 8), (1, seqlen_k, 2, 8), (1, seqlen_k, 2, 8))
        explicit = {"mask": torch.tensor(visible, dtype=torch.bool)}
        torch.testing.assert_close(
            jhalak.attention(q, k, v, causal=True), jhalak.attention(q, k, v, **explicit)
        )
        top_left = torch.ones(seqlen_q, seqlen_k, dtype=torch.bool).tril()
        torch.testing.assert_close(
            jhalak.attention(q, k, v, causal=True, q_start=0),
            jhalak.attention(q, k, v, mask=top_left),
        )


@pytest.mark.parametrize("sizes", [(2048, 1024), (100, 260), (300, 3)])
def test_causal_with_more_queries_than_keys_or_fewer_agrees_with_its_gradients(sizes):
    q, k, v = tensors((1, sizes[0], 1, 16), (1, sizes[1], 1, 16), (1, sizes[1], 1, 16))
    out, lse, (_, dk, _) = gradients(q, k, v, causal=True)
    blind = max(sizes[0] - sizes[1], 0)
    assert (out[:, :blind] == 0).all() and (lse[..., :blind] == -torch.inf).all()
    assert dk.isfinite().all()
    against_standard(q, k, v, {"causal": True})


def test_prefill_in_chunks_of_every_size_is_prefill():
    q, k, v = tensors(*[(1, 12, 2, 8)] * 3)
    truth, _ = attention(q, k, v, causal=True, dtype=torch.float64)
    for size in range(1, 13):
        ends = [(start, min(start + size, 12)) for start in range(0, 12, size)]
        chunks = [jhalak.attention(q[:, a:b], k[:, :b], v[:, :b], causal=True) for a, b in ends]
        torch.testing.assert_close(torch.cat(chunks, 1).double(), truth, atol=1e-6, rtol=1e-5)


# Windows


@pytest.mark.parametrize("width", [1, 2, 7])
@pytest.mark.parametrize("beyond", [0, 1, 2])
def test_a_window_of_l_and_0_sees_l_plus_1_keys(width, beyond):
    length = width + beyond
    (q,) = tensors((1, length, 1, 8))
    identity = torch.eye(length)[None, :, None]
    weights = jhalak.attention(q, q, identity, window=(width - 1, 0))[0, :, 0]
    expected = torch.ones(length, length).tril().triu(1 - width)
    assert torch.equal(weights > 0, expected > 0)


def test_a_decoding_query_sees_the_last_keys_of_its_window():
    q, k, v = tensors((1, 1, 2, 8), (1, 10, 2, 8), (1, 10, 2, 8))
    seen = jhalak.attention(q, k, v, window=(3, 0))
    torch.testing.assert_close(seen, jhalak.attention(q, k[:, 6:], v[:, 6:]))


@pytest.mark.parametrize("width", [4096, 10**9, 2**31 - 1, 2**63 - 1])
def test_a_window_larger_than_the_context_is_no_window(width):
    q, k, v = tensors((1, 9, 2, 8), (1, 13, 2, 8), (1, 13, 2, 8))
    for causal in (False, True):
        plain = jhalak.attention(q, k, v, causal=causal)
        assert torch.equal(jhalak.attention(q, k, v, causal=causal, window=(width, width)), plain)


def test_unbounded_is_none_or_minus_one():
    q, k, v = tensors((1, 9, 2, 8), (1, 13, 2, 8), (1, 13, 2, 8))
    plain = jhalak.attention(q, k, v)
    for window in ((None, None), (-1, -1), (-1, None), None, [-1, -1]):
        assert torch.equal(jhalak.attention(q, k, v, window=window), plain)
    half = jhalak.attention(q, k, v, window=(None, 2))
    assert torch.equal(half, jhalak.attention(q, k, v, window=(-1, 2)))


@pytest.mark.parametrize("window", [(1, 1), (0, 0), (0, 5), (3, 0)])
def test_a_window_with_more_queries_than_keys_leaves_rows_without_keys(window):
    q, k, v = tensors((1, 8, 2, 8), (1, 3, 2, 8), (1, 3, 2, 8))
    against_standard(q, k, v, {"window": window})


# Packed sequences


@pytest.mark.parametrize(
    "cu_q, cu_k, heads, dim",
    [
        ([0, 0, 1, 1, 2], [0, 0, 3, 3, 8], (9, 3), 64),
        ([0, 0, 0, 0, 1], [0, 3, 3, 3, 8], (21, 7), 120),
        ([0, 0], [0, 5], (4, 2), 16),
        ([0, 4], [0, 0], (4, 2), 16),
        ([0, 0, 0], [0, 0, 0], (4, 2), 16),
    ],
)
@pytest.mark.parametrize("longest", [1, 100, torch.tensor(3)])
def test_empty_sequences_anywhere_are_legal(cu_q, cu_k, heads, dim, longest):
    shapes = (cu_q[-1], heads[0], dim), (cu_k[-1], heads[1], dim), (cu_k[-1], heads[1], dim)
    leaves = tensors(*shapes, grad=True)
    lengths = torch.tensor(cu_q, dtype=torch.int32), torch.tensor(cu_k)
    out, lse = jhalak.varlen_attention(
        *leaves, *lengths, max_seqlen_q=longest, max_seqlen_k=longest, causal=True, return_lse=True
    )
    grads = torch.autograd.grad(out.sum(), leaves)
    assert lse.shape == (heads[0], cu_q[-1])
    for b in range(len(cu_q) - 1):
        rows, keys = slice(cu_q[b], cu_q[b + 1]), slice(cu_k[b], cu_k[b + 1])
        parts = [x[None, part] for x, part in zip(leaves, (rows, keys, keys), strict=True)]
        expected, _ = attention(*parts, causal=True, dtype=torch.float64)
        torch.testing.assert_close(out[rows].double(), expected[0], atol=1e-5, rtol=1e-5)
        if rows.start == rows.stop:
            assert (grads[1][keys] == 0).all() and (grads[2][keys] == 0).all()


@each_dtype
def test_rows_past_the_last_sequence_are_zero_with_zero_gradients(dtype):
    leaves = tensors((946, 2, 16), (946, 2, 16), (946, 2, 16), dtype=dtype, grad=True)
    cu = torch.tensor([0, 400, 944], dtype=torch.int32)
    out, lse = jhalak.varlen_attention(*leaves, cu, cu, return_lse=True)
    grads = torch.autograd.grad(out.sum(), leaves)
    assert (out[944:] == 0).all() and (lse[:, 944:] == -torch.inf).all()
    assert all((grad[944:] == 0).all() and grad.isfinite().all() for grad in grads)


@pytest.mark.parametrize("shape", [(0, 9, 2, 7), (2, 9, 0, 7), (2, 0, 2, 7)])
@each_dtype
def test_a_size_of_zero_gives_an_empty_result(shape, dtype):
    q = torch.ones(shape, dtype=dtype)
    out, lse, grads = gradients(q, q, q, causal=True)
    assert out.shape == shape and lse.shape == (shape[0], shape[2], shape[1])
    assert all(grad.shape == shape for grad in grads)
