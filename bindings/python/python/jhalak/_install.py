"""A local distribution named flash-attn that forwards to jhalak, for packages that ask for it.

transformers, diffusers and others look for a distribution of this name and its version before they
import flash_attn. The one written here consists of a few files that say: it is jhalak.
"""

import base64
import csv
import hashlib
import importlib.metadata
import io
import shutil
import sysconfig
from pathlib import Path

from jhalak import __version__

PACKAGE, DISTRIBUTION = "flash_attn", "flash-attn"
# flash-attn's version whose interface this is; the local part says who it is.
VERSION = f"2.8.3+jhalak{__version__}"
INSTALLER = "jhalak"

_INIT = '''"""flash-attn by jhalak; `python -m jhalak uninstall-flash-attn` removes it."""

import pkgutil

from jhalak.flash_attn import *
from jhalak.flash_attn import _operations

_operations.register("flash_attn")
__path__ = pkgutil.extend_path(__path__, __name__)
__version__ = "{version}"
'''
_MODULE = '''"""See jhalak.flash_attn.{name}."""

import sys

import jhalak.flash_attn.{name} as _module

sys.modules[__name__] = _module
'''
_METADATA = """Metadata-Version: 2.1
Name: {distribution}
Version: {version}
Summary: flash-attn's interface, computed by jhalak
License: MIT OR Apache-2.0
Requires-Dist: jhalak

Written by `python -m jhalak install-flash-attn`. This is not the distribution of Dao-AILab.
"""
_WHEEL = """Wheel-Version: 1.0
Generator: jhalak
Root-Is-Purelib: true
Tag: py3-none-any
"""


def _files():
    """Every file by its path in site-packages."""
    info = f"{PACKAGE}-{VERSION}.dist-info"
    files = {f"{PACKAGE}/__init__.py": _INIT.format(version=VERSION)}
    for name in ("flash_attn_interface", "bert_padding", "layers.rotary"):
        files[f"{PACKAGE}/{name.replace('.', '/')}.py"] = _MODULE.format(name=name)
    files[f"{PACKAGE}/layers/__init__.py"] = '"""See jhalak.flash_attn.layers."""\n'
    files[f"{info}/METADATA"] = _METADATA.format(distribution=DISTRIBUTION, version=VERSION)
    files[f"{info}/WHEEL"] = _WHEEL
    files[f"{info}/INSTALLER"] = f"{INSTALLER}\n"
    files[f"{info}/top_level.txt"] = f"{PACKAGE}\n"
    files[f"{info}/RECORD"] = _record(files, f"{info}/RECORD")
    return files


def _record(files, own_path):
    """The list of files with their hashes, as pip reads it to uninstall them."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    for path, text in files.items():
        digest = hashlib.sha256(text.encode()).digest()
        name = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        writer.writerow((path, f"sha256={name}", len(text.encode())))
    writer.writerow((own_path, "", ""))
    return lines.getvalue()


def _site(folder):
    return Path(folder or sysconfig.get_path("purelib"))


def _installed(site):
    """The distributions of this name in a folder, and whether each is ours."""
    found = importlib.metadata.distributions(name=DISTRIBUTION, path=[str(site)])
    return [(d, (d.read_text("INSTALLER") or "").strip() == INSTALLER) for d in found]


def install(folder=None):
    """Writes the distribution into site-packages, or `folder`; never over a real flash-attn."""
    site = _site(folder)
    for distribution, ours in _installed(site):
        if not ours:
            raise FileExistsError(
                f"flash-attn {distribution.version} is installed in {site}: it stays. "
                "Uninstall it first, or import jhalak.flash_attn instead"
            )
    uninstall(folder)
    files = _files()
    for path in files:
        if (site / path).exists():
            raise FileExistsError(f"{site / path} exists and is not jhalak's: it stays")
    for path, text in files.items():
        target = site / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return site


def uninstall(folder=None):
    """Removes what `install` wrote, and nothing else; tells whether there was anything."""
    site = _site(folder)
    removed = False
    for distribution, ours in _installed(site):
        if not ours:
            continue
        info = site / f"{PACKAGE}-{distribution.version}.dist-info"
        for file in [site / file for file in distribution.files or []]:
            file.unlink(missing_ok=True)
            for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
                compiled.unlink()
        shutil.rmtree(info, ignore_errors=True)
        for package in (site / PACKAGE / "layers", site / PACKAGE):
            for empty in (package / "__pycache__", package):
                if empty.is_dir() and not any(empty.iterdir()):
                    empty.rmdir()
        removed = True
    return removed
