"""jhalak.flash_attn's results and gradients, against standard attention in f64."""

import pytest
import torch

import jhalak.flash_attn_interface as fa3
from jhalak import flash_attn
from jhalak.flash_attn import flash_attn_interface as fa2
from standard import attention, judge, judge_lse, tensors

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
CALLS = {
    "plain": {},
    "causal": {"causal": True},
    "scale": {"softmax_scale": 0.7},
    "window": {"window_size": (3, 2)},
    "window of -1": {"window_size": (4, -1)},
    "window of None": {"window_size": (None, 1)},
    "causal window": {"causal": True, "window_size": (2, 5)},
    "softcap": {"softcap": 1.5},
    "alibi": {"alibi_slopes": torch.tensor([0.5, 0.25, 0.1, 0.0]), "causal": True},
    "alibi of each sequence": {"alibi_slopes": torch.linspace(0, 0.7, 8).view(2, 4)},
    "deterministic": {"deterministic": True},
    "sinks": {"s_aux": torch.tensor([0.5, -1.0, 2.0, 0.0])},
    "all": {
        "softmax_scale": 0.5,
        "causal": True,
        "window_size": (7, -1),
        "softcap": 3.0,
        "alibi_slopes": torch.tensor([0.5, 0.25, 0.1, 0.0]),
    },
}


def standard_options(call):
    """The options as `attention` names them."""
    names = {"softmax_scale": "scale", "window_size": "window", "s_aux": "sinks"}
    return {names.get(name, name): x for name, x in call.items() if name != "deterministic"}


def against_standard(function, inputs, unpacked, options, standard=attention):
    """Judges function(*inputs) and its gradients; `unpacked` makes q, k, v of the inputs."""
    runs = []
    for dtype in (None, inputs[0].dtype, torch.float64):
        leaves = [x.detach().clone().requires_grad_() for x in inputs]
        if dtype is None:
            out, row_lse = function(*leaves)
        else:
            out, row_lse = standard(*unpacked(*leaves), dtype=dtype, **options)
        torch.manual_seed(5)
        (out.double() * torch.randn(out.shape)).sum().backward()
        runs.append((out.detach(), row_lse.detach(), [x.grad for x in leaves]))
    own, yardstick, truth = runs
    judge(own[0], yardstick[0], truth[0])
    judge_lse(own[1], truth[1], inputs[0].dtype)
    for n, grad in enumerate(own[2]):
        judge(grad, yardstick[2][n], truth[2][n], 3.5, f"gradient of input {n}")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CALLS)
