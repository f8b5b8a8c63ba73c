"""Generation with transformers: every cache and search gives what eager attention gives."""

import logging

import pytest
import torch
from transformers import DynamicCache, StaticCache
from transformers.utils import logging as transformers_logging

from tiny_models import DECODERS, decoder, encoder_decoder, float64, padding, switch, tokens

CACHES = {
    "dynamic": lambda config: DynamicCache(config=config),
    "static": lambda config: StaticCache(config=config, max_cache_len=40),
}


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("name", DECODERS)
def test_parts_of_a_sequence_with_a_cache_give_the_logits_of_the_whole(name, cache):
    with float64(), torch.no_grad():
        model, ids = decoder(name).double(), tokens(2, 24)
        expected = switch(model, "eager")(ids).logits
        switch(model, "jhalak")
        kept, found = CACHES[cache](model.config), []
        # A prompt, single tokens, and a longer part after them.
        for part in ids.split([9, 1, 1, 1, 12], dim=1):
            found.append(model(part, cache=kept).logits)
    torch.testing.assert_close(torch.cat(found, 1), expected, atol=1e-11, rtol=1e-11)


@pytest.mark.parametrize("pad", ["left padding", "no padding"])
@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("name", DECODERS)
def test_generated_tokens_are_those_of_eager_attention(name, cache, pad):
    model, ids = decoder(name), tokens(2, 12)
    mask = padding("left", 2, 12, 4) if pad == "left padding" else torch.ones_like(ids)
    options = {"attention_mask": mask, "max_new_tokens": 20, "do_sample": False}
    if cache == "static":
        options |= {"cache_implementation": "static", "disable_compile": True}
    expected = switch(model, "eager").generate(ids, **options)
    assert expected.shape == (2, 32) and len(expected[:, 12:].unique()) > 4
    assert torch.equal(switch(model, "jhalak").generate(ids, **options), expected)


@pytest.mark.parametrize("name", DECODERS)
def test_beam_search_finds_the_sequences_and_scores_of_eager_attention(name):
    model, ids = decoder(name), tokens(2, 12)
    options = {
        "attention_mask": padding("left", 2, 12, 4),
        "max_new_tokens": 12,
        "num_beams": 4,
        "num_return_sequences": 3,
        "do_sample": False,
        "return_dict_in_generate": True,
        "output_scores": True,
    }
    expected = switch(model, "eager").generate(ids, **options)
    found = switch(model, "jhalak").generate(ids, **options)
    assert torch.equal(found.sequences, expected.sequences)
    torch.testing.assert_close(found.sequences_scores, expected.sequences_scores)


def test_an_encoder_and_decoder_generate_the_tokens_of_eager_attention():
    model, ids, mask = encoder_decoder(), tokens(), padding("right")
    options = {"attention_mask": mask, "max_new_tokens": 16, "do_sample": False}
    expected = switch(model, "eager").generate(ids, **options)
    assert len(expected.unique()) > 4
    assert torch.equal(switch(model, "jhalak").generate(ids, **options), expected)


def test_a_compiled_forward_is_one_graph_for_every_length():
    model = switch(decoder("llama"), "jhalak")
    compiled = torch.compile(model, fullgraph=True, dynamic=True)
    with torch.no_grad():
        for ids in tokens(2, 24), tokens(3, 17):
            expected = model(ids, use_cache=False).logits
            found = compiled(ids, use_cache=False).logits
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_a_call_for_attention_weights_warns_that_there_are_none(caplog):
    model = switch(decoder("llama"), "jhalak")
    transformers_logging.enable_propagation()
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_warning()
    try:
        with caplog.at_level(logging.WARNING), torch.no_grad():
            weights = model(tokens(), output_attentions=True).attentions
    finally:
        transformers_logging.set_verbosity(verbosity)
        transformers_logging.disable_propagation()
    assert weights == ()
    assert "jhalak never has the attention weights" in caplog.text
