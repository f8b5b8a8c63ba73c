"""What torch's machinery does with jhalak: autograd, compile, export, modes, autocast, threads."""

import itertools
import multiprocessing
import threading

import pytest
import torch
from torch.library import opcheck
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import jhalak
from standard import attention, tensors

SCALARS = (None, True, 3, -1, 2.0, 0.0, None, None)
NO_TENSORS = (None,) * 8


def test_gradcheck_passes_in_f64_with_every_differentiable_argument():
    dtype = torch.float64
    q, k, v = tensors((1, 3, 2, 4), (1, 4, 1, 4), (1, 4, 1, 3), dtype=dtype, grad=True)
    bias, sinks = tensors((1, 2, 1, 4), (2,), dtype=dtype, grad=True)

    def call(q, k, v, bias, sinks):
        options = {"causal": True, "softcap": 2.0, "dropout_p": 0.25, "seed": 3}
        return jhalak.attention(q, k, v, bias=bias, sinks=sinks, return_lse=True, **options)

    assert torch.autograd.gradcheck(call, (q, k, v, bias, sinks))


@pytest.mark.parametrize("way", ["directly", "as an operation"])
@pytest.mark.parametrize("subset", list(itertools.product((False, True), repeat=4)))
def test_only_the_gradients_that_are_asked_for_are_computed(subset, way, monkeypatch):
    if way == "as an operation":
        monkeypatch.setattr("jhalak.torch._direct.applies", lambda *_: False)
    shapes = (1, 5, 2, 8), (1, 6, 2, 8), (1, 6, 2, 8), (1, 2, 5, 6)
    leaves = tensors(*shapes)
    full = [x.clone().requires_grad_() for x in leaves]
    attention(*full[:3], bias=full[3])[0].sin().sum().backward()
    chosen = [x.requires_grad_(wanted) for x, wanted in zip(leaves, subset, strict=True)]
    out = jhalak.attention(*chosen[:3], bias=chosen[3])
    assert out.requires_grad == any(subset)
    if any(subset):
        out.sin().sum().backward()
    for x, complete, wanted in zip(chosen, full, subset, strict=True):
        assert (x.grad is not None) == wanted
        if wanted:
            torch.testing.assert_close(x.grad, complete.grad, atol=1e-5, rtol=1e-5)


def test_no_grad_and_inference_mode_record_nothing():
    q, k, v = tensors(*[(1, 5, 2, 8)] * 3, grad=True)
    with torch.no_grad():
        assert not jhalak.attention(q, k, v).requires_grad
    with torch.inference_mode():
        assert jhalak.attention(q, k, v).is_inference()
    out = jhalak.attention(q, k, v)
    with torch.no_grad():
        detached = jhalak.attention(q, k, v)
    assert out.requires_grad and torch.equal(out, detached)


@pytest.mark.parametrize("way", ["directly", "as an operation"])
def test_a_second_derivative_is_a_clear_error(way, monkeypatch):
    if way == "as an operation":
        monkeypatch.setattr("jhalak.torch._direct.applies", lambda *_: False)
    q, k, v = tensors(*[(1, 5, 2, 8)] * 3, grad=True)
    out = jhalak.attention(q, k, v)
    (dq,) = torch.autograd.grad(out.sin().sum(), q, create_graph=True)
    with pytest.raises(NotImplementedError, match="first derivatives only"):
        dq.sum().backward()


def test_slopes_have_no_gradient():
    q, k, v = tensors(*[(1, 5, 2, 8)] * 3)
    with pytest.raises(ValueError, match="alibi_slopes must not require a gradient"):
        jhalak.attention(q, k, v, alibi_slopes=torch.rand(2).requires_grad_())


