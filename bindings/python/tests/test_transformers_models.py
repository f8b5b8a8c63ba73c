"""transformers' models with random weights: jhalak's logits and gradients are eager attention's."""

import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    ViTConfig,
    ViTModel,
)

from tiny_models import (
    DECODERS,
    SIZES,
    agrees_with_eager,
    decoder,
    encoder_decoder,
    padding,
    sharpened,
    tokens,
)


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_agrees(name):
    agrees_with_eager(decoder(name), {"input_ids": tokens()})


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", DECODERS)
def test_the_real_tokens_of_a_padded_batch_agree(name, side):
    mask = padding(side)
    inputs = {"input_ids": tokens(), "attention_mask": mask}
    agrees_with_eager(decoder(name), inputs, real=mask.bool())


@pytest.mark.parametrize("name", DECODERS)
def test_packed_sequences_agree(name):
    positions = torch.cat([torch.arange(9), torch.arange(15)])[None]
    agrees_with_eager(decoder(name), {"input_ids": tokens(1, 24), "position_ids": positions})


def test_bert_agrees_with_padding():
    model = sharpened(BertModel(BertConfig(**SIZES), add_pooling_layer=False))
    mask = padding("right")
    inputs = {"input_ids": tokens(), "attention_mask": mask}
    agrees_with_eager(model, inputs, real=mask.bool())


def test_t5_agrees_in_its_position_bias_and_cross_attention():
    inputs = {
        "input_ids": tokens(),
        "attention_mask": padding("right"),
        "decoder_input_ids": tokens(2, 10),
    }
    agrees_with_eager(encoder_decoder(), inputs)


def test_vit_agrees():
    sizes = {n: size for n, size in SIZES.items() if n not in ("vocab_size",)}
    model = sharpened(
        ViTModel(ViTConfig(**sizes, image_size=32, patch_size=8), add_pooling_layer=False)
    )
    agrees_with_eager(model, {"pixel_values": torch.randn(2, 3, 32, 32)})
