"""ONNX Runtime's attention operators on CPUs, f32, forward: MultiHeadAttention without a mask,
GroupQueryAttention (always causal) for causal cases and for decoding with a KV cache.

onnx_worker.py THREADS
"""

import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from onnxruntime import InferenceSession, OrtValue, SessionOptions

from worker import inputs, serve

DOMAIN = "com.microsoft"
TYPES = {"float32": TensorProto.FLOAT, "int32": TensorProto.INT32}


def session(node, feeds, outputs, threads) -> InferenceSession:
    """A model of one node."""

    def value(name, array):
        return helper.make_tensor_value_info(name, TYPES[array.dtype.name], array.shape)

    graph = helper.make_graph(
        [node],
        "attention",
        [value(name, array) for name, array in feeds.items()],
        [value(name, array) for name, array in outputs.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = SessionOptions()
    options.intra_op_num_threads = threads
    return InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])


def main(threads: str):
    def prepare(case):
        if case["dtype"] != "f32" or case["direction"] == "backward":
            raise NotImplementedError("f32 forward only")
        q, k, v, _ = inputs(case)
        decode = case["direction"] == "decode"
        out = np.zeros((1, len(q), q[0].size), np.float32)
        feeds = {"query": q.reshape(out.shape)}
        outputs = {"out": out}
        if case["causal"] or decode:
            # The last key and value are new; in decoding the others lie in the cache, whose
            # memory the operator updates in place.
            new = slice(-1, None) if decode else slice(None)
            feeds |= {
                name: x[new].reshape(1, -1, x[0].size) for name, x in [("key", k), ("value", v)]
            }
            if decode:
                caches = [np.ascontiguousarray(x.transpose(1, 0, 2)[None]) for x in (k, v)]
                feeds |= dict(zip(["past_key", "past_value"], caches, strict=True))
            else:
                caches = [np.zeros((1, x.shape[1], len(x), x.shape[2]), np.float32) for x in (k, v)]
            outputs |= dict(zip(["present_key", "present_value"], caches, strict=True))
            feeds["seqlens_k"] = np.array([len(k) - 1], np.int32)
            feeds["total_sequence_length"] = np.array(len(k), np.int32)
            past = ["past_key", "past_value"] if decode else ["", ""]
            node = helper.make_node(
                "GroupQueryAttention",
                ["query", "key", "value", *past, "seqlens_k", "total_sequence_length"],
                list(outputs),
                domain=DOMAIN,
                num_heads=case["heads"],
                kv_num_heads=case["heads_k"],
            )
        elif case["heads"] != case["heads_k"]:
            raise NotImplementedError("grouped heads are causal only")
        else:
            feeds |= {"key": k.reshape(1, len(k), -1), "value": v.reshape(1, len(v), -1)}
            node = helper.make_node(
                "MultiHeadAttention",
                list(feeds),
                list(outputs),
                domain=DOMAIN,
                num_heads=case["heads"],
            )
        model = session(node, feeds, outputs, int(threads))
        binding = model.io_binding()
        # The same memory under both names of a cache.
        values = {
            id(x): OrtValue.ortvalue_from_numpy(x) for x in [*feeds.values(), *outputs.values()]
        }
        for name, array in feeds.items():
            binding.bind_ortvalue_input(name, values[id(array)])
        for name, array in outputs.items():
            binding.bind_ortvalue_output(name, values[id(array)])
        return lambda: model.run_with_iobinding(binding), lambda: {"out": values[id(out)].numpy()}

    serve(f"onnxruntime {onnxruntime.__version__}", prepare)


main(*sys.argv[1:])
