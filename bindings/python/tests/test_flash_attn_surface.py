"""jhalak.flash_attn has flash-attn's names, arguments and kinds of results."""

import inspect

import pytest
import torch
from torch.library import opcheck

import jhalak
import jhalak.flash_attn_interface as fa3
from jhalak import flash_attn
from jhalak.flash_attn import _operations, bert_padding
from jhalak.flash_attn import flash_attn_interface as fa2
from jhalak.flash_attn.layers import rotary
from standard import tensors

TAIL = (
    "dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, "
    "alibi_slopes=None, deterministic=False, return_attn_probs=False"
)
VARLEN = "cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k"
BACKWARD = "dout, q, k, v, out, softmax_lse, dq, dk, dv"
PRIVATE = (
    "dropout_p, softmax_scale, causal, window_size_left, window_size_right, softcap, alibi_slopes"
)
CACHE = (
    "softmax_scale=None, causal=False, window_size=(-1, -1), {chunk}softcap=0.0, "
    "rotary_interleaved=True, {rest}return_softmax_lse=False, s_aux=None"
)
DESCALES = "q_descale=None, k_descale=None, v_descale=None"
FA3_TAIL = (
    f"softmax_scale=None, causal=False, qv=None, {DESCALES}, window_size=(-1, -1), "
    "attention_chunk=0, softcap=0.0, num_splits=1, pack_gqa=None, deterministic=False, "
    "sm_margin=0, return_attn_probs=False, s_aux=None"
)
SIGNATURES = [
    (fa2.flash_attn_func, f"(q, k, v, {TAIL}, s_aux=None)"),
    (fa2.flash_attn_qkvpacked_func, f"(qkv, {TAIL})"),
    (fa2.flash_attn_kvpacked_func, f"(q, kv, {TAIL})"),
    (fa2.flash_attn_varlen_func, f"(q, k, v, {VARLEN}, {TAIL}, block_table=None, s_aux=None)"),
    (fa2.flash_attn_varlen_qkvpacked_func, f"(qkv, cu_seqlens, max_seqlen, {TAIL})"),
    (fa2.flash_attn_varlen_kvpacked_func, f"(q, kv, {VARLEN}, {TAIL})"),
    (
        fa2.flash_attn_with_kvcache,
        "(q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None, "
        "cache_seqlens=None, cache_batch_idx=None, cache_leftpad=None, block_table=None, "
        + CACHE.format(chunk="", rest="alibi_slopes=None, num_splits=0, ")
        + ")",
    ),
    (fa2._flash_attn_forward, f"(q, k, v, {PRIVATE}, return_softmax)"),
    (
        fa2._flash_attn_varlen_forward,
        f"(q, k, v, {VARLEN}, dropout_p, softmax_scale, causal, window_size_left=-1, "
        "window_size_right=-1, softcap=0.0, alibi_slopes=None, return_softmax=False, "
        "block_table=None, leftpad_k=None, seqused_k=None, zero_tensors=False, num_splits=0)",
    ),
    (fa2._flash_attn_backward, f"({BACKWARD}, {PRIVATE}, deterministic, rng_state=None)"),
    (
        fa2._flash_attn_varlen_backward,
        f"({BACKWARD}, {VARLEN}, {PRIVATE}, deterministic, rng_state=None, zero_tensors=False)",
    ),
    (bert_padding.unpad_input, "(hidden_states, attention_mask, unused_mask=None)"),
    (bert_padding.pad_input, "(hidden_states, indices, batch, seqlen)"),
    (
        rotary.apply_rotary_emb,
        "(x, cos, sin, interleaved=False, inplace=False, seqlen_offsets=0, cu_seqlens=None, "
        "max_seqlen=None)",
    ),
    (
        rotary.apply_rotary_emb_qkv_,
        "(qkv, cos, sin, cos_k=None, sin_k=None, interleaved=False, seqlen_offsets=0, "
        "num_heads_q=None)",
    ),
    (rotary.apply_rotary_emb_kv_, "(kv, cos, sin, interleaved=False, seqlen_offsets=0)"),
    (
        rotary.RotaryEmbedding,
        "(dim, base=10000.0, interleaved=False, scale_base=None, device=None)",
    ),
    (fa3.flash_attn_func, f"(q, k, v, {FA3_TAIL})"),
    (
        fa3.flash_attn_varlen_func,
        f"(q, k, v, {VARLEN}, seqused_q=None, seqused_k=None, {FA3_TAIL})",
    ),
    (
        fa3.flash_attn_qkvpacked_func,
        f"(qkv, softmax_scale=None, causal=False, {DESCALES}, window_size=(-1, -1), "
        "attention_chunk=0, softcap=0.0, deterministic=False, num_heads_q=None, sm_margin=0, "
        "return_attn_probs=False)",
    ),
    (
        fa3.flash_attn_with_kvcache,
        "(q, k_cache, v_cache, k=None, v=None, qv=None, rotary_cos=None, rotary_sin=None, "
        "cache_seqlens=None, cache_batch_idx=None, cache_leftpad=None, page_table=None, "
        "cu_seqlens_q=None, cu_seqlens_k_new=None, max_seqlen_q=None, rotary_seqlens=None, "
        f"{DESCALES}, "
        + CACHE.format(
            chunk="attention_chunk=0, ",
            rest="scheduler_metadata=None, num_splits=0, pack_gqa=None, sm_margin=0, ",
        )
        + ")",
    ),
    (fa3.flash_attn_combine, "(out_partial, lse_partial, out=None, out_dtype=None)"),
    (
        fa3.get_scheduler_metadata,
        "(batch_size, max_seqlen_q, max_seqlen_k, num_heads_q, num_heads_kv, headdim, "
        "cache_seqlens, qkv_dtype=torch.bfloat16, headdim_v=None, cu_seqlens_q=None, "
        "cu_seqlens_k_new=None, cache_leftpad=None, page_size=None, max_seqlen_k_new=0, "
        "causal=False, window_size=(-1, -1), attention_chunk=0, has_softcap=False, num_splits=0, "
        "pack_gqa=None, sm_margin=0)",
    ),
]

