"""jhalak and its peers side by side on this CPU, in shares of what the machine can do.

    make bench-cpu
    make bench-cpu ARGS="--quick --peers torch,onnx"

Writes OUT.json after each case, and at the end OUT.md and OUT_1t.svg, OUT_2t.svg, … beside it.
benchmarks/README.md says how the figures are taken. Needs nothing beyond Python's standard library.
"""

import argparse
import json
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path

import cases
import machine
from measure import SAMPLE_TIMEOUT, Rates, asked, measure
from peers import PEERS, REPOSITORY, TITLES, Command, Unavailable, progress, worker_environment
from plot import plot
from process import Crash, Worker
from report import derive, markdown, written

# Importing a peer may read a gigabyte from the disk.
START_TIMEOUT = 180.0
# A peer that crashes more often, with one number of threads, is left out.
MOST_CRASHES = 3
# No single call may take longer.
LONGEST_CALL, LONGEST_QUICK_CALL = 2.0, 1.0


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Times jhalak and its peers on this CPU.", prog="make bench-cpu"
    )
    parser.add_argument("--quick", action="store_true", help="thirteen cases, two to three minutes")
    parser.add_argument("--long", action="store_true", help="also sequences of 16384")
    parser.add_argument(
        "--filter", default="", metavar="WORDS", help='such as "bf16 D128 causal": all of them'
    )
    parser.add_argument(
        "--peers",
        default=",".join(TITLES),
        metavar="LIST",
        help=f"beside jhalak; of {', '.join(TITLES)}",
    )
    parser.add_argument("--threads", default="1,2", metavar="LIST", help="numbers of threads")
    parser.add_argument(
        "--out", type=Path, metavar="PATH", help="without suffix; benchmarks/results/peers_…"
    )
    parser.add_argument(
        "--resume", action="store_true", help="keep the cases that OUT.json already has"
    )
    chosen = parser.parse_args()
    chosen.peers = {"jhalak", *chosen.peers.split(",")}
    if unknown := chosen.peers - set(TITLES):
        parser.error(f"no such peer: {', '.join(sorted(unknown))}")
    try:
        chosen.threads = [int(count) for count in chosen.threads.split(",")]
    except ValueError:
        parser.error("--threads takes numbers, such as 1,2")
    chosen.cases = [case for case in cases.all_cases(chosen.long) if case.matches(chosen.filter)]
    if chosen.quick:
        chosen.cases = [case for case in chosen.cases if case.name in cases.QUICK]
    if not chosen.cases:
        parser.error("no case is left to measure")
    return chosen


