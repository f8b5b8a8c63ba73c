"""attn_implementation="flash_attention_2" on a machine without a GPU: the package `kernels` finds
jhalak in a folder, and transformers treats it as flash-attn."""

import os
import subprocess
import sys

import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    DynamicCache,
    GenerationConfig,
    StaticCache,
)
from transformers.generation import ContinuousBatchingConfig
from transformers.modeling_flash_attention_utils import _flash_attention_forward

import jhalak.transformers
from jhalak import __main__ as command
from standard import judge
from tiny_models import (
    DECODERS,
    SIZES,
    agrees_with_eager,
    decoder,
    float64,
    padding,
    sharpened,
    switch,
    tokens,
)

FLASH = "flash_attention_2"


def test_the_variable_that_the_command_prints_is_enough(tmp_path, capsys):
    model, ids = decoder("llama"), tokens()
    model.save_pretrained(tmp_path)
    command.main(["local-kernels"])
    variable = capsys.readouterr().out.strip()
    program = f"""
import sys, torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained({str(tmp_path)!r}, attn_implementation={FLASH!r})
torch.save(model(torch.tensor({ids.tolist()})).logits.detach(), {str(tmp_path / "logits")!r})
assert "jhalak.flash_attn" in sys.modules and "jhalak.transformers" not in sys.modules
"""
    environment = {**os.environ, "LOCAL_KERNELS": variable}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    with torch.no_grad():
        expected = switch(model, "eager")(ids).logits
    found = torch.load(tmp_path / "logits")
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_the_variable_keeps_the_kernels_of_others(monkeypatch):
    monkeypatch.setenv("LOCAL_KERNELS", "org/other=/some/where")
    for _ in range(2):
        jhalak.transformers.use_flash_attention()
    ours = jhalak.transformers.local_kernels()
    assert os.environ["LOCAL_KERNELS"] == f"{ours}:org/other=/some/where"


def test_names_that_transformers_reads_itself_are_refused():
    with pytest.raises(ValueError, match='must not contain "flash"'):
        jhalak.transformers.register("my_flash")


@pytest.mark.parametrize("implementation", [FLASH, "flash_attention_3"])
@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_agrees(name, implementation):
    agrees_with_eager(decoder(name), {"input_ids": tokens()}, implementation)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", DECODERS)
def test_the_real_tokens_of_a_padded_batch_agree(name, side):
    mask = padding(side)
    inputs = {"input_ids": tokens(), "attention_mask": mask}
    agrees_with_eager(decoder(name), inputs, FLASH, mask.bool())


def test_bert_agrees_with_padding():
    model = sharpened(BertModel(BertConfig(**SIZES), add_pooling_layer=False))
    mask = padding("right")
    inputs = {"input_ids": tokens(), "attention_mask": mask}
    agrees_with_eager(model, inputs, FLASH, mask.bool())


@pytest.mark.parametrize("given", ["position_ids", "cu_seq_lens"])
@pytest.mark.parametrize("name", DECODERS)
def test_packed_sequences_are_what_each_is_alone(name, given):
    packing = {"position_ids": torch.cat([torch.arange(9), torch.arange(15)])[None]}
    if given == "cu_seq_lens":
        starts = torch.tensor([0, 9, 24], dtype=torch.int32)
        packing |= {"cu_seq_lens_q": starts, "cu_seq_lens_k": starts}
        packing |= {"max_length_q": 15, "max_length_k": 15}
    with float64(), torch.no_grad():
        model, ids = decoder(name).double(), tokens(1, 24)
        switch(model, "eager")
        alone = torch.cat([model(part).logits for part in ids.split([9, 15], dim=1)], 1)
        found = switch(model, FLASH)(ids, use_cache=False, **packing).logits
    torch.testing.assert_close(found, alone, atol=1e-11, rtol=1e-11)


