"""What the seconds mean: rates, shares of the machine's ceilings, and the table."""

import json

from cases import SIZES
from peers import TITLES

SECTIONS = [
    (f"{direction}, {dtype}", dtype, direction)
    for direction in ["forward", "backward", "decode"]
    for dtype in SIZES
]
LEGEND = (
    "Medians. In parentheses: jhalak's share of the ceiling; for others, how many times as fast as "
    "they jhalak is. `*`: other programs disturbed every sample. –: no figure, and the JSON file "
    "says why."
)


def rate(row: dict, peer: str) -> float | None:
    """GFLOP/s, or GB/s of keys and values in decoding; None where the peer has no figure."""
    seconds = row["results"].get(peer, {}).get("seconds")
    if seconds is None:
        return None
    work = row["kv_bytes"] if row["direction"] == "decode" else row["flops"]
    return work / seconds / 1e9


def ceiling(row: dict, ceilings: dict) -> float:
    """The most that this many threads can do, in the unit of `rate`. bf16 is held against the bf16
    instructions where the CPU has them; f16 has none and is held against f32's."""
    of_threads = ceilings[str(row["threads"])]
    if row["direction"] == "decode":
        return of_threads["read_bytes_per_second"] / 1e9
    if row["dtype"] == "bf16" and of_threads["bf16_gflops"]:
        return max(of_threads["bf16_gflops"], of_threads["fma_gflops"])
    return of_threads["fma_gflops"]


def share(row: dict, peer: str, ceilings: dict) -> float | None:
    reached = rate(row, peer)
    return None if reached is None else reached / ceiling(row, ceilings)


def ratio(row: dict, peer: str) -> float | None:
    """How many times as fast as the peer jhalak is."""
    ours, theirs = rate(row, "jhalak"), rate(row, peer)
    return ours / theirs if ours and theirs else None


def derive(row: dict, ceilings: dict):
    """Adds to each result what can be computed from it."""
    unit = "gbytes_per_second" if row["direction"] == "decode" else "gflops"
    for peer, result in row["results"].items():
        if "seconds" in result:
            result[unit] = rate(row, peer)
            result["share_of_ceiling"] = share(row, peer, ceilings)
            result["jhalak_is_faster_by"] = ratio(row, peer)


def written(results: dict) -> str:
    """The JSON text: what changes little on lines of its own, each row on one line."""
    before, after = json.dumps(results | {"rows": []}, indent=1).split('"rows": []')
    rows = ",\n".join(json.dumps(row) for row in results["rows"])
    return f'{before}"rows": [\n{rows}\n]{after}\n'


def markdown(results: dict) -> str:
    rows, ceilings = results["rows"], results["ceilings"]
    parts = [heading(results)]
    for threads in ceilings:
        for title, dtype, direction in SECTIONS:
            some = [
                row
                for row in rows
                if (row["dtype"], row["direction"], str(row["threads"]))
                == (dtype, direction, threads)
            ]
            if some:
                unit = "GB/s" if direction == "decode" else "GFLOP/s"
                limit = f"{ceiling(some[0], ceilings):.0f} {unit}"
                parts.append(f"## {title}, {count(int(threads))}: {unit}, of {limit}")
                parts.append(table(some, ceilings))
    return "\n\n".join(parts) + "\n"


def heading(results: dict) -> str:
    machine = results["machine"]
    caches = ", ".join(f"{name} {size}" for name, size in machine["caches"].items())
    facts = [
        f"{machine['cpu']} (family {machine['family']}, model {machine['model']})",
        f"cores: {machine['cores']}, {caches}",
        f"governor {machine['governor'] or 'unknown'}",
        machine["system"],
    ]
    commit = (machine["commit"] or "unknown")[:12]
    changes = " with changes" if machine["uncommitted_changes"] else ""
    lines = ["# jhalak and its peers on a CPU", "", "; ".join(facts) + "  "]
    lines.append(f"{machine['date']}, commit {commit}{changes}")
    lines.append("")
    lines += [f"* {TITLES[peer]}: {version}" for peer, version in results["peers"].items()]
    lines += [
        f"* {TITLES[peer]} is missing: {reason}" for peer, reason in results["unavailable"].items()
    ]
    lines += ["", "| ceilings | f32 multiply-adds | bf16 products | reads from memory |"]
    lines.append("|---|---|---|---|")
    for threads, ceilings in results["ceilings"].items():
        bf16 = ceilings["bf16_gflops"]
        bf16 = f"{bf16:.0f} GFLOP/s" if bf16 else "not in this CPU"
        read = ceilings["read_bytes_per_second"] / 1e9
        fma = ceilings["fma_gflops"]
        lines.append(f"| {count(int(threads))} | {fma:.0f} GFLOP/s | {bf16} | {read:.1f} GB/s |")
    lines += ["", LEGEND]
    return "\n".join(lines)


def count(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"


def table(rows: list[dict], ceilings: dict) -> str:
    peers = [peer for peer in TITLES if any(rate(row, peer) for row in rows)]
    lines = ["| shape | " + " | ".join(TITLES[peer] for peer in peers) + " |"]
    lines.append("|---|" + "---:|" * len(peers))
    for row in rows:
        shape = row["name"].removeprefix(row["dtype"]).removesuffix(row["direction"]).strip()
        cells = [cell(row, peer, ceilings) for peer in peers]
        lines.append(f"| {shape} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cell(row: dict, peer: str, ceilings: dict) -> str:
    reached = rate(row, peer)
    if reached is None:
        return "FAILED" if "error" in row["results"].get(peer, {}) else "–"
    star = "" if row["results"][peer]["clean_samples"] else "*"
    if peer == "jhalak":
        return f"{reached:.3g}{star} ({100 * share(row, peer, ceilings):.0f} %)"
    times = ratio(row, peer)
    return f"{reached:.3g}{star}" + (f" ({times:.2f}×)" if times else "")
