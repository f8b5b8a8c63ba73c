"""What cannot be computed is an error that names the argument, and nothing is written."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from arrays import Producer

import jhalak

SHAPE = (2, 5, 4, 8)


def array(*shape, dtype=np.float32):
    return np.ones(shape, dtype)


def call(kind, **changed):
    """`jhalak.attention` on good arguments but for those that are given."""
    arguments = {"q": array(*SHAPE), "k": array(2, 5, 2, 8), "v": array(2, 5, 2, 8), **changed}
    if kind == "torch":
        arguments = {
            name: torch.from_numpy(x.copy()) if isinstance(x, np.ndarray) else x
            for name, x in arguments.items()
        }
    return jhalak.attention(arguments.pop("q"), arguments.pop("k"), arguments.pop("v"), **arguments)


def packed(kind, **changed):
    """`jhalak.varlen_attention`, likewise."""
    arguments = {
        "q": array(5, 4, 8), "k": array(6, 2, 8), "v": array(6, 2, 8),
        "cu_seqlens_q": np.array([0, 2, 5], np.int32),
        "cu_seqlens_k": np.array([0, 4, 6], np.int32), **changed,
    }  # fmt: skip
    if kind == "torch":
        arguments = {
            name: torch.from_numpy(x.copy()) if isinstance(x, np.ndarray) else x
            for name, x in arguments.items()
        }
    return jhalak.varlen_attention(**arguments)


WRONG = [
    ({"q": array(5, 4, 8)}, ValueError, r"q must have 4 dimensions, but has shape [\[(]5, 4, 8"),
    ({"k": array(5, 2, 8)}, ValueError, r"k must have shape \[B, Sk, Hk, D\], but has"),
    ({"v": array(5, 2, 8)}, ValueError, "v must have 4 dimensions, but has shape"),
    ({"k": array(1, 5, 2, 8)}, ValueError, "k must have shape .* with B = 2, as q, but has"),
    ({"k": array(2, 5, 2, 7)}, ValueError, "k must have shape .* with D = 8, as q, but has"),
    ({"v": array(2, 6, 2, 8)}, ValueError, r"v must have shape \[2, 5, 2\] .* but has \[2, 6,"),
    ({"v": array(2, 5, 1, 8)}, ValueError, r"v must have shape \[2, 5, 2\] .* but has \[2, 5, 1"),
    ({"q": array(2, 5, 3, 8)}, ValueError, "query heads must be a multiple of the 2 .* is 3"),
    ({"q": array(*SHAPE, dtype=np.int64)}, TypeError, "q must have dtype .* but has i64"),
    ({"k": array(2, 5, 2, 8, dtype=np.float16)}, TypeError, "k must have dtype f32, but has f16"),
    ({"k": None}, TypeError, "k must be .* but is NoneType"),
    ({"scale": math.nan}, ValueError, "scale must be a finite f32 number, but is NaN"),
    ({"scale": math.inf}, ValueError, "scale must be a finite f32 number, but is inf"),
    ({"scale": 1e300}, ValueError, "scale must be a finite f32 number"),
    ({"scale": "big"}, TypeError, "scale"),
    ({"window": 3}, TypeError, r"window must be a pair \(left, right\), but is 3"),
    ({"window": (1, 2, 3)}, TypeError, r"window must be a pair \(left, right\), but is \(1, 2, 3"),
    ({"window": (-2, 0)}, ValueError, "window must be at least 0, or -1 .* but is -2"),
    ({"window": (1.5, 0)}, TypeError, "window: 'float' object"),
    ({"softcap": -1.0}, ValueError, "softcap must be a finite number of at least 0, but is -1"),
    ({"softcap": math.nan}, ValueError, "softcap must be .* but is NaN"),
    ({"dropout_p": -0.1, "seed": 1}, ValueError, "dropout p must be from 0 to 1, but is -0.1"),
    ({"dropout_p": 1.5, "seed": 1}, ValueError, "dropout p must be from 0 to 1, but is 1.5"),
    ({"dropout_p": math.nan, "seed": 1}, ValueError, "dropout p must be .* but is NaN"),
    ({"dropout_p": 0.5, "seed": 1.5}, TypeError, "seed must be an integer, but is 1.5"),
    ({"q_start": 1.5}, TypeError, "q_start: 'float' object"),
    ({"bias": array(2, 4, 5, 6)}, ValueError, r"bias must have shape \[2, 4, 5, 5\].* but has"),
    ({"bias": array(1, 2, 4, 5, 5)}, ValueError, "bias must have shape of at most 4 dimensions"),
    ({"bias": array(*[1] * 9)}, ValueError, "bias: .* at most 4 dimensions, but has 9"),
    ({"bias": array(2, 4, 5, 5, dtype=np.float16)}, TypeError, "bias must have dtype f32, but"),
    ({"mask": array(2, 4, 5, 5)}, TypeError, "mask must have dtype bool, but has f32"),
    ({"mask": array(5, 6, dtype=bool)}, ValueError, r"mask must have shape .* but has"),
    ({"alibi_slopes": array(3)}, ValueError, r"alibi_slopes must have shape \[4\] or .* but has"),
    ({"alibi_slopes": array(4, dtype=np.float64)}, TypeError, "alibi_slopes must have dtype f32"),
    ({"sinks": array(3)}, ValueError, r"sinks must have shape \[4\], but has \[3\]"),
    ({"seqused_k": np.array([3, 6])}, ValueError, "seqused_k must be from 0 to 5.* but is 6"),
    ({"seqused_k": np.array([3, -1])}, ValueError, "seqused_k must be from 0 to 5.* but is -1"),
    ({"seqused_q": np.array([3])}, ValueError, r"seqused_q must have shape \[2\], but has \[1\]"),
    ({"seqused_k": array(2)}, TypeError, "seqused_k must have dtype i32 or i64, but has f32"),
    ({"layout": "sbhd"}, ValueError, 'layout must be "bshd" or "bhsd", but is \'sbhd\''),
]
PACKED = [
    ({"cu_seqlens_q": np.array([0, 3, 6], np.int32)}, ValueError, "cu_seqlens_q must be at most 5"),
    ({"cu_seqlens_q": np.array([0, 3, 2], np.int32)}, ValueError, "never decreases, but is 2 afte"),
    ({"cu_seqlens_k": np.array([1, 3, 6], np.int32)}, ValueError, "cu_seqlens_k must be 0 in its"),
    ({"cu_seqlens_k": np.array([0, 6], np.int32)}, ValueError, r"cu_seqlens_k must have shape \["),
    ({"cu_seqlens_q": np.array([0, 2.0, 5])}, TypeError, "cu_seqlens_q must have dtype i32 or i64"),
    ({"cu_seqlens_q": np.zeros((1, 3), np.int32)}, ValueError, "cu_seqlens_q must have shape"),
    ({"cu_seqlens_q": None}, TypeError, "cu_seqlens_q and cu_seqlens_k must be arrays"),
    ({"cu_seqlens_k": None}, TypeError, "cu_seqlens_q and cu_seqlens_k must be arrays"),
    ({"q": array(*SHAPE)}, ValueError, "q must have 3 dimensions, but has shape"),
]


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("changed, error, text", WRONG)
def test_a_wrong_argument_is_named(kind, changed, error, text):
    assert call(kind).shape == SHAPE
    with pytest.raises(error, match=text):
        call(kind, **changed)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("changed, error, text", PACKED)
def test_a_wrong_argument_of_a_packed_call_is_named(kind, changed, error, text):
    assert packed(kind).shape == (5, 4, 8)
    with pytest.raises(error, match=text):
        packed(kind, **changed)


def test_what_is_no_array_is_refused():
    for wrong in ([[1.0]], 3, "q", np.float32(3)):
        with pytest.raises(TypeError, match="q must be an array"):
            call("numpy", q=wrong)
        with pytest.raises(TypeError, match="k must be a torch.Tensor, as q, but is"):
            call("torch", k=wrong)
    with pytest.raises(TypeError, match="q must have dtype .* but has complex64"):
        call("numpy", q=array(*SHAPE, dtype=np.complex64))
    with pytest.raises(TypeError, match="q must have dtype .* but has torch.complex64"):
        call("torch", q=torch.ones(SHAPE, dtype=torch.complex64))
    with pytest.raises(TypeError, match="byte order, but has >f4"):
        call("numpy", q=array(*SHAPE, dtype=">f4"))
    with pytest.raises(TypeError, match="q must have dtype .* but has another"):
        call("numpy", q=Producer(array(*SHAPE, dtype=np.int8)))
    with pytest.raises(TypeError, match="unexpected keyword argument 'is_causal'"):
        call("numpy", is_causal=True)


def test_arrays_on_a_device_are_refused_by_name():
    class OnGpu:
        def __dlpack__(self, **request):
            raise AssertionError("nobody may read this")

        def __dlpack_device__(self):
            return 2, 0

    with pytest.raises(NotImplementedError, match="k is not in host memory"):
        call("numpy", k=OnGpu())
    with pytest.raises(ValueError, match="q must be on the CPU or a CUDA device, but is on meta"):
        jhalak.attention(*[torch.ones(SHAPE, device="meta")] * 3)


def test_a_capsule_that_is_none_is_refused():
    class Liar(Producer):
        def __dlpack__(self, **request):
            return 3

    with pytest.raises(ValueError, match="neither dltensor nor dltensor_versioned"):
        call("numpy", q=Liar(array(*SHAPE)))


def test_numpy_has_no_generator_for_dropout():
    with pytest.raises(ValueError, match="seed must be given with dropout_p"):
        call("numpy", dropout_p=0.5)


def test_out_dtype_is_float32_or_that_of_q():
    for kind, dtype in (("numpy", np.float16), ("torch", torch.float16)):
        with pytest.raises(TypeError, match="out_dtype must"):
            call(kind, out_dtype=dtype)
    with pytest.raises(TypeError, match="out_dtype must be float32 or .* but is 'f'"):
        call("numpy", out_dtype="f")


def backward(**changed):
    q, k, v = array(*SHAPE), array(2, 5, 2, 8), array(2, 5, 2, 8)
    out, lse = jhalak.attention(q, k, v, return_lse=True)
    arguments = {"dout": out, "q": q, "k": k, "v": v, "out": out, "lse": lse, **changed}
    return jhalak.attention_backward(**arguments)


WRONG_BACKWARD = [
    ({"out": None}, ValueError, "out or delta must be given"),
    ({"lse": None}, TypeError, "lse must be an array"),
    ({"lse": array(2, 4, 3)}, ValueError, r"lse must have shape \[2, 4, 5\], but has \[2, 4, 3\]"),
    ({"lse": array(2, 4, 5, dtype=np.float16)}, TypeError, "lse must have dtype f32, but has f16"),
    ({"dout": array(2, 3, 4, 8)}, ValueError, r"dout must have shape \[2, 5, 4, 8\], but has"),
    ({"dout": array(*SHAPE, dtype=np.float16)}, TypeError, "dout must have dtype f32"),
    ({"dlse": array(2, 4, 3)}, ValueError, "dlse must have shape"),
    ({"delta": array(2, 4, 3)}, ValueError, "delta must have shape"),
    ({"dq": array(2, 5, 4, 7)}, ValueError, r"dq must have shape \[2, 5, 4, 8\], but has"),
    ({"dq": array(*SHAPE, dtype=np.float64)}, TypeError, "dq must have dtype f32, but has f64"),
    ({"dbias": True}, ValueError, "dbias needs the array that it is the gradient of"),
    ({"dsinks": True}, ValueError, "dsinks needs the array that it is the gradient of"),
    ({"accumulate": True}, ValueError, "dq, dk, dv must be arrays, or None, where accumulate"),
    ({"cu_seqlens_q": np.array([0, 5])}, ValueError, "must be given together"),
]


@pytest.mark.parametrize("changed, error, text", WRONG_BACKWARD)
def test_a_wrong_argument_of_the_backward_is_named(changed, error, text):
    assert backward().dq.shape == SHAPE
    with pytest.raises(error, match=text):
        backward(**changed)


def test_gradients_need_memory_of_their_own_that_may_be_written():
    q = array(*SHAPE)
    read_only = array(*SHAPE)
    read_only.flags.writeable = False
    for dq in (read_only, Producer(read_only), np.broadcast_to(array(1), SHAPE)):
        with pytest.raises(ValueError, match="dq must be writable"):
            backward(dq=dq)
    with pytest.raises(ValueError, match="dq must be writable, but its ArrayImpl is not"):
        backward(dq=jnp.ones(SHAPE))
    with pytest.raises(ValueError, match="dq must not overlap q"):
        backward(q=q, dq=q)
    stacked = np.lib.stride_tricks.as_strided(array(8), SHAPE, (0, 0, 0, 4))
    with pytest.raises(ValueError, match="dq must not overlap itself"):
        backward(dq=stacked)
    records = np.zeros(SHAPE, dtype=[("value", "f4"), ("other", "i1")])
    with pytest.raises(ValueError, match="dq must have strides of whole elements"):
        backward(dq=records["value"])
    assert (read_only == 1).all() and (q == 1).all()


def test_nothing_is_written_when_a_later_argument_is_wrong():
    dq = np.full(SHAPE, 7.0, np.float32)
    with pytest.raises(ValueError, match="dk must have shape"):
        backward(dq=dq, dk=array(2, 5, 4, 8))
    assert (dq == 7).all()


def test_merging_needs_parts_of_one_shape():
    out, lse = array(*SHAPE), array(2, 4, 5)
    with pytest.raises(ValueError, match="parts must be at least one"):
        jhalak.merge([])
    with pytest.raises(ValueError, match="lse must have shape"):
        jhalak.merge([(out, array(2, 4, 6))])
    with pytest.raises(ValueError, match="must have shape"):
        jhalak.merge([(out, lse), (array(2, 6, 4, 8), array(2, 4, 6))])
