"""The environment in which the tests of the Python binding run.

    python3 scripts/python_env.py                 # makes it if it is missing, prints its Python
    python3 scripts/python_env.py COMMAND …       # and runs its Python with these arguments

It lies in jhalak's cache folder under the hash of the list of packages, so that a second clone
finds it, and a changed list makes a new one. jhalak itself is built from this clone each time, into
the clone's target folder, and stands before the environment's packages.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from gate_tools import cache

REPOSITORY = Path(__file__).resolve().parent.parent
BINDING = REPOSITORY / "bindings" / "python"
LOCK = BINDING / "requirements-test.txt"
OLDEST = (3, 11)


def environment() -> Path:
    """The environment's Python; installs the environment first if it is missing."""
    if sys.version_info < OLDEST:
        version = ".".join(map(str, OLDEST))
        sys.exit(f"the tests of the Python binding need Python {version} or newer: set PYTHON")
    version = "{}.{}".format(*sys.version_info)
    name = hashlib.sha256(LOCK.read_bytes() + version.encode()).hexdigest()[:16]
    folder = cache() / "python" / name
    if not (folder / "complete").exists():
        install(folder)
    return folder / "bin" / "python"


def install(folder: Path) -> None:
    """Fills the folder, and marks it complete at the end; scripts in it know where they are."""
    print(f"installing torch, transformers and more (6 GB) into {folder}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run([sys.executable, "-m", "venv", folder])
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-deps"]
    run([*pip, "--disable-pip-version-check", "--timeout", "120", "-r", LOCK])
    (folder / "complete").touch()


def build(python: Path) -> Path:
    """The package of this clone, built as a wheel and unpacked; the folder that holds it."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or REPOSITORY / "target") / "python"
    wheels, site = target / "wheels", target / "site"
    shutil.rmtree(wheels, ignore_errors=True)
    run(
        [python, "-m", "maturin", "build", "--release", "--locked", "--quiet"]
        + ["--interpreter", python, "--target-dir", target, "--out", wheels],
        cwd=BINDING,
    )
    (wheel,) = wheels.glob("jhalak-*.whl")
    shutil.rmtree(site, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def run(command: list, **options) -> None:
    """Runs a command; its failure ends this program, its output goes to stderr."""
    done = subprocess.run(list(map(str, command)), stdout=sys.stderr, **options)
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(map(str, command))}")


def main() -> int:
    """Makes the environment and the package; runs what the command line says."""
    python = environment()
    site = build(python)
    if len(sys.argv) == 1:
        print(python)
        return 0
    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(site), *([inherited] if inherited else [])])
    os.environ["JHALAK_WHEELS"] = str(site.parent / "wheels")
    return subprocess.run([str(python), *sys.argv[1:]], cwd=BINDING).returncode


if __name__ == "__main__":
    sys.exit(main())