def test_func_agrees_forward_and_backward(name, dtype):
    inputs = tensors((2, 9, 4, 20), (2, 13, 2, 20), (2, 13, 2, 12), dtype=dtype)
    against_standard(
        lambda *x: flash_attn.flash_attn_func(*x, return_attn_probs=True, **CALLS[name])[:2],
        inputs,
        lambda q, k, v: (q, k, v),
        standard_options(CALLS[name]),
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_qkvpacked_and_kvpacked_agree_and_fill_the_packed_gradient(dtype):
    call = {"causal": True, "window_size": (5, 0), "softmax_scale": 0.4}
    options = standard_options(call)
    against_standard(
        lambda x: flash_attn.flash_attn_qkvpacked_func(x, return_attn_probs=True, **call)[:2],
        tensors((2, 9, 3, 4, 16), dtype=dtype),
        lambda qkv: qkv.unbind(2),
        options,
    )
    against_standard(
        lambda q, kv: flash_attn.flash_attn_kvpacked_func(q, kv, return_attn_probs=True, **call)[
            :2
        ],
        tensors((2, 9, 4, 16), (2, 13, 2, 2, 16), dtype=dtype),
        lambda q, kv: (q, *kv.unbind(2)),
        options,
    )
    against_standard(
        lambda x: fa3.flash_attn_qkvpacked_func(x, return_attn_probs=True, **call),
        tensors((2, 9, 3, 4, 16), dtype=dtype),
        lambda qkv: qkv.unbind(2),
        options,
    )
    against_standard(
        lambda x: fa3.flash_attn_qkvpacked_func(x, num_heads_q=4, return_attn_probs=True, **call),
        tensors((2, 9, 8, 16), dtype=dtype),
        lambda qkv: qkv.split((4, 2, 2), 2),
        options,
    )


LENGTHS = ([3, 0, 5, 1], [4, 2, 0, 6])
CU_Q = torch.tensor([0, 3, 3, 8, 9], dtype=torch.int32)
CU_K = torch.tensor([0, 4, 6, 6, 12], dtype=torch.int32)


def packed_attention(q, k, v, cu_q=CU_Q, cu_k=CU_K, **options):
    """Standard attention, one sequence after the other; lse [Hq, total_q]."""
    outs, lses = [], []
    slopes = options.pop("alibi_slopes", None)
    for b in range(len(cu_q) - 1):
        own = slopes[b] if slopes is not None and slopes.dim() == 2 else slopes
        one = [x[None, cu[b] : cu[b + 1]] for x, cu in ((q, cu_q), (k, cu_k), (v, cu_k))]
        out, lse = attention(*one, alibi_slopes=own, **options)
        outs.append(out[0])
        lses.append(lse[0])
    return torch.cat(outs), torch.cat(lses, -1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["plain", "causal", "window", "softcap", "alibi", "all"])
def test_varlen_agrees_with_each_sequence_by_itself(name, dtype):
    call = dict(CALLS[name])
    inputs = tensors((9, 4, 16), (12, 2, 16), (12, 2, 12), dtype=dtype)
    lengths = (CU_Q, CU_K, 5, torch.tensor(6))

    def run(q, k, v):
        result = flash_attn.flash_attn_varlen_func(
            q, k, v, *lengths, return_attn_probs=True, **call
        )
        return result[:2]

    against_standard(run, inputs, lambda *x: x, standard_options(call), packed_attention)
    if "alibi_slopes" not in call:
        against_standard(
            lambda *x: fa3.flash_attn_varlen_func(*x, *lengths, return_attn_probs=True, **call),
            inputs,
            lambda *x: x,
            standard_options(call),
            packed_attention,
        )


def test_varlen_slopes_of_each_sequence():
    slopes = torch.linspace(0, 1, 16).view(4, 4)
    against_standard(
        lambda *x: flash_attn.flash_attn_varlen_func(
            *x, CU_Q, CU_K, 5, 6, alibi_slopes=slopes, return_attn_probs=True
        )[:2],
        tensors((9, 4, 16), (12, 2, 16), (12, 2, 16)),
        lambda *x: x,
        {"alibi_slopes": slopes},
        packed_attention,
    )


def test_varlen_packed_forms_agree():
    against_standard(
        lambda x: flash_attn.flash_attn_varlen_qkvpacked_func(
            x, CU_Q, 5, causal=True, return_attn_probs=True
        )[:2],
        tensors((9, 3, 4, 16)),
        lambda qkv: (*qkv.unbind(1), CU_Q, CU_Q),
        {"causal": True},
        packed_attention,
    )
    against_standard(
        lambda q, kv: flash_attn.flash_attn_varlen_kvpacked_func(
            q, kv, CU_Q, CU_K, 5, 6, causal=True, return_attn_probs=True
        )[:2],
        tensors((9, 4, 16), (12, 2, 2, 16)),
        lambda q, kv: (q, *kv.unbind(1)),
        {"causal": True},
        packed_attention,
    )


def test_fa3_used_lengths_cut_each_sequence():
    q, k, v = tensors((9, 4, 16), (12, 2, 16), (12, 2, 16))
    used_q, used_k = torch.tensor([2, 0, 5, 1]), torch.tensor([4, 1, 0, 3])
    k[11] = torch.nan
    out, lse = fa3.flash_attn_varlen_func(
        q, k, v, CU_Q, CU_K, 5, 6, used_q, used_k, causal=True, return_attn_probs=True
    )
    for b in range(4):
        rows = slice(int(CU_Q[b]), int(CU_Q[b] + used_q[b]))
        keys = slice(int(CU_K[b]), int(CU_K[b] + used_k[b]))
        one, one_lse = attention(
            q[None, rows], k[None, keys], v[None, keys], causal=True, dtype=torch.float64
        )
        judge(out[rows], one[0].float(), one[0])
        judge_lse(lse[:, rows], one_lse[0], torch.float32)
        unused = slice(rows.stop, int(CU_Q[b + 1]))
        assert (out[unused] == 0).all() and (lse[:, unused] == -torch.inf).all()


@pytest.mark.parametrize("page_size", [1, 3, 4])
def test_varlen_reads_pages_by_the_block_table(page_size):
    q, k, v = tensors((9, 4, 16), (12, 2, 16), (12, 2, 16))
    pages_of = [-(-length // page_size) for length in LENGTHS[1]]
    order = torch.randperm(sum(pages_of) + 3)
    table = torch.full((4, max(pages_of)), -1, dtype=torch.int32)
    k_pages, v_pages = (torch.full((len(order), page_size, 2, 16), torch.nan) for _ in range(2))
    taken = 0
    for b, length in enumerate(LENGTHS[1]):
        for n in range(pages_of[b]):
            table[b, n] = order[taken]
            rows = slice(int(CU_K[b]) + n * page_size,
                         int(CU_K[b]) + min((n + 1) * page_size, length))  # fmt: skip
            k_pages[order[taken], : rows.stop - rows.start] = k[rows]
            v_pages[order[taken], : rows.stop - rows.start] = v[rows]
            taken += 1
    out, lse, _ = flash_attn.flash_attn_varlen_func(
        q, k_pages, v_pages, CU_Q, CU_K, 5, 6, causal=True, block_table=table,
        return_attn_probs=True,
    )  # fmt: skip
    truth, truth_lse = packed_attention(q, k, v, causal=True, dtype=torch.float64)
    yardstick, _ = packed_attention(q, k, v, causal=True)
    judge(out, yardstick, truth)
    judge_lse(lse, truth_lse, torch.float32)


@pytest.mark.parametrize("slopes", [None, torch.tensor([0.5, 0.25, 0.1, 0.0])])
def test_dropped_weights_are_negative_and_explain_out_and_gradients(slopes):
    q, k, v = tensors((2, 9, 4, 8), (2, 13, 2, 8), (2, 13, 2, 8), grad=True)
    out, lse, signed = flash_attn.flash_attn_func(
        q, k, v, 0.4, causal=True, alibi_slopes=slopes, return_attn_probs=True
    )
    keep = ~signed.signbit()
    options = {"causal": True, "alibi_slopes": slopes}
    identity = torch.eye(13, dtype=torch.float64)[None, :, None].expand(2, 13, 2, 13)
    truth_weights, _ = attention(q, k, identity, dtype=torch.float64, **options)
    weights = signed.abs().transpose(1, 2).double()
    torch.testing.assert_close(weights, truth_weights, atol=1e-6, rtol=1e-5)
    expected, expected_lse = attention(
        q, k, v, keep=keep, dropout_p=0.4, dtype=torch.float64, **options
    )
    torch.testing.assert_close(out.double(), expected, atol=1e-5, rtol=1e-5)
    judge_lse(lse.detach(), expected_lse.detach(), torch.float32)
    found = torch.autograd.grad(out.sin().sum(), (q, k, v))
    wanted = torch.autograd.grad(expected.sin().sum(), (q, k, v))
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)
    assert 0.5 < keep[:, :, 8].float().mean() < 0.7


def test_varlen_dropped_weights_explain_out():
    q, k, v = tensors((9, 4, 8), (12, 2, 8), (12, 2, 8))
    out, _, signed = flash_attn.flash_attn_varlen_func(
        q, k, v, CU_Q, CU_K, 5, 6, 0.5, return_attn_probs=True
    )
    assert signed.shape == (4, 4, 5, 6)
    for b, (rows, keys) in enumerate(zip(*LENGTHS, strict=True)):
        keep = ~signed[b : b + 1, :, :rows, :keys].signbit()
        parts = [x[None, cu[b] : cu[b + 1]] for x, cu in ((q, CU_Q), (k, CU_K), (v, CU_K))]
        expected, _ = attention(*parts, keep=keep, dropout_p=0.5, dtype=torch.float64)
        torch.testing.assert_close(
            out[CU_Q[b] : CU_Q[b + 1]].double(), expected[0], atol=1e-5, rtol=1e-5
        )


def test_torchs_generator_chooses_the_dropped_weights():
    q, k, v = tensors(*[(1, 9, 2, 8)] * 3)
    torch.manual_seed(3)
    first, second = (flash_attn.flash_attn_func(q, k, v, 0.5) for _ in range(2))
    torch.manual_seed(3)
    assert torch.equal(flash_attn.flash_attn_func(q, k, v, 0.5), first)
    assert not torch.equal(first, second)


def private_case(packed):
    """Arguments of the private forward, and where its gradients go: views of one buffer."""
    if packed:
        q, k, v = tensors((9, 4, 16), (12, 2, 16), (12, 2, 16))
        lengths = (CU_Q, CU_K, 5, 6)
    else:
        q, k, v = tensors((2, 9, 4, 16), (2, 13, 2, 16), (2, 13, 2, 16))
        lengths = ()
    buffers = [torch.full((*x.shape[:-1], 3, x.shape[-1]), torch.nan) for x in (q, k, v)]
    return q, k, v, lengths, buffers


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dropout_p", [0.0, 0.4])
def test_private_backward_writes_the_given_views_and_nothing_else(packed, dropout_p):
    q, k, v, lengths, buffers = private_case(packed)
    options = (dropout_p, 0.3, True, 6, -1, 2.0, torch.tensor([0.5, 0.25, 0.1, 0.0]))
    forward = fa2._flash_attn_varlen_forward if packed else fa2._flash_attn_forward
    backward = fa2._flash_attn_varlen_backward if packed else fa2._flash_attn_backward
    out, lse, signed, rng = forward(q, k, v, *lengths, *options, True)
    dout = torch.randn(out.shape)
    views = [buffer.select(-2, 1) for buffer in buffers]
    delta = backward(dout, q, k, v, out, lse, *views, *lengths, *options, True, rng)
    named = {"scale": 0.3, "causal": True, "window": (6, -1), "softcap": 2.0,
             "alibi_slopes": options[-1], "dtype": torch.float64}  # fmt: skip
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    if packed:
        expected = []
        for b, (rows, keys) in enumerate(zip(*LENGTHS, strict=True)):
            keep = ~signed[b : b + 1, :, :rows, :keys].signbit() if dropout_p else None
            parts = [
                x[None, cu[b] : cu[b + 1]] for x, cu in zip(leaves, (CU_Q, CU_K, CU_K), strict=True)
            ]
            expected.append(attention(*parts, keep=keep, dropout_p=dropout_p, **named)[0][0])
        expected = torch.cat(expected)
    else:
        keep = ~signed.signbit() if dropout_p else None
        expected = attention(*leaves, keep=keep, dropout_p=dropout_p, **named)[0]
    torch.testing.assert_close(out.double(), expected.detach(), atol=1e-5, rtol=1e-5)
    wanted = torch.autograd.grad((expected * dout).sum(), leaves)
    for view, grad in zip(views, wanted, strict=True):
        torch.testing.assert_close(view.double(), grad, atol=1e-5, rtol=1e-5)
    for buffer in buffers:
        assert buffer.select(-2, 0).isnan().all() and buffer.select(-2, 2).isnan().all()
    rowsum = (dout * out).sum(-1).transpose(-1, -2)
    torch.testing.assert_close(delta, rowsum)


def test_private_backward_needs_the_forwards_state_of_dropout():
    q, k, v, _, _ = private_case(False)
    out, lse, _, _ = fa2._flash_attn_forward(q, k, v, 0.5, 0.3, False, -1, -1, 0.0, None, False)
    grads = [torch.empty_like(x) for x in (q, k, v)]
    with pytest.raises(ValueError, match="rng_state must be given with dropout_p"):
        fa2._flash_attn_backward(
            out, q, k, v, out, lse, *grads, 0.5, 0.3, False, -1, -1, 0.0, None, False
        )


def test_private_varlen_forward_takes_used_lengths_and_pages():
    q, k, v, _, _ = private_case(True)
    used = torch.tensor([3, 1, 0, 6], dtype=torch.int32)
    call = (0.0, 0.25, False)
    out, lse, _, _ = fa2._flash_attn_varlen_forward(
        q, k, v, CU_Q, CU_K, 5, 6, *call, seqused_k=used
    )
    for b in range(4):
        keys = slice(int(CU_K[b]), int(CU_K[b] + used[b]))
        one, one_lse = attention(
            q[None, CU_Q[b] : CU_Q[b + 1]], k[None, keys], v[None, keys], dtype=torch.float64
        )
        torch.testing.assert_close(
            out[CU_Q[b] : CU_Q[b + 1]].double(), one[0], atol=1e-5, rtol=1e-5
        )
        judge_lse(lse[:, CU_Q[b] : CU_Q[b + 1]], one_lse[0], torch.float32)
    table = torch.arange(12, dtype=torch.int32)
    rows = torch.stack([torch.cat((table[CU_K[b] :], table[: CU_K[b]]))[:6] for b in range(4)])
    paged, paged_lse, _, _ = fa2._flash_attn_varlen_forward(
        q, k[:, None], v[:, None], CU_Q, CU_K, 5, 6, *call, block_table=rows
    )
    expected, expected_lse = packed_attention(q, k, v, dtype=torch.float64)
    torch.testing.assert_close(paged.double(), expected, atol=1e-5, rtol=1e-5)
    judge_lse(paged_lse, expected_lse, torch.float32)
    with pytest.raises(NotImplementedError, match="leftpad_k"):
        fa2._flash_attn_varlen_forward(q, k, v, CU_Q, CU_K, 5, 6, *call, leftpad_k=used)


def test_fa3_combine_merges_splits():
    q, k, v = tensors((2, 5, 4, 16), (2, 12, 2, 16), (2, 12, 2, 16))
    parts = [fa3.flash_attn_func(q, k[:, s], v[:, s], return_attn_probs=True)
             for s in (slice(0, 3), slice(3, 8), slice(8, 12))]  # fmt: skip
    outs = torch.stack([out for out, _ in parts])
    lses = torch.stack([lse.transpose(1, 2) for _, lse in parts])
    truth, truth_lse = attention(q, k, v, dtype=torch.float64)
    out, lse = fa3.flash_attn_combine(outs, lses)
    judge(out, attention(q, k, v)[0], truth)
    judge_lse(lse.transpose(1, 2), truth_lse, torch.float32)
    given = torch.empty_like(out)
    assert fa3.flash_attn_combine(outs, lses, given)[0] is given and torch.equal(given, out)
    assert fa3.flash_attn_combine(outs, lses, out_dtype=torch.bfloat16)[0].dtype == torch.bfloat16
