"""PyTorch's scaled_dot_product_attention, by its flash kernel for CPUs or by plain operations; or
AMD's replacement of the flash kernel, forward only.

torch_worker.py flash|math|zentorch THREADS
"""

import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from worker import inputs, serve

BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "math": SDPBackend.MATH}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
# The score matrices of the plain operations, and copies of them, must fit in memory.
MATH_SCORES = 2**30


def main(backend: str, threads: str):
    version = f"torch {torch.__version__}"
    if backend == "zentorch":
        import zentorch

        version = f"zentorch {zentorch.__version__}, {version}"

    def prepare(case):
        def tensor(array):
            tensor = torch.from_numpy(array).transpose(0, 1)[None]
            return tensor.to(DTYPES[case["dtype"]], memory_format=torch.contiguous_format)

        def forward():
            grouped = case["heads"] != case["heads_k"]
            results["out"] = scaled_dot_product_attention(
                q, k, v, is_causal=case["causal"], enable_gqa=grouped
            )

        def zentorch_forward():
            # What its pass over compiled graphs puts in the flash kernel's place.
            results["out"], _ = torch.ops.zentorch.zentorch_sdpa(q, k, v, is_causal=case["causal"])

        def backward():
            gradients = torch.autograd.grad(results["out"], (q, k, v), dout, retain_graph=True)
            results.update(zip(["dq", "dk", "dv"], gradients, strict=True))

        def read():
            return {
                name: result[0].detach().transpose(0, 1).float().contiguous().numpy()
                for name, result in results.items()
            }

        is_backward = case["direction"] == "backward"
        if backend == "zentorch" and is_backward:
            raise NotImplementedError("forward only")
        if backend == "zentorch" and case["heads"] != case["heads_k"]:
            raise NotImplementedError("as many heads of keys as of queries")
        queries = 1 if case["direction"] == "decode" else case["seqlen"]
        scores = 4 * case["heads"] * queries * case["seqlen"]
        if backend == "math" and scores > MATH_SCORES:
            raise NotImplementedError("its score matrices are too large")
        q, k, v, dout = map(tensor, inputs(case))
        results = {}
        if backend == "zentorch":
            return zentorch_forward, read
        if not is_backward:
            return forward, read
        for tensor in (q, k, v):
            tensor.requires_grad_()
        forward()
        return backward, read

    torch.set_num_threads(int(threads))
    with sdpa_kernel(BACKENDS.get(backend, SDPBackend.FLASH_ATTENTION)):
        serve(version, prepare)


main(*sys.argv[1:])
