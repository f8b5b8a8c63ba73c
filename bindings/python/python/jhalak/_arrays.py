"""Attention on NumPy arrays, and on arrays of any library that speaks DLPack, such as JAX."""

import sys

from jhalak import _raw
from jhalak._jhalak import Array, Borrowed
from jhalak._raw import BF16, CODES, F32, F64, HOST
from jhalak._results import Gradients

_ALL_CORES = 0
_NAMES = {code: name for name, code in CODES.items()}


def _numpy():
    """NumPy, if the caller has it: without it there are no NumPy arrays."""
    return sys.modules.get("numpy")


def _is_numpy(x):
    numpy = _numpy()
    return numpy is not None and isinstance(x, numpy.ndarray)


class _Call:
    """One call's arrays: described for the compiled part, kept alive, and results like q's."""

    def __init__(self, q, heads_first=False):
        self._like = q
        self._borrowed = []
        self._heads_first = heads_first

    def optional(self, name, x, swap=False, write=False):
        """As `describe`; None for None."""
        return None if x is None else self.describe(name, x, swap, write)

    def describe(self, name, x, swap=False, write=False):
        """The integers of an array; `swap` exchanges sequence and heads where layout says so."""
        address, code, device, shape, strides = self._describe(name, x, write)
        if swap and self._heads_first:
            shape, strides = _swapped(name, shape), _swapped(name, strides)
        return address, code, device, shape, strides

    def _describe(self, name, x, write):
        if isinstance(x, Array):
            self._borrowed.append(x)
            return x.descriptor
        if not _is_numpy(x):
            if not hasattr(x, "__dlpack__"):
                raise TypeError(
                    f"{name} must be an array (NumPy's, torch's or one with __dlpack__), "
                    f"but is {type(x).__name__}"
                )
            borrowed = Borrowed(x, name)
            if write and not borrowed.writable:
                raise ValueError(f"{name} must be writable, but its {type(x).__name__} is not")
            self._borrowed.append(borrowed)
            return borrowed.descriptor
        code = CODES.get(x.dtype.name)
        if code is None:
            raise TypeError(f"{name} must have dtype {', '.join(CODES)}, but has {x.dtype}")
        if not x.dtype.isnative:
            raise TypeError(f"{name} must be in this machine's byte order, but has {x.dtype.str}")
        size = x.dtype.itemsize
        if write and not x.flags.writeable:
            raise ValueError(f"{name} must be writable, but is a read-only array")
        if any(stride % size for stride in x.strides):
            if write:
                raise ValueError(f"{name} must have strides of whole elements, but has {x.strides}")
            x = x.copy()
        self._borrowed.append(x)
        return x.ctypes.data, code, HOST, x.shape, tuple(s // size for s in x.strides)

    def output(self, name, code, shape):
        """A new array as the framework of q has them, and its description."""
        if _is_numpy(self._like):
            array = _numpy().empty(shape, self._dtype(code))
        else:
            array = Array(code, shape)
        return array, self.describe(name, array, write=True)

    def _dtype(self, code):
        if code != BF16:
            return _NAMES[code]
        if self._like.dtype.name == "bfloat16":
            return self._like.dtype
        import ml_dtypes

        return ml_dtypes.bfloat16

    def finish(self, array, swap=False):
        """The result as the caller gets it."""
        if array is None:
            return None
        if swap and self._heads_first:
            array = array.swapaxes(1, 2)
        if isinstance(array, Array) and hasattr(self._like, "__array_namespace__"):
            return self._like.__array_namespace__().from_dlpack(array)
        return array


def _swapped(name, numbers):
    if len(numbers) != 4:
        raise ValueError(f"{name} must have 4 dimensions, but has {len(numbers)}")
    a, b, c, d = numbers
    return a, c, b, d


def _options(call, o):
    if o["dropout_p"] and o["seed"] is None:
        raise ValueError("seed must be given with dropout_p: only torch's arrays have a generator")
    left, right = _raw.window_bounds(o["window"])
    names = ("bias", "mask", "alibi_slopes", "sinks")
    names += ("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k")
    return _raw.options(
        o["scale"],
        o["causal"],
        left,
        right,
        o["softcap"] or 0.0,
        o["dropout_p"],
        o["seed"] or 0,
        o["offset"],
        o["q_start"],
        o["k_start"],
        *(call.optional(name, o.get(name)) for name in names),
    )


def _out_code(out_dtype, code):
    if out_dtype is None:
        return code
    wanted = CODES.get(getattr(out_dtype, "__name__", None) or str(out_dtype))
    if wanted is None:
        raise TypeError(f"out_dtype must be float32 or the dtype of q, but is {out_dtype!r}")
    return wanted


def _lse_shape(q_shape, packed):
    if packed:
        return q_shape[1], q_shape[0]
    return q_shape[0], q_shape[2], q_shape[1]


def attention(q, k, v, o):
    """out and lse; `o` has every option by name."""
    call = _Call(q, _raw.check_layout(o["layout"]))
    packed = o.get("cu_seqlens_q") is not None
    raw_q, raw_k, raw_v = (
        call.describe(name, x, swap=True) for name, x in (("q", q), ("k", k), ("v", v))
    )
    raw_options = _options(call, o)
    rank = 3 if packed else 4
    if len(raw_q[3]) != rank or len(raw_v[3]) != rank:
        name, shape = ("q", raw_q[3]) if len(raw_q[3]) != rank else ("v", raw_v[3])
        raise ValueError(f"{name} must have {rank} dimensions, but has shape {tuple(shape)}")
    code = raw_q[1]
    out, raw_out = call.output(
        "out", _out_code(o["out_dtype"], code), (*raw_q[3][:-1], raw_v[3][-1])
    )
    lse_code = F64 if code == F64 else F32
    lse, raw_lse = call.output("lse", lse_code, _lse_shape(raw_q[3], packed))
    _raw.forward(raw_q, raw_k, raw_v, raw_options, raw_out, raw_lse, _ALL_CORES)
    return call.finish(out, swap=True), call.finish(lse)


def attention_backward(dout, q, k, v, out, lse, delta, dlse, wanted, accumulate, o):
    """The gradients that `wanted` asks for by name: True for a new array, or an array to fill."""
    call = _Call(q, _raw.check_layout(o["layout"]))
    raw_q, raw_k, raw_v, raw_dout = (
        call.describe(name, x, swap=True)
        for name, x in (("q", q), ("k", k), ("v", v), ("dout", dout))
    )
    raw_options = _options(call, o)
    originals = {"dq": raw_q, "dk": raw_k, "dv": raw_v}
    originals["dbias"] = call.optional("bias", o["bias"])
    originals["dsinks"] = call.optional("sinks", o["sinks"])
    arrays, targets = {}, []
    for name, want in wanted.items():
        arrays[name], raw = None, None
        if want is True:
            original = originals[name]
            if original is None:
                raise ValueError(f"{name} needs the array that it is the gradient of")
            arrays[name], raw = call.output(name, original[1], original[3])
        elif want is not None and want is not False:
            arrays[name] = want
            raw = call.describe(name, want, name in ("dq", "dk", "dv"), write=True)
        targets.append(raw)
    _raw.backward(
        raw_dout,
        raw_q,
        raw_k,
        raw_v,
        call.optional("out", out, swap=True),
        call.optional("delta", delta),
        call.describe("lse", lse),
        call.optional("dlse", dlse),
        raw_options,
        tuple(targets),
        accumulate,
        _ALL_CORES,
    )
    finished = {}
    for name, array in arrays.items():
        new = wanted[name] is True
        finished[name] = call.finish(array, swap=name in ("dq", "dk", "dv")) if new else array
    return Gradients(**finished)


def merge(parts):
    """out and lse over the keys of all parts."""
    call = _Call(parts[0][0])
    raw_parts = [
        (call.describe("a part's out", out), call.describe("a part's lse", lse))
        for out, lse in parts
    ]
    (_, out_code, _, out_shape, _), (_, lse_code, _, lse_shape, _) = raw_parts[0]
    out, raw_out = call.output("out", out_code, out_shape)
    lse, raw_lse = call.output("lse", lse_code, lse_shape)
    _raw.merge(raw_parts, raw_out, raw_lse, _ALL_CORES)
    return call.finish(out), call.finish(lse)


def dropout_mask(q, k, v, o):
    """The weights that dropout keeps, bool [B, Hq, Sq, Sk]."""
    if not _is_numpy(q):
        raise TypeError("dropout_mask takes NumPy arrays and torch tensors")
    call = _Call(q, _raw.check_layout(o["layout"]))
    described = [call.describe(n, x, swap=True) for n, x in (("q", q), ("k", k), ("v", v))]
    shape, kept = _raw.dropout_mask(*described, _options(call, o))
    return _numpy().frombuffer(kept, bool).reshape(shape)
