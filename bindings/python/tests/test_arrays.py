"""jhalak on NumPy, JAX and other DLPack arrays, against standard attention in f64."""

import multiprocessing
import os
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from arrays import KINDS, RESULTS, Producer, to_numpy, to_torch

import jhalak
from standard import attention, judge, judge_lse, tensors

OPTIONS = {
    "plain": {},
    "causal": {"causal": True},
    "all": {"causal": True, "window": (7, 3), "softcap": 3.0, "scale": 0.5},
    "positions": {"causal": True, "q_start": 2, "k_start": 1},
}
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
# JAX has no float64 unless its user asks for it.
KINDS_AND_DTYPES = [(kind, dtype) for kind in KINDS for dtype in DTYPES] + [
    (kind, torch.float64) for kind in KINDS if kind != "jax"
]


def numpy_call(*shapes, dtype=np.float32):
    """Unit-normal arrays, the same every time."""
    random = np.random.default_rng(5)
    return [random.standard_normal(shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("kind, dtype", KINDS_AND_DTYPES)
@pytest.mark.parametrize("name", OPTIONS)
def test_forward_and_backward_agree_with_standard_attention(kind, dtype, name):
    q, k, v, dout = tensors(
        (2, 9, 4, 20), (2, 13, 2, 20), (2, 13, 2, 12), (2, 9, 4, 12), dtype=dtype
    )
    arrays = [KINDS[kind](x) for x in (q, k, v)]
    out, lse = jhalak.attention(*arrays, return_lse=True, **OPTIONS[name])
    grads = jhalak.attention_backward(KINDS[kind](dout), *arrays, out, lse, **OPTIONS[name])
    runs = []
    for wide in (dtype, torch.float64):
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        expected, expected_lse = attention(*leaves, dtype=wide, **OPTIONS[name])
        runs.append((expected.detach(), torch.autograd.grad((expected * dout).sum(), leaves)))
    assert isinstance(out, RESULTS.get(kind, jhalak.Array))
    judge(to_torch(out), runs[0][0], runs[1][0])
    judge_lse(to_torch(lse), expected_lse.detach(), dtype)
    for n, grad in enumerate(grads[:3]):
        judge(to_torch(grad), runs[0][1][n], runs[1][1][n], 3.5, f"gradient {n}")
    assert grads.dbias is None and grads.dsinks is None


@pytest.mark.parametrize("kind", KINDS)
def test_bias_mask_slopes_and_sinks_are_taken_and_differentiated(kind):
    make = KINDS[kind]
    q, k, v, dout = tensors(*[(2, 9, 4, 8)] * 4)
    bias, sinks = tensors((1, 4, 1, 9), (4,))
    slopes, mask = torch.rand(4), torch.rand(2, 1, 9, 9) > 0.2
    hidden = mask.numpy() if kind == "numpy" else jnp.asarray(mask.numpy())
    options = {"bias": make(bias), "sinks": make(sinks), "mask": hidden}
    options |= {"alibi_slopes": make(slopes), "causal": True}
    arrays = [make(x) for x in (q, k, v)]
    out, lse = jhalak.attention(*arrays, return_lse=True, **options)
    grads = jhalak.attention_backward(make(dout), *arrays, out, lse, **options)
    leaves = [x.clone().requires_grad_() for x in (q, k, v, bias, sinks)]
    expected, _ = attention(
        *leaves[:3], bias=leaves[3], sinks=leaves[4], mask=mask, alibi_slopes=slopes, causal=True,
        dtype=torch.float64,
    )  # fmt: skip
    torch.testing.assert_close(to_torch(out).double(), expected.detach(), atol=1e-5, rtol=1e-5)
    wanted = torch.autograd.grad((expected * dout).sum(), leaves)
    for grad, expected_grad in zip(grads, wanted, strict=True):
        torch.testing.assert_close(to_torch(grad), expected_grad, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_packed_sequences_are_the_single_ones(kind):
    make = KINDS[kind]
    q, k, v, dout = tensors((9, 4, 16), (12, 2, 16), (12, 2, 16), (9, 4, 16))
    cu_q, cu_k = np.array([0, 3, 3, 9], np.int32), np.array([0, 4, 6, 12], np.int32)
    arrays = [make(x) for x in (q, k, v)]
    out, lse = jhalak.varlen_attention(*arrays, cu_q, cu_k, causal=True, return_lse=True)
    grads = jhalak.attention_backward(
        make(dout), *arrays, out, lse, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, causal=True
    )
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    for b in range(3):
        rows, keys = slice(cu_q[b], cu_q[b + 1]), slice(cu_k[b], cu_k[b + 1])
        one = [x[None, part] for x, part in zip(leaves, (rows, keys, keys), strict=True)]
        expected, expected_lse = attention(*one, causal=True, dtype=torch.float64)
        torch.testing.assert_close(
            to_torch(out)[rows].double(), expected[0].detach(), atol=1e-5, rtol=1e-5
        )
        judge_lse(to_torch(lse)[:, rows], expected_lse[0].detach(), torch.float32)
        (expected[0] * dout[rows]).sum().backward()
    for grad, leaf in zip(grads[:3], leaves, strict=True):
        torch.testing.assert_close(to_torch(grad), leaf.grad, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_merged_parts_are_the_whole(kind):
    make = KINDS[kind]
    q, k, v = tensors((1, 6, 4, 16), (1, 10, 2, 16), (1, 10, 2, 16))
    parts = [
        jhalak.attention(make(q), make(k[:, part]), make(v[:, part]), return_lse=True)
        for part in (slice(0, 3), slice(3, 10))
    ]
    out, lse = jhalak.merge(parts)
    truth, truth_lse = attention(q, k, v, dtype=torch.float64)
    assert isinstance(out, RESULTS.get(kind, jhalak.Array))
    judge(to_torch(out), attention(q, k, v)[0], truth)
    judge_lse(to_torch(lse), truth_lse, torch.float32)


@pytest.mark.parametrize("kind", KINDS)
def test_layout_bhsd_takes_and_gives_the_heads_first(kind):
    make = KINDS[kind]
    q, k, v = tensors((2, 9, 4, 16), (2, 11, 2, 16), (2, 11, 2, 16))
    out, lse = jhalak.attention(make(q), make(k), make(v), return_lse=True)
    turned = [make(x.transpose(1, 2).contiguous()) for x in (q, k, v)]
    out2, lse2 = jhalak.attention(*turned, layout="bhsd", return_lse=True)
    assert torch.equal(to_torch(out2), to_torch(out).transpose(1, 2))
    assert torch.equal(to_torch(lse2), to_torch(lse))
    grads = jhalak.attention_backward(out, make(q), make(k), make(v), out, lse)
    grads2 = jhalak.attention_backward(out2, *turned, out2, lse2, layout="bhsd")
    for a, b in zip(grads[:3], grads2[:3], strict=True):
        assert torch.equal(to_torch(b), to_torch(a).transpose(1, 2))


def test_any_view_gives_the_same_bits():
    q, k, v = numpy_call((2, 9, 4, 16), (2, 11, 4, 16), (2, 11, 4, 16))
    expected = jhalak.attention(q, k, v)

    def backwards(x):
        return np.ascontiguousarray(x[::-1, ::-1, :, ::-1])[::-1, ::-1, :, ::-1]

    def sliced(x):
        wide = np.full((2, x.shape[1] * 2, 4, 16), np.nan, np.float32)
        wide[:, ::2] = x
        return wide[:, ::2]

    def misaligned(x):
        raw = np.zeros(x.nbytes + 1, np.uint8)
        view = np.frombuffer(raw[1:].data, np.float32).reshape(x.shape)
        view[:] = x
        return view

    def within_records(x):
        records = np.zeros(x.shape, dtype=[("value", "f4"), ("other", "i1")])
        records["value"] = x
        return records["value"]

    def read_only(x):
        x = x.copy()
        x.flags.writeable = False
        return x

    for view in (backwards, sliced, misaligned, within_records, read_only, np.asfortranarray):
        assert np.array_equal(jhalak.attention(view(q), view(k), view(v)), expected), view.__name__
        assert np.array_equal(jhalak.attention(q, view(k), v), expected), view.__name__
    one = np.broadcast_to(k[:, :, :1], k.shape)
    assert np.array_equal(jhalak.attention(q, one, v), jhalak.attention(q, one.copy(), v))


def test_gradients_are_written_to_given_arrays_or_added():
    q, k, v = numpy_call(*[(2, 9, 4, 8)] * 3)
    out, lse = jhalak.attention(q, k, v, return_lse=True)
    grads = jhalak.attention_backward(out, q, k, v, out, lse)
    buffer = np.full((2, 9, 3, 4, 8), np.nan, np.float32)
    dq, dk = buffer[:, :, 0], buffer[:, ::-1, 2][:, ::-1]
    given = jhalak.attention_backward(out, q, k, v, out, lse, dq=dq, dk=dk, dv=None)
    assert given.dq is dq and given.dk is dk and given.dv is None
    assert np.array_equal(dq, grads.dq) and np.array_equal(dk, grads.dk)
    assert np.isnan(buffer[:, :, 1]).all()
    total = np.ones_like(q)
    jhalak.attention_backward(out, q, k, v, out, lse, dq=total, dk=None, dv=None, accumulate=True)
    np.testing.assert_allclose(total, 1 + grads.dq, atol=1e-6)
    delta = np.einsum("bihd,bihd->bhi", out, out)
    by_delta = jhalak.attention_backward(out, q, k, v, None, lse, delta=delta)
    np.testing.assert_allclose(by_delta.dq, grads.dq, atol=1e-6)


def test_gradients_of_lse_are_added_in():
    (q, k, v, dlse) = tensors((1, 5, 2, 8), (1, 5, 2, 8), (1, 5, 2, 8), (1, 2, 5))
    arrays = [to_numpy(x) for x in (q, k, v)]
    out, lse = jhalak.attention(*arrays, return_lse=True)
    grads = jhalak.attention_backward(np.zeros_like(out), *arrays, out, lse, dlse=to_numpy(dlse))
    leaves = [x.clone().requires_grad_() for x in (q, k)]
    (attention(*leaves, v, dtype=torch.float64)[1] * dlse).sum().backward()
    for grad, leaf in zip(grads, leaves, strict=False):
        torch.testing.assert_close(to_torch(grad), leaf.grad, atol=1e-5, rtol=1e-5)
    assert (grads.dv == 0).all()


def test_dropout_is_standard_attention_with_the_exported_mask():
    q, k, v = tensors((2, 9, 4, 8), (2, 13, 2, 8), (2, 13, 2, 8))
    arrays = [to_numpy(x) for x in (q, k, v)]
    choice = {"dropout_p": 0.4, "seed": 2**63 + 9, "offset": 77}
    kept = jhalak.dropout_mask(*arrays, **choice)
    assert kept.dtype == np.bool_ and kept.shape == (2, 4, 9, 13)
    assert np.array_equal(kept, jhalak.dropout_mask(q, k, v, **choice).numpy())
    out = jhalak.attention(*arrays, **choice)
    keep = torch.from_numpy(kept.copy())
    truth, _ = attention(q, k, v, keep=keep, dropout_p=0.4, dtype=torch.float64)
    judge(to_torch(out), attention(q, k, v, keep=keep, dropout_p=0.4)[0], truth)


def test_arrays_of_different_libraries_mix_and_q_decides_the_result():
    q, k, v = numpy_call(*[(1, 5, 2, 8)] * 3)
    expected = jhalak.attention(q, k, v)
    mixed = jhalak.attention(q, torch.from_numpy(k), Producer(v))
    assert isinstance(mixed, np.ndarray) and np.array_equal(mixed, expected)
    own = jhalak.attention(jnp.asarray(q), k, v)
    assert isinstance(own, jax.Array) and np.array_equal(np.asarray(own), expected)


def test_results_for_other_libraries_are_dlpack_arrays_that_keep_their_memory():
    q, k, v = numpy_call(*[(1, 5, 2, 8)] * 3)
    result = jhalak.attention(Producer(q), Producer(k), Producer(v))
    view = np.from_dlpack(result)
    del result
    assert np.array_equal(view, jhalak.attention(q, k, v))
    again = jhalak.attention(jhalak.attention(Producer(q), k, v), k, v)
    assert np.array_equal(np.from_dlpack(again), jhalak.attention(view, k, v))


def test_out_in_float32_is_not_rounded():
    q, k, v = numpy_call(*[(1, 9, 2, 16)] * 3, dtype=np.float16)
    rounded = jhalak.attention(q, k, v)
    for name in (np.float32, "float32", np.dtype("float32")):
        wide = jhalak.attention(q, k, v, out_dtype=name)
        assert wide.dtype == np.float32 and np.array_equal(wide.astype(np.float16), rounded)
        assert not np.array_equal(wide, rounded.astype(np.float32))


def test_two_python_threads_progress_at_the_same_time():
    q, k, v = numpy_call(*[(1, 2048, 8, 64)] * 3)
    expected = jhalak.attention(q, k, v)
    ticks, results = 0, []
    worker = threading.Thread(target=lambda: results.append(jhalak.attention(q, k, v)))
    worker.start()
    while worker.is_alive():
        ticks += 1
    assert ticks > 1000 and np.array_equal(results[0], expected)


def test_calls_from_several_threads_give_what_one_gives():
    q, k, v = numpy_call(*[(1, 256, 4, 32)] * 3)
    expected = jhalak.attention(q, k, v)
    results = [None] * 4

    def work(n):
        results[n] = [jhalak.attention(q, k, v) for _ in range(5)]

    workers = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(np.array_equal(out, expected) for outs in results for out in outs)


def _child(queue, q, expected):
    queue.put(np.array_equal(jhalak.attention(q, q, q), expected))


def test_a_forked_child_computes_the_same_and_so_does_its_parent_afterwards():
    (q,) = numpy_call((1, 300, 4, 32))
    expected = jhalak.attention(q, q, q)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    for _ in range(2):
        child = context.Process(target=_child, args=(queue, q, expected))
        child.start()
        assert queue.get(timeout=60)
        child.join(timeout=60)
        assert child.exitcode == 0
    assert np.array_equal(jhalak.attention(q, q, q), expected)


def test_numpy_needs_no_torch():
    code = """
import sys, numpy as np, jhalak
q = np.ones((1, 3, 2, 4), np.float32)
assert (jhalak.attention(q, q, q) == 1).all()
print("torch" in sys.modules, "jax" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=dict(os.environ), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "False"]