NAMES = [f"{function.__module__}.{function.__name__}" for function, _ in SIGNATURES]


def without_annotations(function):
    signature = inspect.signature(function)
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=plain, return_annotation=signature.empty))


@pytest.mark.parametrize(
    "function, signature", SIGNATURES, ids=lambda x: getattr(x, "__name__", "")
)
def test_arguments_are_flash_attns_in_its_order(function, signature):
    assert without_annotations(function) == signature
    if inspect.isfunction(function):
        spec = inspect.getfullargspec(function)
        assert spec.args == list(inspect.signature(function).parameters)
        assert spec.varargs is None and spec.varkw is None


def test_the_package_exports_the_public_names():
    assert {name for name in flash_attn.__all__ if getattr(flash_attn, name) is not None} == {
        "flash_attn_func",
        "flash_attn_kvpacked_func",
        "flash_attn_qkvpacked_func",
        "flash_attn_varlen_func",
        "flash_attn_varlen_kvpacked_func",
        "flash_attn_varlen_qkvpacked_func",
        "flash_attn_with_kvcache",
    }
    assert tuple(map(int, flash_attn.__version__.split("."))) >= (2, 8, 0)


def test_results_are_a_tensor_or_flash_attns_tuple():
    q, k, v = tensors(*[(2, 5, 2, 8)] * 3)
    assert isinstance(flash_attn.flash_attn_func(q, k, v), torch.Tensor)
    out, lse, weights = flash_attn.flash_attn_func(q, k, v, return_attn_probs=True)
    assert out.shape == (2, 5, 2, 8) and weights.shape == (0,)
    assert lse.shape == (2, 2, 5) and lse.dtype == torch.float32
    cache = flash_attn.flash_attn_with_kvcache(q, k, v, return_softmax_lse=True)
    assert torch.equal(cache[0], out) and torch.equal(cache[1], lse)
    cu = torch.tensor([0, 4, 10], dtype=torch.int32)
    packed = [x.flatten(0, 1) for x in (q, k, v)]
    varlen = flash_attn.flash_attn_varlen_func(*packed, cu, cu, 6, 6, return_attn_probs=True)
    assert [x.shape for x in varlen] == [(10, 2, 8), (2, 10), (0,)]


def test_rounding_and_contiguity_helpers_do_as_their_names_say():
    assert [fa2.round_multiple(x, 8) for x in (0, 1, 8, 9)] == [0, 8, 8, 16]
    (x,) = tensors((3, 4))
    assert fa2.maybe_contiguous(x) is x and fa2.maybe_contiguous(None) is None
    assert fa2.maybe_contiguous(x.T).is_contiguous() and torch.equal(fa2.maybe_contiguous(x.T), x.T)


