"""Training with transformers: dropout, activation checkpointing, a loss curve on a real text."""

from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import jhalak
from jhalak.torch._calls import draw_seed
from tiny_models import DECODERS, agrees_with_eager, decoder, outputs, tokens

TEXT = (Path(__file__).parents[3] / "LICENSE-APACHE").read_bytes()


@pytest.mark.parametrize("name", DECODERS)
def test_dropout_agrees_with_eager_attention_that_drops_the_same_weights(name, monkeypatch):
    drawn = []

    def dropout(weights, p, training):
        assert training
        batch, heads, seqlen_q, seqlen_k = weights.shape
        q, k = (
            weights.new_empty(batch, seqlen_q, heads, 1),
            weights.new_empty(batch, seqlen_k, 1, 1),
        )
        seed, offset = draw_seed().tolist()
        drawn.append((seed, offset))
        kept = jhalak.dropout_mask(q, k, k, dropout_p=p, seed=seed, offset=offset)
        return weights * kept / (1 - round(p * 65536) / 65536)

    monkeypatch.setattr(torch.nn.functional, "dropout", dropout)
    model, ids = decoder(name, attention_dropout=0.3), tokens()
    agrees_with_eager(model.train(), {"input_ids": ids})
    # Two layers, each with its own mask, in float64 and in float32.
    assert len(drawn) == 4 and len(set(drawn)) == 2


def test_a_model_in_training_drops_and_in_inference_does_not():
    model, inputs = decoder("llama", attention_dropout=0.3), {"input_ids": tokens()}
    plain = agrees_with_eager(model, inputs)
    dropped = outputs(model.train(), "jhalak", inputs)["out"]
    assert (dropped - plain).abs().max() > 0.01 * plain.abs().max()


@pytest.mark.parametrize("reentrant", [False, True])
def test_activation_checkpointing_changes_no_bit_with_dropout_too(reentrant):
    model = decoder("gemma2", attention_dropout=0.2).train()
    inputs = {"input_ids": tokens(), "use_cache": False}
    expected = outputs(model, "jhalak", inputs)
    model.activation_checkpointing_enable({"use_reentrant": reentrant})
    assert model.is_activation_checkpointing
    found = outputs(model, "jhalak", inputs)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def losses(implementation, steps=200, batch=4, length=96):
    """The loss of each step of a byte-level GPT on the text."""
    torch.manual_seed(11)
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        attn_implementation=implementation,
    )
    model = LlamaForCausalLM(config)
    assert model.config._attn_implementation == implementation
    text = torch.tensor(list(TEXT))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    found = []
    for _ in range(steps):
        starts = torch.randint(0, len(text) - length, (batch,)).tolist()
        ids = torch.stack([text[at : at + length] for at in starts])
        loss = model(ids, labels=ids, use_cache=False).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return torch.tensor(found)


def test_a_small_gpt_learns_along_the_same_curve_for_200_steps():
    eager, ours = losses("eager"), losses("jhalak")
    assert (eager - ours).abs().max() <= 1e-4
    assert ours[-20:].mean() < 0.6 * ours[0]
