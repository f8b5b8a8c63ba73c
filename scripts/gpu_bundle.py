"""Builds the tests that need a GPU and puts them into a folder, with a script that runs them.

    python3 scripts/gpu_bundle.py FOLDER

The folder needs nothing else: copy it to a machine with an NVIDIA driver (same processor family,
a C library not older than this machine's) and run FOLDER/run_gpu_tests.sh there. GPU tests are the
test targets whose names begin with `gpu_`; the tests in them are marked as ignored. Beside them lie
the benchmark of `benchmarks/gpu` and its worker, which need PyTorch there.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

CARGO = os.environ.get("CARGO", "cargo")
SCRIPT = Path(__file__).parent / "run_gpu_tests.sh"
BENCHMARK = Path(__file__).parent.parent / "benchmarks" / "gpu" / "run.py"
LARGEST = 25 << 20  # bytes: the folder should be easy to send


def build(what: list[str]) -> list[Path]:
    """These programs, built with release's optimisation."""
    command = [CARGO, *what, "--release", "--message-format", "json-render-diagnostics"]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    messages = [json.loads(line) for line in lines.splitlines()]
    programs = [message.get("executable") for message in messages]
    return [Path(program) for program in programs if program]


def main() -> None:
    """Fills the folder anew, and fails if it is larger than it should be."""
    folder = Path(sys.argv[1])
    tests = ["test", "--workspace", "--all-features", "--no-run", "--test", "gpu_*"]
    programs = build(tests) + build(["build", "-p", "jhalak-cuda", "--example", "gpu_worker"])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(SCRIPT, folder)
    shutil.copy(BENCHMARK, folder / "benchmark.py")
    for program in programs:
        copy = folder / program.stem.rsplit("-", 1)[0].replace("gpu_worker", "worker")
        shutil.copy(program, copy)
        if shutil.which("strip"):
            subprocess.run(["strip", copy], check=True)
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{folder}: {len(programs)} programs, {size / (1 << 20):.1f} MiB")
    if not programs or size > LARGEST:
        sys.exit(f"expected at least one program, and at most {LARGEST >> 20} MiB")


if __name__ == "__main__":
    main()