@pytest.fixture
def operations():
    """The operations under flash-attn's namespace, as an installed flash_attn has them."""
    _operations.register("flash_attn")
    return torch.ops.flash_attn


@pytest.mark.parametrize("dropout_p", [0.0, 0.25])
def test_operations_have_flash_attns_names_and_pass_opcheck(operations, dropout_p):
    q, k, v = tensors((2, 5, 4, 8), (2, 7, 2, 8), (2, 7, 2, 8))
    rest = (0.5, True, 3, -1, 2.0, torch.rand(4))
    forward = operations._flash_attn_forward
    arguments = (q, k, v, dropout_p, *rest, True)
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    if not dropout_p:
        checks += ("test_aot_dispatch_dynamic",)
    opcheck(forward.default, arguments, test_utils=checks)
    out, lse, weights, rng = forward(*arguments)
    assert rng.dtype == torch.int64 and rng.shape == (2,)
    assert weights.shape == ((2, 4, 5, 7) if dropout_p else (0,))
    grads = [torch.empty_like(x) for x in (q, k, v)]
    backward = (torch.randn_like(out), q, k, v, out, lse, *grads, dropout_p, *rest, False, rng)
    opcheck(operations._flash_attn_backward.default, backward, test_utils=checks[:3])


@pytest.mark.parametrize("dropout_p", [0.0, 0.25])
def test_packed_operations_pass_opcheck(operations, dropout_p):
    q, k, v = tensors((9, 4, 8), (11, 2, 8), (11, 2, 8))
    cu = torch.tensor([0, 4, 9], dtype=torch.int32), torch.tensor([0, 5, 11], dtype=torch.int32)
    rest = (0.5, True, 3, -1, 2.0, torch.rand(4))
    forward = operations._flash_attn_varlen_forward
    arguments = (q, k, v, *cu, 5, 8, dropout_p, *rest, True)
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    opcheck(forward.default, arguments, test_utils=checks)
    out, lse, weights, rng = forward(*arguments)
    assert weights.shape == ((2, 4, 5, 8) if dropout_p else (0,))
    grads = [torch.empty_like(x) for x in (q, k, v)]
    backward = (torch.randn_like(out), q, k, v, out, lse, *grads, *cu, 5, 8, dropout_p, *rest)
    opcheck(operations._flash_attn_varlen_backward.default, (*backward, False, rng),
            test_utils=checks)  # fmt: skip


def test_the_wrapped_functions_are_operations_that_take_keywords():
    q, k, v = tensors(*[(1, 5, 2, 8)] * 3)
    options = {"causal": True, "window_size_left": -1, "window_size_right": -1, "softcap": 0.0}
    out, lse, _, rng = fa2._wrapped_flash_attn_forward(
        q, k, v, 0.0, 0.3, alibi_slopes=None, return_softmax=False, **options
    )
    expected, expected_lse = jhalak.attention(q, k, v, scale=0.3, causal=True, return_lse=True)
    assert torch.equal(out, expected) and torch.equal(lse, expected_lse)
    grads = [torch.full_like(x, torch.nan) for x in (q, k, v)]
    fa2._wrapped_flash_attn_backward(
        torch.ones_like(out), q, k, v, out, lse, *grads, 0.0, 0.3, alibi_slopes=None,
        deterministic=True, rng_state=rng, **options,
    )  # fmt: skip
    own = jhalak.attention_backward(torch.ones_like(out), q, k, v, out, lse, scale=0.3, causal=True)
    for found, wanted in zip(grads, own[:3], strict=True):
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize(
    "call",
    [
        {"qv": torch.zeros(1)},
        {"q_descale": torch.ones(1)},
        {"k_descale": torch.ones(1)},
        {"v_descale": torch.ones(1)},
        {"attention_chunk": 64},
    ],
    ids=lambda call: next(iter(call)),
)
def test_what_only_hopper_has_is_refused_by_name(call):
    q, k, v = tensors(*[(1, 5, 2, 8)] * 3)
    with pytest.raises(NotImplementedError, match=next(iter(call))):
        fa3.flash_attn_func(q, k, v, **call)
    with pytest.raises(NotImplementedError, match=next(iter(call))):
        fa3.flash_attn_with_kvcache(q, k, v, **call)