class Run:
    """The results so far, and the workers that make them."""

    def __init__(self, chosen: argparse.Namespace):
        self.cache = cache_folder()
        self.longest_call = LONGEST_QUICK_CALL if chosen.quick else LONGEST_CALL
        here = machine.describe(REPOSITORY)
        folder = REPOSITORY / "benchmarks" / "results"
        self.out = chosen.out or folder / f"peers_{machine.slug(here)}"
        self.out.parent.mkdir(parents=True, exist_ok=True)
        self.results = {
            "machine": here,
            "peers": {},
            "unavailable": {},
            "ceilings": {},
            "rows": [],
        }
        if chosen.resume:
            self.resume(here)
        self.commands: dict[str, Command] = {}
        self.workers: dict[str, Worker] = {}
        self.crashes: dict[str, int] = {}

    def path(self, suffix: str) -> Path:
        return self.out.with_name(self.out.name + suffix)

    def resume(self, here: dict):
        if not self.path(".json").exists():
            return
        before = json.loads(self.path(".json").read_text())
        for key in ["cpu", "cores", "commit"]:
            if before["machine"][key] != here[key]:
                sys.exit(f"{self.path('.json')} is of another {key}: it cannot be gone on with")
        self.results = before

    def install(self, wanted: set[str]):
        for peer in PEERS:
            if peer.key not in wanted:
                continue
            try:
                self.commands[peer.key] = peer.install(self.cache)
                self.results["unavailable"].pop(peer.key, None)
            except Unavailable as reason:
                progress(f"without {peer.title}: {reason}")
                self.results["unavailable"][peer.key] = str(reason)
        if "jhalak" not in self.commands:
            sys.exit("jhalak itself is needed")

    def start(self, threads: int):
        """Starts the workers that do not run."""
        for peer, command in self.commands.items():
            worker = self.workers.get(peer)
            if worker and worker.process.returncode is None:
                continue
            if worker:
                self.crashes[peer] = self.crashes.get(peer, 0) + 1
            self.workers.pop(peer, None)
            if self.crashes.get(peer, 0) >= MOST_CRASHES:
                continue
            try:
                log = self.cache / "logs" / f"{peer}.log"
                environment = worker_environment(threads)
                worker = Worker(command(threads), environment, log, START_TIMEOUT)
            except (Crash, OSError) as reason:
                progress(f"without {TITLES[peer]}: {reason}")
                self.results["unavailable"][peer] = f"does not start: {reason}"
                self.crashes[peer] = MOST_CRASHES
                continue
            self.workers[peer] = worker
            self.results["peers"][peer] = worker.greeting["version"]
        # Always in the same order, jhalak first, also after a restart.
        self.workers = {peer: self.workers[peer] for peer in TITLES if peer in self.workers}
        if "jhalak" not in self.workers:
            sys.exit("jhalak's worker does not run")

    def stop(self):
        for worker in self.workers.values():
            worker.kill()
        self.workers, self.crashes = {}, {}

    def measure(self, threads: int, chosen: list[cases.Case]):
        """All cases with this number of threads."""
        done = {row["name"] for row in self.results["rows"] if row["threads"] == threads}
        chosen = [case for case in chosen if case.name not in done]
        if not chosen:
            return
        rates = Rates(self.longest_call)
        self.start(threads)
        self.take_ceilings(threads)
        for number, case in enumerate(chosen, 1):
            self.start(threads)
            results = measure(case, self.workers, rates)
            row = {"name": case.name, "threads": threads, **asdict(case)}
            row |= {"flops": case.flops, "kv_bytes": case.kv_bytes, "results": results}
            self.results["rows"].append(row)
            self.save()
            progress(f"{threads} thread(s) {number}/{len(chosen)}  {case.name}: {brief(results)}")
        self.start(threads)
        self.take_ceilings(threads)
        self.stop()
        self.save()

    def take_ceilings(self, threads: int):
        """Before and after: the larger counts, since other work on the machine only takes away."""
        now = asked(self.workers["jhalak"], {"op": "ceilings"}, SAMPLE_TIMEOUT)
        best = self.results["ceilings"].setdefault(str(threads), {})
        for name, rate in now.items():
            if name != "error":
                best[name] = max(rate, best.get(name) or 0) if rate else best.get(name)

    def save(self):
        """The new file takes the old one's place in one step."""
        for row in self.results["rows"]:
            derive(row, self.results["ceilings"])
        part = self.path(".json.part")
        part.write_text(written(self.results))
        part.replace(self.path(".json"))

    def write(self):
        """The table and the plots."""
        table = markdown(self.results)
        self.path(".md").write_text(table)
        print(table)
        for threads in self.results["ceilings"]:
            picture = plot(self.results, int(threads))
            if picture:
                self.path(f"_{threads}t.svg").write_text(picture)
        progress(f"written: {self.path('.json')} and what is beside it")


def cache_folder() -> Path:
    named = os.environ.get("JHALAK_BENCH_CACHE")
    return Path(named).resolve() if named else Path.home() / ".cache" / "jhalak-bench"


def brief(results: dict[str, dict]) -> str:
    parts = []
    for peer, result in results.items():
        if "seconds" in result:
            star = "" if result["clean_samples"] else "*"
            parts.append(f"{peer} {1e3 * result['seconds']:.3g} ms{star}")
        elif "error" in result:
            parts.append(f"{peer} FAILED: {result['error']}")
    return ", ".join(parts)


def main():
    chosen = options()
    run = Run(chosen)
    run.install(chosen.peers)
    # Stopped workers must not outlive this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended; --resume goes on"))
    try:
        for threads in chosen.threads:
            if threads > machine.cores():
                progress(f"{threads} threads are left out: there are {machine.cores()} cores")
                continue
            run.measure(threads, chosen.cases)
    except KeyboardInterrupt:
        progress("interrupted; --resume goes on")
    finally:
        run.stop()
    if run.results["rows"]:
        run.write()


if __name__ == "__main__":
    main()