def test_only_lse_used_gives_its_gradient():
    q, k, v = tensors(*[(1, 5, 2, 8)] * 3, grad=True)
    jhalak.attention(q, k, v, return_lse=True)[1].sin().sum().backward()
    found = q.grad.clone(), k.grad.clone()
    q.grad = k.grad = None
    attention(q, k, v)[1].sin().sum().backward()
    torch.testing.assert_close(found[0], q.grad, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found[1], k.grad, atol=1e-5, rtol=1e-5)
    assert v.grad is None or (v.grad == 0).all()


def operation_arguments(packed, dropout):
    rng = torch.tensor([5, 7]) if dropout else None
    scalars = (0.5, True, 3, -1, 2.0, 0.25 if dropout else 0.0, None, None)
    if packed:
        q, k, v = tensors((9, 4, 8), (11, 2, 8), (11, 2, 6), grad=True)
        cu = torch.tensor([0, 4, 9], dtype=torch.int32), torch.tensor([0, 7, 10], dtype=torch.int32)
        return q, k, v, (None, None, None, None, *cu, None, None), rng, scalars
    q, k, v = tensors((2, 5, 4, 8), (2, 7, 2, 8), (2, 7, 2, 6), grad=True)
    bias, sinks = tensors((1, 4, 5, 7), (4,), grad=True)
    mask, slopes = torch.rand(2, 1, 5, 7) > 0.2, torch.rand(4)
    return q, k, v, (bias, mask, slopes, sinks, None, None, None, None), rng, scalars


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dropout", [False, True])
def test_opcheck_accepts_the_operations(packed, dropout):
    q, k, v, rest, rng, scalars = operation_arguments(packed, dropout)
    opcheck(torch.ops.jhalak.forward.default, (q, k, v, *rest, rng, *scalars, False))
    out, lse = torch.ops.jhalak.forward(q, k, v, *rest, rng, *scalars, False)
    saved = [x if x is None else x.detach() for x in (q, k, v, out, lse, *rest)]
    dout, dlse = torch.randn_like(out), torch.randn_like(lse)
    needs = [True, False, True, not packed, not packed]
    arguments = (dout, dlse, *saved, rng, *scalars, needs)
    opcheck(torch.ops.jhalak.backward.default, arguments)


def test_opcheck_accepts_merging():
    outs = tensors((1, 3, 2, 4), (1, 3, 2, 4), grad=True)
    lses = tensors((1, 2, 3), (1, 2, 3), grad=True)
    opcheck(torch.ops.jhalak.merge.default, (outs, lses))


def test_compiled_without_a_graph_break_and_with_dynamic_sizes():
    def block(q, k, v, bias):
        return jhalak.attention(q * 2, k, v, causal=True, window=(6, 0), bias=bias).sin()

    compiled = torch.compile(block, fullgraph=True, dynamic=True)
    for seqlen in (5, 9, 16):
        leaves = tensors(*[(2, seqlen, 2, 8)] * 3, (1, 2, seqlen, seqlen), grad=True)
        expected = torch.autograd.grad(block(*leaves).sum(), leaves)
        found = torch.autograd.grad(compiled(*leaves).sum(), leaves)
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-6)


def test_packed_sequences_and_dropout_compile():
    cu = torch.tensor([0, 4, 9], dtype=torch.int32)

    @torch.compile(fullgraph=True, dynamic=True)
    def block(q, k, v, cu):
        dropped = jhalak.varlen_attention(q, k, v, cu, cu, causal=True, dropout_p=0.5)
        return dropped, jhalak.varlen_attention(q, k, v, cu, cu, causal=True)

    q, k, v = tensors(*[(9, 2, 8)] * 3)
    dropped, kept = block(q, k, v, cu)
    torch.testing.assert_close(kept, jhalak.varlen_attention(q, k, v, cu, cu, causal=True))
    assert not torch.equal(dropped, kept)
    assert not torch.equal(dropped, block(q, k, v, cu)[0])


