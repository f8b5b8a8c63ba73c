"""Trains a small GPT on a context of 32,768 tokens, on a CPU, in memory that grows linearly.

    pip install ../../bindings/python torch
    python train_small_gpt.py [--tokens 32768] [--steps 1] [--attention jhalak|standard]

Two layers, four heads of 32, bytes as tokens, positions by ALiBi. The text is the manual that comes
with Python. Standard attention is here to compare with, on shorter contexts.
"""

import argparse
import pydoc_data.topics
import resource
import time

import torch
from torch import nn
from torch.nn import functional as F

import jhalak

LAYERS, HEADS, HEAD_DIM = 2, 4, 32
WIDTH = HEADS * HEAD_DIM
SLOPES = torch.tensor([2.0 ** -(8 * (head + 1) / HEADS) for head in range(HEADS)])


def jhalak_attention(q, k, v):
    """Causal attention on [B, S, H, D], tile by tile."""
    return jhalak.attention(q, k, v, causal=True, alibi_slopes=SLOPES)


def standard_attention(q, k, v):
    """The same with every score written down: H · S² numbers, and as many for the backward."""
    position = torch.arange(q.shape[1])
    distance = position[:, None] - position
    scores = torch.einsum("bihd,bjhd->bhij", q, k) * HEAD_DIM**-0.5
    scores = scores - SLOPES[:, None, None] * distance.abs()
    weights = scores.masked_fill(distance < 0, -torch.inf).softmax(-1)
    return torch.einsum("bhij,bjhd->bihd", weights, v)


ATTENTION = {"jhalak": jhalak_attention, "standard": standard_attention}


class Block(nn.Module):
    """Attention, then a feed-forward network."""

    def __init__(self, attention):
        super().__init__()
        self.attention = attention
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, HEADS, HEAD_DIM)).unbind(2)
        x = x + self.out(self.attention(q, k, v).flatten(2))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=32768, help="length of the context")
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--attention", choices=ATTENTION, default="jhalak")
    options = parser.parse_args()

    text = "\n".join(pydoc_data.topics.topics.values()).encode()[: options.tokens + 1]
    ids = torch.tensor(list(text))[None]
    inputs, targets = ids[:, :-1], ids[:, 1:]

    torch.manual_seed(0)
    blocks = [Block(ATTENTION[options.attention]) for _ in range(LAYERS)]
    model = nn.Sequential(nn.Embedding(256, WIDTH), *blocks, nn.Linear(WIDTH, 256))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    before = peak()
    for step in range(options.steps):
        start = time.perf_counter()
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {loss.item():.4f}, {time.perf_counter() - start:.1f} s")
    gib = LAYERS * HEADS * inputs.shape[1] ** 2 * 4 / 2**30
    print(f"{options.attention} attention, {inputs.shape[1]} tokens: {peak() - before:.2f} GiB")
    print(f"standard attention keeps {gib:.2f} GiB of weights for the backward")


def peak():
    """The most memory that this process has had, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    main()
