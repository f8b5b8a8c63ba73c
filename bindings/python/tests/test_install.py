"""`python -m jhalak install-flash-attn`: other packages find jhalak under the name flash-attn."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import jhalak

PACKAGES = str(Path(jhalak.__file__).parent.parent)


def python(*arguments, site=None):
    """A fresh Python that finds jhalak, and the packages in `site`."""
    path = os.pathsep.join([PACKAGES] + ([str(site)] if site else []))
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def install(site, verb="install-flash-attn"):
    return python("-m", "jhalak", verb, "--folder", site)


def succeed(code, site):
    done = python("-c", code, site=site)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def site(tmp_path):
    """A folder of packages with jhalak's flash-attn in it."""
    done = install(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "is jhalak now" in done.stdout
    return tmp_path


def test_its_metadata_is_that_of_a_distribution_of_jhalaks_version(site):
    code = """
import importlib.metadata as m
print(m.version("flash-attn"), m.version("flash_attn"), m.packages_distributions()["flash_attn"])
print(m.distribution("flash-attn").metadata["Summary"], m.requires("flash-attn"))
"""
    first, second = succeed(code, site).splitlines()
    version = f"2.8.3+jhalak{jhalak.__version__}"
    assert first == f"{version} {version} ['flash-attn']"
    assert second == "flash-attn's interface, computed by jhalak ['jhalak']"


def test_importing_it_gives_jhalaks_functions_and_torch_its_operations(site):
    code = """
import flash_attn, inspect, torch
from flash_attn import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache
from flash_attn.bert_padding import index_first_axis, pad_input, unpad_input
from flash_attn.flash_attn_interface import (
    _flash_attn_forward, _wrapped_flash_attn_backward, _wrapped_flash_attn_forward)
from flash_attn.layers.rotary import RotaryEmbedding, apply_rotary_emb
import jhalak.flash_attn
assert flash_attn_func is jhalak.flash_attn.flash_attn_func
q = torch.randn(1, 5, 2, 8)
out = torch.ops.flash_attn._flash_attn_forward(q, q, q, 0.0, 0.5, True, -1, -1, 0.0, None, False)[0]
assert torch.equal(out, flash_attn_func(q, q, q, softmax_scale=0.5, causal=True))
print(flash_attn.__version__)
"""
    assert succeed(code, site) == f"2.8.3+jhalak{jhalak.__version__}"


def test_transformers_takes_it_for_flash_attn_where_there_is_a_gpu(site):
    code = """
import torch
torch.cuda.is_available = lambda: True
from transformers.utils import is_flash_attn_2_available
from transformers.modeling_flash_attention_utils import _lazy_imports
print(is_flash_attn_2_available(), _lazy_imports("flash_attention_2")[0].__module__)
"""
    assert succeed(code, site) == "True jhalak.flash_attn.flash_attn_interface"


def test_a_check_of_specification_and_version_as_diffusers_makes_it_passes(site):
    code = """
import importlib.metadata, importlib.util
from packaging import version
assert importlib.util.find_spec("flash_attn") is not None
found = version.parse(version.parse(importlib.metadata.version("flash_attn")).base_version)
assert found >= version.parse("2.6.3")
from flash_attn import flash_attn_func, flash_attn_varlen_func
import flash_attn.flash_attn_interface as private
private._wrapped_flash_attn_backward, private._wrapped_flash_attn_forward
print("available")
"""
    assert succeed(code, site) == "available"


def test_another_distribution_of_the_namespace_is_found_beside_it(tmp_path):
    (tmp_path / "flash_attn" / "cute").mkdir(parents=True)
    (tmp_path / "flash_attn" / "cute" / "__init__.py").write_text("NAME = 'cute'\n")
    assert install(tmp_path).returncode == 0
    code = "import flash_attn.cute as c, flash_attn; flash_attn.flash_attn_func; print(c.NAME)"
    assert succeed(code, tmp_path) == "cute"
    assert install(tmp_path, "uninstall-flash-attn").returncode == 0
    left = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.py"))
    assert left == ["flash_attn/cute/__init__.py"]


def test_uninstalling_removes_everything_that_was_written(site):
    succeed("import flash_attn.layers.rotary, flash_attn.bert_padding", site)
    done = install(site, "uninstall-flash-attn")
    assert done.returncode == 0, done.stderr
    assert list(site.iterdir()) == []
    again = install(site, "uninstall-flash-attn")
    assert again.returncode != 0 and "not installed" in again.stderr


def test_installing_twice_is_installing_once(site):
    before = {p: p.read_bytes() for p in site.rglob("*") if p.is_file()}
    assert install(site).returncode == 0
    assert {p: p.read_bytes() for p in site.rglob("*") if p.is_file()} == before


def test_a_real_flash_attn_is_never_overwritten_or_removed(tmp_path):
    info = tmp_path / "flash_attn-2.8.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: flash-attn\nVersion: 2.8.3\n")
    (info / "INSTALLER").write_text("pip\n")
    (info / "RECORD").write_text("flash_attn/__init__.py,,\n")
    package = tmp_path / "flash_attn"
    package.mkdir()
    (package / "__init__.py").write_text("REAL = True\n")
    done = install(tmp_path)
    assert done.returncode != 0 and "flash-attn 2.8.3 is installed" in done.stderr
    assert install(tmp_path, "uninstall-flash-attn").returncode != 0
    assert (package / "__init__.py").read_text() == "REAL = True\n"


def test_a_module_without_metadata_is_not_overwritten_either(tmp_path):
    package = tmp_path / "flash_attn"
    package.mkdir()
    (package / "__init__.py").write_text("OTHER = True\n")
    done = install(tmp_path)
    assert done.returncode != 0 and "is not jhalak's: it stays" in done.stderr
    assert (package / "__init__.py").read_text() == "OTHER = True\n"


def test_pip_lists_and_uninstalls_it(tmp_path):
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    inside = environment / "bin" / "python"
    (site,) = environment.glob("lib/python*/site-packages")
    variables = {**os.environ, "PYTHONPATH": PACKAGES}
    subprocess.run([inside, "-m", "jhalak", "install-flash-attn"], env=variables, check=True)
    assert (site / "flash_attn" / "__init__.py").exists()
    pip = [sys.executable, "-m", "pip", "--python", str(inside), "--disable-pip-version-check"]
    listed = subprocess.run([*pip, "list"], capture_output=True, text=True, check=True).stdout
    assert f"2.8.3+jhalak{jhalak.__version__}" in listed
    subprocess.run([*pip, "uninstall", "--yes", "flash-attn"], check=True, capture_output=True)
    assert [p.name for p in site.iterdir() if "flash" in p.name] == []