def test_export_keeps_the_operation():
    class Block(torch.nn.Module):
        def forward(self, q, k, v):
            return jhalak.attention(q, k, v, causal=True)

    arguments = tuple(tensors(*[(1, 5, 2, 8)] * 3))
    program = torch.export.export(Block(), arguments)
    assert any("jhalak.forward" in str(node.target) for node in program.graph.nodes)
    torch.testing.assert_close(program.module()(*arguments), Block()(*arguments))


def test_dispatch_modes_see_the_operation():
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    q, k, v = tensors(*[(1, 5, 2, 8)] * 3)
    with Watch():
        jhalak.attention(q, k, v)
    assert any("jhalak.forward" in name for name in seen)


def test_functorch_differentiates_and_maps_over_batches():
    def value(q, k, v, sinks):
        out, lse = jhalak.attention(q, k, v, causal=True, sinks=sinks, return_lse=True)
        return out.sin().sum() + lse.cos().sum()

    arguments = tensors((3, 1, 5, 2, 8), (3, 1, 6, 2, 8), (3, 1, 6, 2, 8), (3, 2))
    gradients = torch.func.grad(value, argnums=(0, 1, 2, 3))
    compiled = torch.compile(gradients, fullgraph=True)
    mapped = torch.vmap(gradients)(*arguments)
    for n, single in enumerate(zip(*arguments, strict=True)):
        leaves = [x.clone().requires_grad_() for x in single]
        expected = torch.autograd.grad(value(*leaves), leaves)
        for a, b, c in zip(mapped, compiled(*single), expected, strict=True):
            torch.testing.assert_close(a[n], c, atol=1e-6, rtol=1e-5)
            torch.testing.assert_close(b, c, atol=1e-6, rtol=1e-5)
    first = [x[0] for x in arguments]
    with pytest.raises(NotImplementedError, match="first derivatives only"):
        torch.func.grad(lambda q: gradients(q, *first[1:])[0].sum())(first[0])


def test_functorch_differentiates_merging():
    outs, lses = tensors(*[(1, 5, 2, 8)] * 2), tensors(*[(1, 2, 5)] * 2)

    def value(outs, lses):
        out, lse = jhalak.merge(list(zip(outs, lses, strict=True)))
        return out.sin().sum() + lse.cos().sum()

    found = torch.func.grad(value, argnums=(0, 1))(outs, lses)
    leaves = [x.requires_grad_() for x in outs + lses]
    expected = torch.autograd.grad(value(outs, lses), leaves)
    for a, b in zip(found[0] + found[1], expected, strict=True):
        torch.testing.assert_close(a, b)


def test_both_ways_give_the_same_bits(monkeypatch):
    leaves = tensors((2, 9, 4, 16), (2, 9, 2, 16), (2, 9, 2, 16), grad=True)
    direct = jhalak.attention(*leaves, causal=True, dropout_p=0.3, seed=11)
    grads = torch.autograd.grad(direct.sin().sum(), leaves)
    monkeypatch.setattr("jhalak.torch._direct.applies", lambda *_: False)
    operation = jhalak.attention(*leaves, causal=True, dropout_p=0.3, seed=11)
    assert torch.equal(direct, operation)
    for a, b in zip(grads, torch.autograd.grad(operation.sin().sum(), leaves), strict=True):
        assert torch.equal(a, b)


def test_autocast_casts_nothing_as_flash_attn_casts_nothing():
    q, k, v = tensors(*[(1, 5, 2, 8)] * 3)
    with torch.autocast("cpu", torch.bfloat16):
        assert jhalak.attention(q, k, v).dtype == torch.float32
        linear = torch.nn.Linear(8, 8)
        assert jhalak.attention(linear(q), linear(k), linear(v)).dtype == torch.bfloat16
        with pytest.raises(TypeError, match="k must have dtype bf16, but has f32"):
            jhalak.attention(linear(q), k, v)


