"""Where and when a run takes place, and how much of the machine others use meanwhile."""

import datetime
import os
import platform
import re
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

# The kernel's, fixed for all that it shows to programs.
TICKS_PER_SECOND = 100
# A sample during which others use more of the machine is left out.
MOST_OF_OTHERS = 0.06


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def describe(repository: Path) -> dict:
    """What must stand next to a figure."""
    info = read("/proc/cpuinfo")
    field = {}
    for line in info.split("\n\n")[0].splitlines():
        name, _, value = line.partition(":")
        field[name.strip()] = value.strip()
    commit = answer(["git", "-C", str(repository), "rev-parse", "HEAD"])
    changes = answer(["git", "-C", str(repository), "status", "--porcelain", "-uno"])
    governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    return {
        "cpu": field.get("model name", platform.machine()),
        "vendor": field.get("vendor_id"),
        "family": field.get("cpu family"),
        "model": field.get("model"),
        "cores": cores(),
        "caches": caches(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "governor": governor.strip() or None,
        "system": f"{platform.system()} {platform.release()}",
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": commit or None,
        "uncommitted_changes": bool(changes),
    }


def caches() -> dict[str, str]:
    """Sizes of the first core's caches, such as {"L1d": "32K"}."""
    sizes = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind = read(index / "level").strip(), read(index / "type").strip()
        suffix = {"Data": "d", "Instruction": "i"}.get(kind, "")
        sizes[f"L{level}{suffix}"] = read(index / "size").strip()
    return sizes


def slug(machine: dict) -> str:
    """A name for files, such as `amd-epyc_2026-12-01`."""
    words = re.sub(r"\(R\)|\(TM\)|\bCPU\b|@.*|\bProcessor\b|\d+-Core\b", " ", machine["cpu"])
    words = re.findall(r"[a-z0-9]+", words.lower())
    return "-".join(words) + "_" + machine["date"][:10]


def read(path: str | Path) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def answer(command: list[str]) -> str:
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return result.stdout.strip()


class Watch:
    """Tells what share of the machine other programs use, from its making on."""

    def __init__(self, own: Iterable[int]):
        """`own` are the processes whose work is the benchmark's."""
        self.own = [os.getpid(), *own]
        self.start = (time.monotonic(), *self.ticks())

    def ticks(self) -> tuple[int, int]:
        own = sum(process_ticks(read(f"/proc/{pid}/stat")) for pid in self.own)
        return machine_ticks(read("/proc/stat")), own

    def others(self) -> float:
        """Their share, from 0 to 1."""
        start, everybody, own = self.start
        everybody_now, own_now = self.ticks()
        used = max(0, (everybody_now - everybody) - (own_now - own)) / TICKS_PER_SECOND
        return used / ((time.monotonic() - start) * (os.cpu_count() or 1))


def machine_ticks(stat: str) -> int:
    """Ticks that all cores have worked, by /proc/stat: user, nice, system, irq, softirq, and what
    a hypervisor gave to others. Neither idle nor waiting; guests are in user already."""
    if not stat:
        return 0
    numbers = [int(word) for word in stat.splitlines()[0].split()[1:9]]
    return sum(numbers) - sum(numbers[3:5])


def process_ticks(stat: str) -> int:
    """Ticks that a process has worked, by /proc/PID/stat: user and system, fields 14 and 15, counted
    behind the name in parentheses."""
    if not stat:
        return 0
    return sum(int(word) for word in stat.rpartition(")")[2].split()[11:13])
