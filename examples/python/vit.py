"""Looks at a large image with a vision transformer: attention over all patches, no windows.

    pip install ../../bindings/python torch transformers
    python vit.py [--size 768]

ViT-Tiny's sizes with random weights, patches of 16 × 16. Each attention runs once: eager writes
down every score between two patches, jhalak does not.
"""

import argparse
import time

import torch
from transformers import ViTConfig, ViTModel

import jhalak.transformers


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=768, help="of the image, in pixels")
    options = parser.parse_args()

    jhalak.transformers.register()
    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=192,
        intermediate_size=768,
        num_hidden_layers=12,
        num_attention_heads=3,
        image_size=options.size,
    )
    model = ViTModel(config, add_pooling_layer=False).eval()
    image = torch.randn(1, 3, options.size, options.size)
    states = {}
    for attention in ("eager", "jhalak"):
        model.set_attn_implementation(attention)
        start = time.perf_counter()
        with torch.no_grad():
            states[attention] = model(image).last_hidden_state
        seconds = time.perf_counter() - start
        print(f"{attention}: {states[attention].shape[1]} tokens in {seconds:.1f} s")
    difference = (states["jhalak"] - states["eager"]).abs().max()
    print(f"largest difference: {difference:.1e}")


if __name__ == "__main__":
    main()
