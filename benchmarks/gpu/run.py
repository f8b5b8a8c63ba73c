"""Times jhalak beside PyTorch's flash kernel (FlashAttention-2) on one NVIDIA GPU, in one run.

    python3 run.py WORKER OUT.json [--passes forward,backward] [--path portable] [--turns 3] [--ms 40]

WORKER is the program that `cargo build --release -p jhalak-cuda --example gpu_worker` makes. Each
case is timed in turns: PyTorch, jhalak, PyTorch, jhalak, ..., medians of the turns. Both write 256 MB
before each call, so that it begins with a cold cache. TFLOP/s count 4 B H S^2 D forward, half of it
for causal, 2.5 times as many backward.
"""

import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from triton.testing import do_bench

TOKENS = 16384
WIDTH = 2048
LENGTHS = [512, 1024, 2048, 4096, 8192, 16384]


class Worker:
    """jhalak, in a process of its own."""

    def __init__(self, program: str, environment: dict[str, str] | None = None) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [program], stdin=pipe, stdout=pipe, text=True, env=environment
        )

    def ask(self, **request) -> dict:
        """One request and its answer."""
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker ended at {request}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{answer['error']} at {request}")
        return answer


def torch_call(case: dict):
    """A call of PyTorch's flash kernel, forward or backward."""
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[case["dtype"]]
    shape = [case["batch"], case["heads"], case["seqlen"], case["dim"]]
    backward = case["pass"] == "backward"
    # The layout of jhalak's tensors, [B, S, H, D], seen as [B, H, S, D].
    layout = [shape[0], shape[2], shape[1], shape[3]]
    q, k, v = (
        torch.randn(layout, device="cuda", dtype=dtype).transpose(1, 2).requires_grad_(backward)
        for _ in range(3)
    )

    def forward():
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return F.scaled_dot_product_attention(q, k, v, is_causal=case["causal"])

    if not backward:
        return forward
    out = forward()
    dout = torch.randn_like(out)
    return lambda: torch.autograd.grad(out, (q, k, v), dout, retain_graph=True)


def rate(case: dict, ms: float) -> float:
    """TFLOP/s."""
    flops = 4 * case["batch"] * case["heads"] * case["seqlen"] ** 2 * case["dim"]
    flops *= (0.5 if case["causal"] else 1) * (2.5 if case["pass"] == "backward" else 1)
    return flops / ms / 1e9


def grid(worker: Worker, passes: list[str], path: str | None, turns: int, ms: float):
    """The grid of cases, jhalak beside PyTorch."""
    for pass_name in passes:
        for dim in (128, 64, 256):
            for causal in (False, True):
                for seqlen in LENGTHS:
                    case = {
                        "pass": pass_name,
                        "dtype": "bf16",
                        "batch": TOKENS // seqlen,
                        "seqlen": seqlen,
                        "heads": WIDTH // dim,
                        "dim": dim,
                        "causal": causal,
                    }
                    call = torch_call(case)
                    theirs, ours = [], []
                    for _ in range(turns):
                        theirs.append(do_bench(call, warmup=5, rep=ms, return_mode="median"))
                        torch.cuda.synchronize()
                        answer = worker.ask(what="time", ms=ms, path=path, **case)
                        ours.append(answer["ms"])
                    del call
                    fa2, jhalak = (rate(case, statistics.median(x)) for x in (theirs, ours))
                    yield case | {
                        "fa2": round(fa2, 1),
                        "jhalak": round(jhalak, 1),
                        "ratio": round(jhalak / fa2, 3),
                        "path": answer.get("path", "portable"),
                    }


def others(worker: Worker, passes: list[str], ms: float):
    """A window against full causal, Turing's kernels against Ampere's, ordered sums of dq against
    free ones, decoding, a million tokens, and the host's time."""
    long = {"dtype": "bf16", "batch": 1, "seqlen": TOKENS, "heads": 16, "dim": 128, "causal": True}
    for pass_name in passes:
        case = long | {"pass": pass_name}
        full, window = (
            worker.ask(what="time", ms=ms, window=window, **case)["ms"] for window in (None, 1023)
        )
        yield case | {"what": "window 1024", "ms": window, "full_ms": full, "share": window / full}
        for dim in (64, 128, 256):
            half = case | {"dtype": "f16", "dim": dim, "heads": WIDTH // dim, "causal": False}
            ampere, turing = (
                worker.ask(what="time", ms=ms, target=target, **half)["ms"]
                for target in (None, "sm_75")
            )
            yield half | {
                "what": "sm_75",
                "ms": turing,
                "sm_80_ms": ampere,
                "rate": ampere / turing,
            }
        if pass_name == "backward":
            free, ordered = (
                worker.ask(what="time", ms=ms, deterministic=ordered, **case)["ms"]
                for ordered in (False, True)
            )
            yield case | {"what": "deterministic", "ms": ordered, "free_ms": free}
        else:
            for seqlen in (8192, 32768, 131072):
                one = case | {"seqlen": seqlen, "queries": 1, "heads": 32, "heads_k": 8}
                answer = worker.ask(what="time", ms=ms, **one)
                read = 2 * seqlen * 8 * 128 * 2
                yield one | {"what": "decode"} | answer | {"gb_s": read / answer["ms"] / 1e6}
        million = case | {"seqlen": 1_000_000, "heads": 1, "dim": 64}
        yield million | worker.ask(what="cold", **million) | {"what": "a million tokens"}
        small = case | {"batch": 1, "seqlen": 128}
        yield small | {"what": "host"} | worker.ask(**(small | {"what": "host"}))


def first_calls(program: str, passes: list[str]):
    """The first call of a class in a process, with nothing kept on disk."""
    environment = os.environ | {"CUDA_CACHE_DISABLE": "1"}
    for pass_name in passes:
        for dim in (64, 128, 256):
            worker = Worker(program, environment)
            case = {"pass": pass_name, "dtype": "bf16", "batch": 1, "seqlen": 1024, "heads": 8}
            case |= {"dim": dim, "causal": True, "what": "cold"}
            yield case | worker.ask(**case)
            worker.process.stdin.close()
            worker.process.wait()


def main() -> None:
    """Prints a line for each case and writes them all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("worker")
    parser.add_argument("out")
    parser.add_argument("--passes", default="forward,backward")
    parser.add_argument("--path", choices=["portable"], help="the portable kernels alone")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--ms", type=float, default=40)
    arguments = parser.parse_args()
    passes = arguments.passes.split(",")
    torch.manual_seed(0)
    worker = Worker(arguments.worker)
    results = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "date": time.strftime("%Y-%m-%d"),
        "grid": [],
        "others": [],
    }
    for row in grid(worker, passes, arguments.path, arguments.turns, arguments.ms):
        results["grid"].append(row)
        print(json.dumps(row), flush=True)
        save(arguments.out, results)
    rest = itertools.chain(
        others(worker, passes, arguments.ms), first_calls(arguments.worker, passes)
    )
    for row in rest:
        results["others"].append(row)
        print(json.dumps(row), flush=True)
        save(arguments.out, results)
    for pass_name in passes:
        ratios = [row["ratio"] for row in results["grid"] if row["pass"] == pass_name]
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        results[f"{pass_name}_geomean"] = round(mean, 3)
        print(f"{pass_name}: geomean {mean:.3f}, least {min(ratios):.3f}")
    save(arguments.out, results)


def save(path: str, results: dict) -> None:
    """Writes what there is so far."""
    with open(path, "w") as file:
        json.dump(results, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    sys.exit(main())