@pytest.mark.parametrize("cache", [DynamicCache, StaticCache])
@pytest.mark.parametrize("name", DECODERS)
def test_parts_of_a_sequence_with_a_cache_give_the_logits_of_the_whole(name, cache):
    size = {"max_cache_len": 40} if cache is StaticCache else {}
    with float64(), torch.no_grad():
        model, ids, mask = decoder(name).double(), tokens(2, 24), padding("left")
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        whole = switch(model, "eager")(ids, attention_mask=mask, position_ids=positions).logits
        switch(model, FLASH)
        kept, found, end = cache(config=model.config, **size), [], 0
        # A prompt, single tokens, and a longer part after them.
        for length in (9, 1, 1, 1, 12):
            start, end = end, end + length
            part = {"attention_mask": mask[:, :end], "position_ids": positions[:, start:end]}
            found.append(model(ids[:, start:end], cache=kept, **part).logits)
    real = mask.bool()
    torch.testing.assert_close(torch.cat(found, 1)[real], whole[real], atol=1e-11, rtol=1e-11)


@pytest.mark.parametrize("pad", ["left padding", "no padding"])
@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", DECODERS)
def test_generated_tokens_are_those_of_eager_attention(name, cache, pad):
    model, ids = decoder(name), tokens(2, 12)
    mask = padding("left", 2, 12, 4) if pad == "left padding" else torch.ones_like(ids)
    options = {"attention_mask": mask, "max_new_tokens": 20, "do_sample": False}
    if cache == "static":
        options |= {"cache_implementation": "static", "disable_compile": True}
    expected = switch(model, "eager").generate(ids, **options)
    assert torch.equal(switch(model, FLASH).generate(ids, **options), expected)


@pytest.mark.parametrize("name", DECODERS)
def test_continuous_batching_in_pages_gives_the_tokens_of_eager_attention(name):
    model, prompts = decoder(name), [tokens(1, n) for n in (5, 17, 30)]
    switch(model, "eager")
    expected = [
        model.generate(prompt, max_new_tokens=12, do_sample=False)[0, prompt.shape[1] :].tolist()
        for prompt in prompts
    ]
    results = switch(model, FLASH).generate_batch(
        [prompt[0].tolist() for prompt in prompts],
        generation_config=GenerationConfig(
            max_new_tokens=12, do_sample=False, eos_token_id=-1, pad_token_id=0
        ),
        continuous_batching_config=ContinuousBatchingConfig(
            page_size=16, num_blocks=64, max_batch_tokens=32
        ),
    )
    assert [result.generated_tokens for result in results.values()] == expected


def test_transformers_call_with_a_block_table_reads_and_fills_pages():
    switch(decoder("llama"), FLASH)
    lengths, page_size, heads, dim = [5, 11], 4, 2, 8
    k_pages, v_pages = torch.randn(2, 8, page_size, heads, dim)
    table = torch.tensor([[6, 1, -1], [0, 7, 3]], dtype=torch.int32)
    before = [
        torch.stack([pages[table[b]].flatten(0, 1)[:length] for pages in (k_pages, v_pages)])
        for b, length in enumerate(lengths)
    ]
    q, k, v = torch.randn(1, 2, 4, dim), *torch.randn(2, 1, 2, heads, dim)
    found = _flash_attention_forward(
        q, k, v, None, query_length=2, is_causal=True, attn_implementation=FLASH,
        cu_seq_lens_q=torch.tensor([0, 1, 2], dtype=torch.int32),
        cu_seq_lens_k=torch.tensor([0, 6, 18], dtype=torch.int32),
        max_length_q=1, max_length_k=12, block_table=table, k_cache=k_pages, v_cache=v_pages,
    )  # fmt: skip
    for b, kept in enumerate(before):
        keys, values = torch.cat([kept, torch.stack([k[0, b], v[0, b]])[:, None]], 1)
        expected = jhalak.attention(q[:, b : b + 1], keys[None], values[None])
        torch.testing.assert_close(found[:, b : b + 1], expected)
    assert torch.equal(k_pages[1, 1], k[0, 0]) and torch.equal(v_pages[3, 3], v[0, 1])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("implementation", ["jhalak", FLASH])
def test_sixteen_bits_are_as_exact_as_eager_attention(implementation, dtype):
    model, ids = decoder("llama").to(dtype), tokens()
    with torch.no_grad():
        eager = switch(model, "eager")(ids).logits
        found = switch(model, implementation)(ids).logits
        exact = switch(model.float(), "eager")(ids).logits
    assert found.dtype == dtype
    judge(found, eager, exact)
