"""A peer's side of the conversation with run.py, and the inputs that all peers share."""

import json
import sys
import time
from collections.abc import Callable

import numpy as np

# A case as run.py sends it, and the numbers of a result in the order of [S, H, D].
Case = dict
Results = dict[str, np.ndarray]
# Seconds after which a call tells enough about its duration.
LONG = 1.0


def uniform(seed: int, *shape: int) -> np.ndarray:
    """Uniform f32 numbers with the variance of 1, each a hash of its place: jhalak's benchmarks
    make the same (crates/jhalak-cpu/benches/attention/tensors.rs)."""
    x = np.arange(np.prod(shape), dtype=np.uint32)
    x ^= np.uint32(seed * 0x9E3779B9 & 0xFFFFFFFF)
    x ^= x >> 16
    x *= np.uint32(0x7FEB352D)
    x ^= x >> 15
    x *= np.uint32(0x846CA68B)
    x ^= x >> 16
    x >>= 8
    numbers = x.astype(np.float32)
    numbers *= np.float32(2**-23)
    numbers -= np.float32(1)
    numbers *= np.sqrt(np.float32(3))
    return numbers.reshape(shape)


def inputs(case: Case) -> list[np.ndarray]:
    """q, k, v and dout, all [S, H, D]."""
    queries = 1 if case["direction"] == "decode" else case["seqlen"]
    of_q = (queries, case["heads"], case["head_dim"])
    of_k = (case["seqlen"], case["heads_k"], case["head_dim"])
    return [uniform(seed, *shape) for seed, shape in enumerate([of_q, of_k, of_k, of_q], 1)]


def serve(version: str, prepare: Callable[[Case], tuple[Callable, Callable[[], Results]]]):
    """Answers requests, a line of JSON each, until there are no more. `prepare` gives the call to
    time and a function that reads its results, or raises NotImplementedError."""
    answer = {"version": version}
    call = None
    while True:
        print(json.dumps(answer), flush=True)
        line = sys.stdin.readline()
        if not line:
            return
        request = json.loads(line)
        if request["op"] == "prepare":
            # The memory of the case before goes first.
            call = read = None
            try:
                call, read = prepare(request["case"])
                # The first run also touches all memory. A long one is not repeated.
                once = seconds(call, 1)
                answer = {"seconds": once if once > LONG else seconds(call, 1)}
                results = read()
                answer["values"] = {
                    name: results[name].reshape(-1)[places].tolist()
                    for name, places in request["places"].items()
                }
            except NotImplementedError as error:
                answer = {"missing": str(error)}
            except Exception as error:  # noqa: BLE001 - the next case may work
                answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        elif request["op"] == "sample":
            answer = {"seconds": seconds(call, request["calls"])}
        else:
            call = read = None
            answer = {}


def seconds(call: Callable, calls: int) -> float:
    """Seconds a call."""
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls
