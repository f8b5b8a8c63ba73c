"""More inputs on which attention libraries have failed: layouts, extreme values, head sizes."""

import numpy as np
import pytest
import torch

import jhalak
from standard import against_standard, attention, judge, judge_lse, tensors

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
each_dtype = pytest.mark.parametrize("dtype", DTYPES)


# Strides and alignment


@each_dtype
def test_every_tensor_has_a_layout_of_its_own(dtype):
    def strided(x, how):
        if how == "dims first":
            return x.movedim(-1, 0).contiguous().movedim(0, -1)
        if how == "every second":
            return (
                torch.full((x.shape[0], 2 * x.shape[1], *x.shape[2:]), torch.nan)
                .to(dtype)[:, ::2]
                .copy_(x)
            )
        return torch.full((x.numel() + 1,), torch.nan).to(dtype)[1:].view(x.shape).copy_(x)

    q, k, v, dout = tensors(
        (2, 32, 4, 24), (2, 32, 1, 24), (2, 32, 1, 24), (2, 32, 4, 24), dtype=dtype
    )
    out, lse = jhalak.attention(q, k, v, return_lse=True)
    expected = jhalak.attention_backward(dout, q, k, v, out, lse)
    ways = ("dims first", "every second", "off by one")
    for n in range(3):
        views = [strided(x, ways[(n + m) % 3]) for m, x in enumerate((dout, q, k, v, out))]
        targets = {}
        for m, name in enumerate(("dq", "dk", "dv")):
            original = (q, k, v)[m]
            targets[name] = strided(torch.full_like(original, torch.nan), ways[(n + m) % 3])
        assert torch.equal(jhalak.attention(*views[1:4]), out)
        grads = jhalak.attention_backward(*views, lse, **targets)
        for grad, wanted in zip(grads[:3], expected[:3], strict=True):
            assert torch.equal(grad, wanted)


@pytest.mark.parametrize("keys", [31, 32, 33, 65])
def test_expanded_keys_are_those_written_out(keys):
    q, k, v = tensors((1, 7, 4, 512), (1, keys, 1, 512), (1, keys, 1, 512), dtype=torch.bfloat16)
    mask = torch.rand(7, keys) > 0.3
    wide = [x.expand(1, keys, 4, 512) for x in (k, v)]
    written = [x.contiguous() for x in wide]
    expected = jhalak.attention(q, *written, mask=mask)
    assert torch.equal(jhalak.attention(q, *wide, mask=mask), expected)


def test_strides_of_sizes_of_one_are_never_read():
    q, k, v = tensors(*[(1, 2, 1, 16)] * 3)
    odd = [torch.as_strided(x, x.shape, (10**15, 16, 7, 1)) if x is q else
           torch.as_strided(x, x.shape, (3, 16, 10**15, 1)) for x in (q, k, v)]  # fmt: skip
    assert torch.equal(jhalak.attention(*odd), jhalak.attention(q, k, v))


@pytest.mark.parametrize("keys", [43, 63])
def test_rows_of_a_bias_need_no_alignment(keys):
    q, k, v = tensors((1, 9, 2, 16), (1, keys, 2, 16), (1, keys, 2, 16))
    (bias,) = tensors((1, 2, 9, keys + 3))
    against_standard(q, k, v, {"bias": bias[..., 1 : keys + 1]}, grads=("bias",))


# Extreme values


@pytest.mark.parametrize("value", [133120.0, 3e38])
def test_one_huge_key_gives_its_value(value):
    x = torch.full((1, 1, 1, 64), value).bfloat16()
    q = torch.full((1, 1, 1, 64), 133120.0).bfloat16()
    assert torch.equal(jhalak.attention(q, q, x), x)


def test_f16_inputs_of_250_do_not_overflow():
    q, k = (torch.randint(-250, 251, (1, 700, 1, 128)).half() for _ in range(2))
    (v,) = tensors((1, 700, 1, 128), dtype=torch.float16)
    out, lse = jhalak.attention(q, k, v, return_lse=True)
    truth, truth_lse = attention(q, k, v, dtype=torch.float64)
    assert out.isfinite().all()
    torch.testing.assert_close(out.double(), truth, atol=2e-2, rtol=2e-2)
    torch.testing.assert_close(lse.double(), truth_lse, rtol=1e-6, atol=1e-3)


def test_scores_beyond_two_to_the_thirty_end_and_pick_the_largest():
    q = torch.full((1, 1, 1, 1), 2.0**20)
    k = torch.tensor([2.0**12, -(2.0**12), 2.0**11]).view(1, 3, 1, 1)
    v = torch.tensor([1.0, 2.0, 3.0]).view(1, 3, 1, 1)
    out, lse = jhalak.attention(q, k, v, scale=1.0, return_lse=True)
    assert out.item() == 1 and lse.item() == 2.0**32


