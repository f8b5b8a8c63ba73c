"""Who is measured, and how each is installed: once, outside the repository."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from machine import read

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
CARGO = os.environ.get("CARGO", "cargo")
# Settings of a user's shell that would change a peer's speed or its number of threads.
CHANGES_SPEED = tuple(
    f"{prefix}_"
    for prefix in [
        "OMP",
        "GOMP",
        "KMP",
        "MKL",
        "DNNL",
        "ONEDNN",
        "OPENBLAS",
        "BLIS",
        "ZENDNN",
        "ATEN",
        "TORCH",
        "PYTORCH",
        "ORT",
        "ZENTORCH",
        "RAYON",
        "CANDLE",
        "JHALAK",
        "MALLOC",
    ]
)
# A pip or cargo that hangs ends after this many seconds.
INSTALL_TIMEOUT = 3600

# From a number of threads to the command that starts a worker.
Command = Callable[[int], list[str]]


class Unavailable(Exception):
    """Why a peer cannot be had here."""


@dataclass(frozen=True)
class Peer:
    key: str
    title: str
    # Installs what it needs in the cache folder given.
    install: Callable[[Path], Command]


def jhalak(_cache: Path) -> Command:
    program = build(
        ["bench", "--no-run", "-p", "jhalak-cpu", "--bench", "worker"], "worker", dict(os.environ)
    )
    return lambda threads: [program, "--threads", str(threads)]


def torch(backend: str) -> Callable[[Path], Command]:
    def install(cache: Path) -> Command:
        python = environment(cache, "torch")
        return lambda threads: [python, str(HERE / "torch_worker.py"), backend, str(threads)]

    return install


def onnx(cache: Path) -> Command:
    python = environment(cache, "onnx")
    return lambda threads: [python, str(HERE / "onnx_worker.py"), str(threads)]


def zentorch(cache: Path) -> Command:
    info = read("/proc/cpuinfo")
    if "AuthenticAMD" not in info:
        raise Unavailable("it is for AMD's CPUs")
    if "avx512f" not in info:
        raise Unavailable("without AVX-512 it runs PyTorch's own kernel")
    python = environment(cache, "zentorch")
    return lambda threads: [python, str(HERE / "torch_worker.py"), "zentorch", str(threads)]


def candle(cache: Path) -> Command:
    # It chooses its instructions when it is compiled.
    flags = {"RUSTFLAGS": "-C target-cpu=native", "CARGO_TARGET_DIR": str(cache / "candle")}
    manifest = str(HERE / "candle" / "Cargo.toml")
    program = build(
        ["build", "--release", "--locked", "--manifest-path", manifest],
        "candle-worker",
        os.environ | flags,
    )
    return lambda threads: [program]


PEERS = [
    Peer("jhalak", "jhalak", jhalak),
    Peer("torch", "PyTorch flash", torch("flash")),
    Peer("torch-math", "PyTorch math", torch("math")),
    Peer("onnx", "ONNX Runtime", onnx),
    Peer("zentorch", "zentorch", zentorch),
    Peer("candle", "candle", candle),
]
TITLES = {peer.key: peer.title for peer in PEERS}


def environment(cache: Path, name: str) -> str:
    """A virtual environment with the packages of requirements-NAME.txt; gives its Python."""
    folder, wanted = cache / name, HERE / f"requirements-{name}.txt"
    python, installed = folder / "bin" / "python", folder / "installed.txt"
    if read(installed) != wanted.read_text():
        progress(f"installing {name} in {folder}")
        run([sys.executable, "-m", "venv", str(folder)], dict(os.environ))
        install = [str(python), "-m", "pip", "install", "--quiet", "-r", str(wanted)]
        run(install, dict(os.environ))
        installed.write_text(wanted.read_text())
    return str(python)


def build(arguments: list[str], target: str, environment: dict[str, str]) -> str:
    """Runs cargo; gives the path of the program with this name."""
    progress(f"building {target}")
    output = run([CARGO, *arguments, "--quiet", "--message-format=json"], environment)
    for line in output.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["target"]["name"] == target:
            return message["executable"]
    raise Unavailable(f"cargo made no {target}")


def run(command: list[str], environment: dict[str, str]) -> str:
    """The output of a command; its errors go to the terminal."""
    try:
        result = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=REPOSITORY,
            timeout=INSTALL_TIMEOUT,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{command[0]} failed: {error}") from None
    return result.stdout


def worker_environment(threads: int) -> dict[str, str]:
    """Without what would change a peer's speed, and with the number of threads for those that take
    it from there."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(CHANGES_SPEED)}
    return kept | {"OMP_NUM_THREADS": str(threads), "RAYON_NUM_THREADS": str(threads)}


def progress(text: str):
    print(text, file=sys.stderr, flush=True)
