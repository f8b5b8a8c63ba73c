"""transformers' models in miniature, with random weights, and how they are held to eager attention.

Eager attention in float64 is the truth; in float32 it is the yardstick of `standard.judge`. jhalak
in float64 has to agree with the truth to the last digits, which finds a wrong meaning that float32
would hide.
"""

import copy
from contextlib import contextmanager

import torch
from torch.overrides import TorchFunctionMode
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

import jhalak.transformers
from standard import judge

jhalak.transformers.register()

VOCABULARY = 61
WINDOW = 5
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
}
# Two key heads for four query heads; special tokens would end a generation at random.
DECODER = {"num_key_value_heads": 2, "head_dim": 8, "eos_token_id": None, "pad_token_id": 0}
DECODERS = {
    "llama": (LlamaForCausalLM, LlamaConfig, {}),
    "mistral": (MistralForCausalLM, MistralConfig, {"sliding_window": WINDOW}),
    "gemma2": (
        Gemma2ForCausalLM,
        Gemma2Config,
        {"sliding_window": WINDOW, "attn_logit_softcapping": 2.0, "query_pre_attn_scalar": 8},
    ),
    "gpt-oss": (
        GptOssForCausalLM,
        GptOssConfig,
        {
            "sliding_window": WINDOW,
            "num_local_experts": 2,
            "num_experts_per_tok": 1,
            # The one that can compute in float64.
            "experts_implementation": "eager",
        },
    ),
}


def decoder(name, **options):
    """A language model of this family."""
    model_class, config_class, own = DECODERS[name]
    return sharpened(model_class(config_class(**SIZES, **DECODER, **own, **options)))


def encoder_decoder():
    """T5, whose output weights are not the embedding's: that would repeat one token for ever."""
    config = T5Config(
        vocab_size=VOCABULARY,
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        eos_token_id=None,
    )
    model = T5ForConditionalGeneration(config)
    model.lm_head.weight = torch.nn.Parameter(torch.randn(VOCABULARY, 32))
    return model.eval()


def sharpened(model):
    """The model in inference mode, with scores so far apart that attention matters."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("q_proj.weight", "k_proj.weight", "query.weight", "key.weight")):
                parameter.mul_(8)
            if name.endswith("sinks"):
                parameter.normal_()
    return model.eval()


def switch(model, implementation):
    """The model with this attention; flash_attention_2 is jhalak by the package `kernels`."""
    if implementation == "flash_attention_2":
        jhalak.transformers.use_flash_attention()
    model.set_attn_implementation(implementation)
    return model


def tokens(batch=2, length=24):
    """Random tokens, none of them special."""
    return torch.randint(3, VOCABULARY, (batch, length))


def padding(side, batch=2, length=24, missing=7):
    """The attention mask of a batch whose first sequence is shorter."""
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[0, :missing] = 0
    return mask if side == "left" else mask.flip(1)


class _WideFloats(TorchFunctionMode):
    """Every float32 that a model asks for is float64."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        def widened(value):
            return torch.float64 if value is torch.float32 else value

        function = torch.Tensor.double if function is torch.Tensor.float else function
        kwargs = {name: widened(value) for name, value in (kwargs or {}).items()}
        return function(*map(widened, args), **kwargs)


@contextmanager
def float64():
    """Models compute in float64 alone, where they would go down to float32 too."""
    torch.set_default_dtype(torch.float64)
    try:
        with _WideFloats():
            yield
    finally:
        torch.set_default_dtype(torch.float32)


def outputs(model, implementation, inputs, real=None):
    """Logits, or last states, of the real tokens, and the gradient of every parameter."""
    switch(model, implementation).zero_grad()
    torch.manual_seed(7)
    result = model(**inputs)
    out = result.logits if "logits" in result else result.last_hidden_state
    out = out if real is None else out[real]
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(5), dtype=out.dtype)
    (out * weights).sum().backward()
    gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    return {"out": out.detach()} | {n: grad.clone() for n, grad in gradients.items()}


def agrees_with_eager(model, inputs, implementation="jhalak", real=None):
    """Holds logits and gradients to the rule, in float32 and in float64; returns the logits."""
    wide_model = copy.deepcopy(model).double()
    wide_inputs = {n: x.double() if x.is_floating_point() else x for n, x in inputs.items()}
    with float64():
        truth = outputs(wide_model, "eager", wide_inputs, real)
        exact = outputs(wide_model, implementation, wide_inputs, real)
    yardstick = outputs(model, "eager", inputs, real)
    found = outputs(model, implementation, inputs, real)
    assert truth.keys() == exact.keys() == yardstick.keys() == found.keys()
    assert truth["out"].dtype == torch.float64 and len(truth) > 10
    for name, expected in truth.items():
        judge(exact[name], None, expected, name=name)
        judge(found[name], yardstick[name], expected, 2 if name == "out" else 3, name)
    return found["out"]