@each_dtype
def test_an_infinite_score_makes_its_row_nan_and_no_other(dtype):
    q, k, v = tensors(*[(1, 40, 2, 16)] * 3, dtype=dtype)
    q[0, 3, 0] = torch.nan
    q[0, 7, 1] = torch.inf
    k[0, :, 1] = k[0, :, 1].abs()
    expected = jhalak.attention(q[:, 8:], k, v)
    out, lse = jhalak.attention(q, k, v, return_lse=True)
    assert out[0, 3, 0].isnan().all() and lse[0, 0, 3].isnan()
    assert out[0, 7, 1].isnan().all() and lse[0, 1, 7].isnan()
    bad = torch.zeros(40, 2, dtype=torch.bool)
    bad[3, 0] = bad[7, 1] = True
    assert out[0][~bad].isfinite().all()
    torch.testing.assert_close(out[:, 8:], expected)


@pytest.mark.parametrize("scale", [0.0, -1.0, 1e-30, 50.0])
@each_dtype
def test_any_finite_scale_is_legal(scale, dtype):
    q, k, v = tensors((1, 9, 2, 8), (1, 13, 2, 8), (1, 13, 2, 8), dtype=dtype)
    truth, _ = attention(q, k, v, scale=scale, dtype=torch.float64)
    judge(jhalak.attention(q, k, v, scale=scale), attention(q, k, v, scale=scale)[0], truth)


@each_dtype
@pytest.mark.parametrize("keys", [1, 7, 64, 300])
def test_values_of_one_give_exactly_one(dtype, keys):
    q, k = tensors((1, 9, 2, 16), (1, keys, 2, 16), dtype=dtype)
    out = jhalak.attention(q, k, torch.ones_like(k))
    torch.testing.assert_close(out, torch.ones_like(out), atol=5e-7, rtol=0)


def test_subnormal_weights_leave_the_callers_float_mode_alone():
    q = torch.full((1, 64, 1, 16), 2.0)
    k = torch.linspace(0, -104 / 32, 512).view(1, 512, 1, 1).expand(1, 512, 1, 16)
    v = torch.full((1, 512, 1, 16), 1e-40)
    out = jhalak.attention(q, k, v, scale=1.0)
    assert out.isfinite().all()
    assert np.float32(1e-40) * np.float32(0.5) != 0 and np.float32(2e-38) / np.float32(4) != 0


@pytest.mark.parametrize("keys", [32769, 65537])
def test_more_keys_than_sixteen_bits_count(keys):
    q, k, v = tensors((1, 2, 1, 4), (1, keys, 1, 4), (1, keys, 1, 4))
    zeros = torch.zeros_like(k)
    assert (jhalak.attention(q, zeros, zeros) == 0).all()
    truth, truth_lse = attention(q, k, v, dtype=torch.float64)
    out, lse = jhalak.attention(q, k, v, return_lse=True)
    judge(out, attention(q, k, v)[0], truth)
    judge_lse(lse, truth_lse, torch.float32)


# Merging


@pytest.mark.parametrize("empty", [-torch.inf, torch.inf])
def test_empty_parts_are_ignored_whatever_they_hold(empty):
    out, lse = tensors((1, 3, 2, 4), (1, 2, 3))
    nothing = torch.full_like(out, torch.nan), torch.full_like(lse, empty)
    for parts in ([(out, lse), nothing], [nothing, (out, lse), nothing]):
        merged, merged_lse = jhalak.merge(parts)
        torch.testing.assert_close(merged, out)
        torch.testing.assert_close(merged_lse, lse)
    merged, merged_lse = jhalak.merge([nothing, nothing])
    assert (merged == 0).all() and (merged_lse == -torch.inf).all()


@pytest.mark.parametrize("apart", [89.0, 1000.0, 1e30])
def test_parts_whose_lse_are_far_apart_do_not_overflow(apart):
    low, high, lse = tensors((1, 3, 2, 4), (1, 3, 2, 4), (1, 2, 3))
    merged, merged_lse = jhalak.merge([(low, lse - apart), (high, lse)])
    torch.testing.assert_close(merged, high)
    torch.testing.assert_close(merged_lse, lse)