def test_checkpointing_recomputes_the_same_dropout():
    leaves = tensors(*[(1, 16, 2, 8)] * 3, grad=True)

    def block(q, k, v):
        return jhalak.attention(q, k, v, dropout_p=0.5)

    torch.manual_seed(3)
    expected = torch.autograd.grad(block(*leaves).sin().sum(), leaves)
    for reentrant in (False, True):
        torch.manual_seed(3)
        out = checkpoint(block, *leaves, use_reentrant=reentrant)
        for x in leaves:
            x.grad = None
        out.sin().sum().backward()
        for x, grad in zip(leaves, expected, strict=True):
            assert torch.equal(x.grad, grad)


def test_dropout_draws_from_torchs_generator_and_nothing_at_zero():
    q, k, v = tensors(*[(1, 16, 2, 8)] * 3)
    torch.manual_seed(1)
    first, second = (jhalak.attention(q, k, v, dropout_p=0.5) for _ in range(2))
    torch.manual_seed(1)
    assert torch.equal(jhalak.attention(q, k, v, dropout_p=0.5), first)
    assert not torch.equal(first, second)
    state = torch.get_rng_state()
    jhalak.attention(q, k, v, dropout_p=0.0)
    jhalak.attention(q, k, v, dropout_p=0.5, seed=9)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("offset", [0, 77])
def test_dropout_is_standard_attention_with_the_exported_mask(offset):
    q, k, v = tensors((2, 9, 4, 8), (2, 13, 2, 8), (2, 13, 2, 8), grad=True)
    choice = {"dropout_p": 0.4, "seed": 12345, "offset": offset}
    keep = jhalak.dropout_mask(q, k, v, **choice)
    out = jhalak.attention(q, k, v, **choice)
    expected = attention(q, k, v, keep=keep, dropout_p=0.4)[0]
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    found = torch.autograd.grad(out.sin().sum(), (q, k, v))
    for a, b in zip(found, torch.autograd.grad(expected.sin().sum(), (q, k, v)), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)
    assert 0.55 < keep.float().mean() < 0.65


def test_all_dropped_gives_zeros_and_zero_gradients():
    q, k, v = tensors(*[(1, 5, 2, 8)] * 3, grad=True)
    out = jhalak.attention(q, k, v, dropout_p=1.0)
    out.sum().backward()
    assert (out == 0).all() and all((x.grad == 0).all() for x in (q, k, v))


def test_threads_follow_torch_and_do_not_change_a_bit():
    leaves = tensors(*[(1, 300, 4, 32)] * 3, grad=True)
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        out = jhalak.attention(*leaves, causal=True)
        results.append((out, *torch.autograd.grad(out.sum(), leaves)))
    torch.set_num_threads(2)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_several_python_threads_get_what_one_gets():
    q, k, v = tensors(*[(1, 256, 4, 32)] * 3)
    expected = jhalak.attention(q, k, v)
    results = [None] * 6

    def work(n):
        results[n] = [jhalak.attention(q, k, v) for _ in range(5)]

    workers = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(torch.equal(out, expected) for outs in results for out in outs)


def test_other_python_threads_run_while_jhalak_computes():
    q, k, v = tensors(*[(1, 4096, 8, 64)] * 3)
    ticks, done = 0, threading.Event()

    def call():
        jhalak.attention(q, k, v)
        done.set()

    worker = threading.Thread(target=call)
    worker.start()
    while not done.is_set():
        ticks += 1
    worker.join()
    assert ticks > 1000


def _child(queue, q, expected):
    queue.put(jhalak.attention(q, q, q).tolist() == expected)


def test_a_forked_child_computes_after_its_parent_did():
    # Nothing here is large enough for torch's own threads, which do not outlive a fork.
    (q,) = tensors((1, 300, 4, 16))
    expected = jhalak.attention(q, q, q).tolist()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(queue, q, expected))
    child.start()
    assert queue.get(timeout=60)
    child.join(timeout=60)
    assert child.exitcode == 0
