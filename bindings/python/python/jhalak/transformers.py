"""jhalak in Hugging Face transformers, on any device that jhalak has.

    import jhalak.transformers

    jhalak.transformers.register()
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="jhalak")

Under this name everything works: padding, windows, softcap, sinks, position bias, any float dtype.
`use_flash_attention()` takes the other way: attn_implementation="flash_attention_2" is then jhalak,
on a machine without a GPU too, with what transformers does for flash attention alone (packed
sequences without padding).
"""

import os
from pathlib import Path

import jhalak

# What transformers loads where flash_attention_2 is asked for and not installed; the second for
# models with attention sinks.
_HUB_NAMES = ("kernels-community/flash-attn2", "kernels-community/vllm-flash-attn3")
_VARIABLE = "LOCAL_KERNELS"


def register(name="jhalak"):
    """Makes `attn_implementation=name` mean jhalak. Names with "flash" in them are not free."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    if "flash" in name:
        raise ValueError(f'name must not contain "flash", which transformers reads, but is {name}')
    AttentionInterface.register(name, attention_forward)
    AttentionMaskInterface.register(name, sdpa_mask)


def attention_forward(
    module,
    query,
    key,
    value,
    attention_mask,
    dropout=0.0,
    scaling=None,
    is_causal=None,
    position_bias=None,
    softcap=None,
    s_aux=None,
    **kwargs,
):
    """transformers' attention function: q [B, Hq, Sq, D], k, v [B, Hk, Sk, D] to [B, Sq, Hq, D].

    The mask is that of `sdpa_mask`: bool, or None where `is_causal` says all. Windows are in the
    mask.
    """
    if kwargs.get("output_attentions"):
        _warn_once(
            "jhalak never has the attention weights as a whole: output_attentions gives none"
        )
    if query.shape[0] != key.shape[0]:
        # Learned queries are the same for the whole batch.
        query = query.expand(key.shape[0], -1, -1, -1)
    causal = module.is_causal if is_causal is None and hasattr(module, "is_causal") else is_causal
    causal = query.shape[2] > 1 and attention_mask is None and causal is not False
    mask, bias = None, position_bias
    if attention_mask is not None:
        if attention_mask.dtype.is_floating_point:
            bias = attention_mask if bias is None else bias + attention_mask
        else:
            mask = attention_mask.bool()
    if bias is not None:
        bias = bias.to(query.dtype)
    out = jhalak.attention(
        query.transpose(1, 2),
        key.transpose(1, 2),
        value.transpose(1, 2),
        scale=scaling,
        causal=causal,
        # Without a mask, transformers' causal is from the top left: the unused keys of a static
        # cache lie behind the queries.
        q_start=0 if causal else None,
        softcap=softcap or 0.0,
        bias=bias,
        mask=mask,
        sinks=None if s_aux is None else s_aux.to(query.dtype),
        dropout_p=dropout,
    )
    return out, None


def _warn_once(message):
    from transformers.utils import logging

    logging.get_logger("transformers").warning_once(message)


def local_kernels():
    """The value of LOCAL_KERNELS that makes transformers' flash attention jhalak."""
    folder = Path(__file__).parent / "hub_kernel"
    return ":".join(f"{name}={folder}" for name in _HUB_NAMES)


def use_flash_attention():
    """Makes `attn_implementation="flash_attention_2"` mean jhalak, where flash-attn is missing.

    Sets LOCAL_KERNELS for this process, which the package `kernels` reads. Call it before a model
    is made. For other processes: export LOCAL_KERNELS="$(python -m jhalak local-kernels)".
    """
    others = [
        entry
        for entry in os.environ.get(_VARIABLE, "").split(":")
        if entry and entry.partition("=")[0] not in _HUB_NAMES
    ]
    os.environ[_VARIABLE] = ":".join([local_kernels(), *others])
