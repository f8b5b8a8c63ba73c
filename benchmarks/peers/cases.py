"""What is measured: shapes, dtypes and directions."""

import random
from dataclasses import dataclass, replace

SIZES = {"f32": 4, "bf16": 2, "f16": 2}
# Elements of a result that peers are compared at.
PLACES = 64


@dataclass(frozen=True)
class Case:
    """One row of the tables, but for the number of threads. The batch is 1."""

    dtype: str
    heads: int
    heads_k: int
    seqlen: int
    head_dim: int
    causal: bool = False
    direction: str = "forward"  # or backward, or decode: one query, seqlen keys

    @property
    def queries(self) -> int:
        return 1 if self.direction == "decode" else self.seqlen

    @property
    def shape(self) -> str:
        """Such as `H8 S4096 D128 causal`, as in the attention benchmark."""
        group = "" if self.heads == self.heads_k else f"/{self.heads_k}"
        mask = "causal" if self.causal else "full"
        return f"H{self.heads}{group} S{self.seqlen} D{self.head_dim} {mask}"

    @property
    def name(self) -> str:
        """What `--filter` looks in."""
        return f"{self.dtype} {self.shape} {self.direction}"

    def matches(self, words: str) -> bool:
        """Whether the name holds all these words."""
        return set(words.split()) <= set(self.name.split())

    @property
    def flops(self) -> float:
        """Those of the products that attention needs."""
        products = 10 if self.direction == "backward" else 4
        visible = 0.5 if self.causal else 1
        return products * visible * self.heads * self.queries * self.seqlen * self.head_dim

    @property
    def kv_bytes(self) -> int:
        """The keys and values: what a decoding step has to read."""
        return 2 * self.heads_k * self.seqlen * self.head_dim * SIZES[self.dtype]

    @property
    def tolerance(self) -> float:
        """How far results may lie apart, as a share of the largest element."""
        return 1e-4 if self.dtype == "f32" else 2e-2

    def places(self) -> dict[str, list[int]]:
        """Where results are compared: elements of [S, H, D], counted row by row."""
        draw = random.Random(0)
        of_q = self.heads * self.queries * self.head_dim
        of_k = self.heads_k * self.seqlen * self.head_dim
        if self.direction == "backward":
            sizes = {"dq": of_q, "dk": of_k, "dv": of_k}
        else:
            sizes = {"out": of_q}
        return {name: draw.sample(range(size), PLACES) for name, size in sizes.items()}


def both_masks(seqlen: int, head_dim: int) -> list[Case]:
    """Full and causal, f32, forward. Long sequences have fewer heads, so that a call stays short."""
    heads = min(8, 16384 // seqlen)
    full = Case("f32", heads, heads, seqlen, head_dim)
    return [full, replace(full, causal=True)]


def decode(heads: int, heads_k: int, context: int) -> list[Case]:
    case = Case("f32", heads, heads_k, context, 128, direction="decode")
    return [replace(case, dtype=dtype) for dtype in SIZES]


def all_cases(long: bool = False) -> list[Case]:
    """All of them, in the order of the tables; `long` adds sequences of 16384."""
    lengths = [128, 512, 1024, 2048, 4096, 8192] + [16384] * long
    of_128 = [case for seqlen in lengths for case in both_masks(seqlen, 128)]
    shorter = [case for case in of_128 if 512 <= case.seqlen <= 4096]
    of_64 = [case for seqlen in [512, 2048, 8192] for case in both_masks(seqlen, 64)]
    others = [case for head_dim in [32, 80, 96, 256] for case in both_masks(2048, head_dim)]
    grouped = Case("f32", 32, 8, 2048, 128, causal=True)
    cases = [*of_128, *of_64, *others, grouped]
    cases += [replace(case, dtype="bf16") for case in [*of_128, of_64[2], of_64[3], grouped]]
    cases += [replace(case, dtype="f16") for case in [*of_128[2:4], *of_128[6:8], of_64[2]]]
    backward = [*shorter, of_64[2], of_64[3], replace(grouped, seqlen=1024)]
    cases += [replace(case, direction="backward") for case in backward]
    cases += [
        replace(case, dtype=dtype, direction="backward")
        for dtype, some in [("bf16", shorter), ("f16", shorter[4:5])]
        for case in some
    ]
    for context in [4096, 32768, 131072]:
        cases += decode(32, 8, context)
    return cases + decode(1, 1, 131072)


QUICK = {
    "f32 H8 S512 D128 full forward",
    "f32 H8 S512 D128 causal forward",
    "f32 H8 S2048 D128 full forward",
    "f32 H8 S2048 D128 causal forward",
    "f32 H8 S2048 D64 full forward",
    "f32 H32/8 S2048 D128 causal forward",
    "bf16 H8 S512 D128 full forward",
    "bf16 H8 S2048 D128 causal forward",
    "f16 H8 S512 D128 full forward",
    "f32 H8 S2048 D128 full backward",
    "f32 H8 S2048 D128 causal backward",
    "f32 H32/8 S4096 D128 full decode",
    "bf16 H32/8 S32768 D128 full decode",
}