def test_sinks_belong_to_one_part():
    q, k, v = tensors((1, 5, 2, 8), (1, 9, 2, 8), (1, 9, 2, 8))
    (sinks,) = tensors((2,))
    parts = [jhalak.attention(q, k[:, :4], v[:, :4], sinks=sinks, return_lse=True),
             jhalak.attention(q, k[:, 4:], v[:, 4:], return_lse=True)]  # fmt: skip
    truth, truth_lse = attention(q, k, v, sinks=sinks, dtype=torch.float64)
    out, lse = jhalak.merge(parts)
    judge(out, attention(q, k, v, sinks=sinks)[0], truth)
    judge_lse(lse, truth_lse, torch.float32)


# Heads and their sizes


@pytest.mark.parametrize("dim", [1, 7, 8, 15, 40, 63, 72, 80, 96, 111, 120, 136, 192, 256, 257])
@each_dtype
def test_every_head_size_agrees(dim, dtype):
    q, k, v = tensors((1, 9, 2, dim), (1, 13, 2, dim), (1, 13, 2, dim), dtype=dtype)
    against_standard(q, k, v, {"causal": True})


@pytest.mark.parametrize("dims", [(192, 128), (576, 512), (64, 80), (1, 33)])
@each_dtype
def test_values_may_be_wider_or_narrower_than_keys(dims, dtype):
    q, k, v = tensors((1, 9, 2, dims[0]), (1, 13, 1, dims[0]), (1, 13, 1, dims[1]), dtype=dtype)
    if dtype == torch.float32:
        # torch sums long products in blocks, finer than the yardstick's plain sums.
        truth, _ = attention(q, k, v, dtype=torch.float64)
        out = jhalak.attention(q, k, v)
        assert (out - truth).norm() <= 1e-6 * truth.norm()
    else:
        against_standard(q, k, v, {})


@pytest.mark.parametrize("group", [3, 5, 7, 71])
def test_any_number_of_query_heads_shares_a_key_head(group):
    q, k, v = tensors((1, 9, 2 * group, 16), (1, 13, 2, 16), (1, 13, 2, 16))
    against_standard(q, k, v, {"causal": True})


# Softcap and sinks


def test_a_small_softcap_does_not_let_the_future_leak():
    q, k, v = tensors(*[(1, 9, 2, 8)] * 3)
    before = jhalak.attention(q, k, v, softcap=1.0, causal=True)
    k[:, 5:], v[:, 5:] = 100.0, 100.0
    after = jhalak.attention(q, k, v, softcap=1.0, causal=True)
    assert torch.equal(before[:, :5], after[:, :5])


def test_gradients_of_saturated_softcap_agree():
    q, k, v = tensors(*[(1, 20, 2, 16)] * 3)
    against_standard(7 * q, 7 * k, v, {"softcap": 30.0, "causal": True, "scale": 1.0})


def test_a_row_without_keys_has_its_sinks_lse():
    q, k, v = tensors((1, 8, 3, 16), (1, 3, 3, 16), (1, 3, 3, 16))
    (sinks,) = tensors((3,))
    out, lse = jhalak.attention(q, k, v, causal=True, sinks=sinks, scale=0.1, return_lse=True)
    assert (out[:, :5] == 0).all()
    torch.testing.assert_close(lse[0, :, :5], sinks[:, None].expand(3, 5))
    against_standard(q, k, v, {"causal": True, "sinks": sinks, "scale": 0.1}, grads=("sinks",))


# The same bits


@pytest.mark.parametrize("packed", [False, True])
def test_fifty_runs_give_the_same_bits(packed):
    cu = torch.tensor([0, 70, 70, 150], dtype=torch.int32)
    shapes = [(150, heads, 64) if packed else (2, 75, heads, 64) for heads in (4, 2, 2)]
    leaves = tensors(*shapes, dtype=torch.bfloat16, grad=True)

    def run():
        if packed:
            out = jhalak.varlen_attention(*leaves, cu, cu, causal=True)
        else:
            out = jhalak.attention(*leaves, causal=True)
        return out, *torch.autograd.grad(out.sum(), leaves)

    first = run()
    for _ in range(49):
        assert all(torch.equal(a, b) for a, b in zip(run(), first, strict=True))


def test_a_rows_bits_do_not_depend_on_its_neighbours():
    q, k, v = tensors((11, 14, 64), (1300, 2, 64), (1300, 2, 64), dtype=torch.bfloat16)
    cu_k = torch.tensor([0, 1200, 1300], dtype=torch.int32)
    rows = []
    for last in (10, 11):
        cu_q = torch.tensor([0, 1, last], dtype=torch.int32)
        rows.append(jhalak.varlen_attention(q[:last], k, v, cu_q, cu_k)[0])
    assert torch.equal(*rows)
