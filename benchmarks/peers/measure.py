"""Times one case: all peers in turn, and only samples that nobody disturbed."""

import statistics
from dataclasses import asdict, dataclass, field

from cases import Case
from machine import MOST_OF_OTHERS, Watch
from process import Crash, Worker

SAMPLES = 5
# Of a peer that takes SLOW times as long as jhalak.
SLOW_SAMPLES, SLOW = 2, 10
# A sample takes about as many seconds: the kernel counts work in ticks of 10 ms.
SAMPLE_SECONDS = 0.2
# Samples beyond those wanted that are taken when some were disturbed.
REPEATS = 5
# Seconds after which a worker counts as hanging.
PREPARE_TIMEOUT, SAMPLE_TIMEOUT = 120.0, 60.0


@dataclass
class Samples:
    """Seconds a call, of one peer."""

    once: float
    wanted: int = SAMPLES
    clean: list[float] = field(default_factory=list)
    disturbed: list[float] = field(default_factory=list)

    def is_complete(self) -> bool:
        tries = len(self.clean) + len(self.disturbed)
        return len(self.clean) >= self.wanted or tries >= self.wanted + REPEATS

    def add(self, seconds: float, others: float):
        """`others` is the share of the machine that others used meanwhile."""
        self.once = seconds
        (self.clean if others <= MOST_OF_OTHERS else self.disturbed).append(seconds)

    def result(self) -> dict:
        return {
            "seconds": statistics.median(self.clean or self.disturbed),
            "clean_samples": self.clean,
            "disturbed_samples": self.disturbed,
        }


def calls(once: float) -> int:
    """Calls that fill a sample."""
    return max(1, round(SAMPLE_SECONDS / once))


def difference(ours: dict, theirs: dict, tolerance: float) -> str | None:
    """How two peers' results differ, if they do by more than this share of the largest element."""
    for name, expected in ours.items():
        largest = max(abs(x) for x in expected)
        for mine, yours in zip(expected, theirs.get(name, []) or [None], strict=False):
            # Not equal to itself: NaN.
            if yours is None or not abs(mine - yours) <= tolerance * largest:
                return f"{name} is {yours}, jhalak's {mine:.6g}"
    return None


class Rates:
    """Seconds per FLOP of each peer so far, so that a call that would take minutes is not begun.
    Lengths are compared, head dims are not: a peer may spend its time on something else in each."""

    def __init__(self, longest_call: float):
        self.longest_call = longest_call
        self.rates: dict[tuple, float] = {}

    def learn(self, peer: str, case: Case, seconds: float):
        self.rates[self.key(peer, case)] = seconds / case.flops

    def too_slow(self, peer: str, case: Case) -> str | None:
        seconds = self.rates.get(self.key(peer, case), 0.0) * case.flops
        return f"about {seconds:.0f} s a call, by its rate" if seconds > self.longest_call else None

    def key(self, peer: str, case: Case) -> tuple:
        return peer, case.dtype, case.direction, case.head_dim


def measure(case: Case, workers: dict[str, Worker], rates: Rates) -> dict[str, dict]:
    """What each peer took, or why it is missing. The first of them, jhalak, is what the results of
    others are compared with. A worker that has crashed is left dead."""
    results: dict[str, dict] = {}
    samples: dict[str, Samples] = {}
    ours: dict = {}
    for peer, worker in workers.items():
        answer = prepared(case, peer, worker, rates)
        if "seconds" not in answer:
            results[peer] = answer
            continue
        ours = ours or answer["values"]
        if wrong := difference(ours, answer["values"], case.tolerance):
            results[peer] = {"error": wrong}
            continue
        samples[peer] = Samples(answer["seconds"])
        if answer["seconds"] > SLOW * next(iter(samples.values())).once:
            samples[peer].wanted = SLOW_SAMPLES
    results |= in_turn(samples, workers)
    for peer, worker in workers.items():
        if "seconds" in results[peer]:
            rates.learn(peer, case, results[peer]["seconds"])
        if worker.process.returncode is None:
            asked(worker, {"op": "release"}, SAMPLE_TIMEOUT)
    return {peer: results[peer] for peer in workers}


def prepared(case: Case, peer: str, worker: Worker, rates: Rates) -> dict:
    """Has a peer run once; gives its seconds and values, or why there are none."""
    if reason := rates.too_slow(peer, case):
        return {"missing": reason}
    request = {"op": "prepare", "case": asdict(case), "places": case.places()}
    answer = asked(worker, request, PREPARE_TIMEOUT)
    if "seconds" in answer:
        rates.learn(peer, case, answer["seconds"])
        if reason := rates.too_slow(peer, case):
            return {"missing": reason}
    return answer


def in_turn(samples: dict[str, Samples], workers: dict[str, Worker]) -> dict[str, dict]:
    """Takes all samples, one of each peer after the other: a disturbance then meets all of them."""
    results: dict[str, dict] = {}
    while waiting := [peer for peer in samples if peer not in results]:
        for peer in waiting:
            some = samples[peer]
            watch = Watch(worker.pid for worker in workers.values())
            request = {"op": "sample", "calls": calls(some.once)}
            answer = asked(workers[peer], request, SAMPLE_TIMEOUT)
            if "seconds" in answer:
                some.add(answer["seconds"], watch.others())
            if "seconds" not in answer:
                results[peer] = answer
            elif some.is_complete():
                results[peer] = some.result()
    return results


def asked(worker: Worker, request: dict, timeout: float) -> dict:
    try:
        return worker.ask(request, timeout)
    except Crash as crash:
        return {"error": str(crash)}
