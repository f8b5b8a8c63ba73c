"""The examples of examples/python and of the documents run, small, and say what they promise."""

import re
import subprocess
import sys
from pathlib import Path

from tiny_models import decoder

REPOSITORY = Path(__file__).parents[3]
EXAMPLES = REPOSITORY / "examples" / "python"


def printed(name, *arguments):
    """What an example prints."""
    command = [sys.executable, EXAMPLES / name, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def trained(attention):
    """The losses of two steps, and the memory in GiB."""
    text = printed("train_small_gpt.py", "--tokens", 2048, "--steps", 2, "--attention", attention)
    losses = [float(loss) for loss in re.findall(r"loss (\S+),", text)]
    return losses, float(re.search(r"2048 tokens: (\S+) GiB", text)[1])


def test_a_small_gpt_trains_in_less_memory():
    (losses, memory), (expected, standard_memory) = trained("jhalak"), trained("standard")
    assert len(losses) == 2 and losses[1] < losses[0]
    assert all(abs(a - b) <= 1e-3 for a, b in zip(losses, expected, strict=True))
    assert memory < standard_memory / 2


def test_a_language_model_writes_text():
    text = printed("generate.py", "The capital of France is", "--tokens", 3)
    assert text.startswith("The capital of France is Paris.")
    assert "[jhalak: 3 tokens in" in text


def test_a_vision_transformer_sees_what_eager_attention_sees():
    text = printed("vit.py", "--size", 128)
    assert "eager: 65 tokens" in text and "jhalak: 65 tokens" in text
    assert float(re.search(r"difference: (\S+)", text)[1]) < 1e-4


def test_a_document_is_summarised_by_its_own_sentences():
    heading, *sentences = printed("summarise_document.py", "--sentences", 2).splitlines()
    assert re.fullmatch(r"2 of \d+ sentences of LICENSE-APACHE:", heading)
    document = " ".join((REPOSITORY / "LICENSE-APACHE").read_text().split())
    assert len(sentences) == 2
    assert all(sentence.removeprefix("- ") in document for sentence in sentences)


def test_the_programs_of_the_page_on_flash_attn_run(tmp_path):
    decoder("llama").save_pretrained(tmp_path)
    page = (REPOSITORY / "docs" / "moving-from-flash-attn.md").read_text()
    programs = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names, chosen = {"name": tmp_path}, []
    for program in programs:
        exec(program, names)
        if "model" in names:
            chosen.append(names["model"].config._attn_implementation)
    assert names["q"].grad.abs().sum() > 0
    assert chosen == ["jhalak", "kernels-community/flash-attn2"]
