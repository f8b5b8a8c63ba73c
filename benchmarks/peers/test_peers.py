"""The driver's pure parts, without any peer: `python3 -m unittest discover benchmarks/peers`."""

import json
import sys
import unittest
import xml.etree.ElementTree as xml
from dataclasses import replace
from pathlib import Path

import machine
import measure
import report
from cases import PLACES, QUICK, Case, all_cases
from plot import plot
from process import Crash, Worker

CEILINGS = {"fma_gflops": 100.0, "bf16_gflops": None, "read_bytes_per_second": 20e9}
MACHINE = {
    "cpu": "A & B <CPU>",
    "family": "1",
    "model": "2",
    "cores": 2,
    "caches": {"L1d": "32K"},
    "governor": None,
    "system": "Linux",
    "date": "2026-12-01T00:00:00Z",
    "commit": None,
    "uncommitted_changes": False,
}


def row(case: Case, threads: int = 1, **seconds: float) -> dict:
    results = {
        peer: {"seconds": time, "clean_samples": [time], "disturbed_samples": []}
        for peer, time in seconds.items()
    }
    facts = {"name": case.name, "threads": threads, "flops": case.flops, "kv_bytes": case.kv_bytes}
    return vars(case) | facts | {"results": results}


def results(*rows: dict) -> dict:
    versions = {"jhalak": "0.1", "torch": "2"}
    return {
        "machine": MACHINE,
        "peers": versions,
        "unavailable": {"candle": "no cargo"},
        "ceilings": {"1": CEILINGS},
        "rows": list(rows),
    }


class Cases(unittest.TestCase):
    def test_names_are_unique_and_the_quick_ones_exist(self):
        names = [case.name for case in all_cases(long=True)]
        self.assertEqual(len(names), len(set(names)))
        self.assertLessEqual(QUICK, {case.name for case in all_cases()})

    def test_a_causal_case_counts_half_and_a_backward_pass_two_and_a_half_times(self):
        forward = Case("f32", 8, 8, 1024, 64)
        self.assertEqual(forward.flops, 4 * 8 * 1024 * 1024 * 64)
        self.assertEqual(Case("f32", 8, 8, 1024, 64, causal=True).flops, forward.flops / 2)
        backward = Case("f32", 8, 8, 1024, 64, direction="backward")
        self.assertEqual(backward.flops, forward.flops * 2.5)

    def test_decoding_reads_the_keys_and_values_of_its_own_heads(self):
        case = Case("bf16", 32, 8, 4096, 128, direction="decode")
        self.assertEqual(case.kv_bytes, 2 * 2 * 8 * 4096 * 128)
        self.assertEqual(case.flops, 4 * 32 * 4096 * 128)

    def test_places_are_the_same_each_time_and_inside_the_results(self):
        for case in all_cases():
            places = case.places()
            self.assertEqual(places, case.places())
            for name, some in places.items():
                of_q = name in ("out", "dq")
                rows, heads = (case.queries, case.heads) if of_q else (case.seqlen, case.heads_k)
                self.assertEqual(len(set(some)), PLACES)
                self.assertLess(max(some), rows * heads * case.head_dim)

    def test_a_filter_takes_whole_words(self):
        case = Case("f32", 8, 8, 1024, 128)
        self.assertTrue(case.matches("D128 f32"))
        self.assertFalse(case.matches("D12"))
        self.assertTrue(case.matches(""))


class CleanSamples(unittest.TestCase):
    def test_disturbed_samples_are_repeated_and_do_not_count(self):
        some = measure.Samples(1.0, wanted=2)
        for seconds, others in [(9.0, 0.5), (1.0, 0.0), (8.0, 0.07), (2.0, 0.06)]:
            self.assertFalse(some.is_complete())
            some.add(seconds, others)
        self.assertTrue(some.is_complete())
        self.assertEqual(some.result()["seconds"], 1.5)
        self.assertEqual(some.result()["disturbed_samples"], [9.0, 8.0])

    def test_repeats_are_bounded_and_then_disturbed_samples_are_better_than_none(self):
        some = measure.Samples(1.0)
        tries = 0
        while not some.is_complete():
            some.add(3.0, 1.0)
            tries += 1
        self.assertEqual(tries, measure.SAMPLES + measure.REPEATS)
        self.assertEqual(some.result()["seconds"], 3.0)
        self.assertEqual(some.result()["clean_samples"], [])

    def test_a_sample_has_at_least_one_call(self):
        self.assertEqual(measure.calls(1000.0), 1)
        self.assertEqual(measure.calls(measure.SAMPLE_SECONDS / 8), 8)

    def test_the_kernels_ticks_leave_out_idling_and_guests(self):
        stat = "cpu  1 2 4 1000 2000 8 16 32 500 600\ncpu0 1\n"
        self.assertEqual(machine.machine_ticks(stat), 63)
        name = "7 (a ) b) R " + " ".join(str(n) for n in range(4, 30))
        self.assertEqual(machine.process_ticks(name), 14 + 15)
        self.assertEqual(machine.process_ticks(""), 0)

    def test_only_calls_that_would_take_too_long_are_left_out(self):
        rates = measure.Rates(longest_call=5.0)
        small, large = (Case("f32", 8, 8, seqlen, 64) for seqlen in [1024, 4096])
        self.assertIsNone(rates.too_slow("candle", large))
        rates.learn("candle", small, 1.0)
        self.assertIsNone(rates.too_slow("candle", small))
        self.assertIn("16 s", rates.too_slow("candle", large))
        self.assertIsNone(rates.too_slow("torch", large))
        self.assertIsNone(rates.too_slow("candle", replace(large, head_dim=128)))


class Comparison(unittest.TestCase):
    def test_results_may_differ_by_the_tolerance_only(self):
        self.assertIsNone(measure.difference({"out": [1.0, -2.0]}, {"out": [1.0, -2.0001]}, 1e-4))
        for wrong in [[1.0, -2.1], [1.0, float("nan")], [None, -2.0], []]:
            with self.subTest(wrong):
                found = measure.difference({"out": [1.0, -2.0]}, {"out": wrong}, 1e-4)
                self.assertIn("out is", found)

    def test_a_missing_tensor_is_a_difference(self):
        self.assertIsNotNone(measure.difference({"dq": [1.0]}, {"out": [1.0]}, 1e-4))


class Report(unittest.TestCase):
    def test_shares_and_ratios_follow_from_the_seconds(self):
        case = Case("f32", 8, 8, 1024, 64)
        some = row(case, jhalak=case.flops / 50e9, torch=case.flops / 25e9)
        report.derive(some, {"1": CEILINGS})
        self.assertAlmostEqual(some["results"]["jhalak"]["share_of_ceiling"], 0.5)
        self.assertAlmostEqual(some["results"]["torch"]["gflops"], 25)
        self.assertAlmostEqual(some["results"]["torch"]["jhalak_is_faster_by"], 2)

    def test_decoding_is_held_against_the_bandwidth(self):
        case = Case("f16", 1, 1, 4096, 128, direction="decode")
        some = row(case, jhalak=case.kv_bytes / 10e9)
        self.assertAlmostEqual(report.share(some, "jhalak", {"1": CEILINGS}), 0.5)

    def test_bf16_is_held_against_bf16_instructions_where_there_are_any(self):
        some = row(Case("bf16", 8, 8, 1024, 64), jhalak=1.0)
        self.assertEqual(report.ceiling(some, {"1": CEILINGS}), 100)
        self.assertEqual(report.ceiling(some, {"1": CEILINGS | {"bf16_gflops": 200.0}}), 200)

    def test_the_file_is_json_with_a_line_for_each_row(self):
        some = results(*(row(Case("f32", 8, 8, seqlen, 64), jhalak=1.0) for seqlen in [64, 128]))
        text = report.written(some)
        self.assertEqual(json.loads(text), some)
        self.assertEqual(sum('"seqlen"' in line for line in text.splitlines()), 2)
        self.assertEqual(json.loads(report.written(results())), results())

    def test_the_table_marks_what_is_disturbed_failed_or_missing(self):
        case = Case("f32", 8, 8, 1024, 64)
        some = row(case, jhalak=case.flops / 50e9, torch=case.flops / 25e9)
        some["results"]["torch"]["clean_samples"] = []
        some["results"]["onnx"] = {"error": "out is nan"}
        some["results"]["candle"] = {"missing": "too slow"}
        other = row(Case("f32", 8, 8, 512, 64), jhalak=1.0, onnx=1.0, candle=1.0)
        table = report.markdown(results(some, other))
        self.assertIn("| H8 S1024 D64 full | 50 (50 %) | 25* (2.00×) | FAILED | – |", table)
        self.assertIn("candle is missing: no cargo", table)


class Plot(unittest.TestCase):
    def test_the_picture_is_xml_with_a_line_for_each_peer_and_panel(self):
        rows = []
        for seqlen in [512, 1024]:
            for causal in [False, True]:
                case = Case("f32", 8, 8, seqlen, 128, causal)
                rows.append(row(case, jhalak=case.flops / 50e9, torch=case.flops / 25e9))
        picture = plot(results(*rows), 1)
        root = xml.fromstring(picture)
        lines = [path for path in root.findall(".//{*}path") if path.get("fill") == "none"]
        self.assertEqual(len(lines), 4)
        self.assertIn("A & B <CPU>", "".join(root.itertext()))

    def test_without_rows_there_is_no_picture(self):
        self.assertIsNone(plot(results(), 1))
        self.assertIsNone(plot(results(row(Case("f32", 8, 8, 512, 64), jhalak=1.0)), 1))


class Conversation(unittest.TestCase):
    def worker(self, program: str) -> Worker:
        log = Path("/dev/null")
        return Worker([sys.executable, "-u", "-c", program], {}, log, timeout=20)

    def test_a_worker_answers_and_is_stopped_in_between(self):
        worker = self.worker("print('{}')\nfor line in iter(input, ''): print(line)")
        self.addCleanup(worker.kill)
        self.assertEqual(worker.ask({"op": "sample"}, 20), {"op": "sample"})
        state = Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()[0]
        self.assertEqual(state, "T")

    def test_an_end_and_a_silence_are_crashes(self):
        for program in [
            "print('{}')\ninput()",
            "print('{}')\ninput()\nimport time\ntime.sleep(60)",
        ]:
            worker = self.worker(program)
            with self.assertRaises(Crash):
                worker.ask({}, 0.5)
            self.assertIsNotNone(worker.process.returncode)

    def test_one_case_with_a_good_a_wrong_and_a_crashing_peer(self):
        program = """
import json
print("{}")
for line in iter(input, ""):
    request = json.loads(line)
    if request["op"] == "prepare":
        out = [%f] * len(request["places"]["out"])
        print(json.dumps({"seconds": 0.1, "values": {"out": out}}))
    else:
        print(json.dumps({"seconds": 0.1} if request["op"] != "sample" else %s))
"""
        answers = {
            "jhalak": (1.0, '{"seconds": 0.1}'),
            "torch": (1.0, '{"seconds": 0.2}'),
            "onnx": (2.0, '{"seconds": 0.1}'),
            "candle": (1.0, "exit(3)"),
        }
        workers = {peer: self.worker(program % answer) for peer, answer in answers.items()}
        for worker in workers.values():
            self.addCleanup(worker.kill)
        case = Case("f32", 8, 8, 512, 64)
        found = measure.measure(case, workers, measure.Rates(longest_call=5.0))
        self.assertEqual(found["jhalak"]["seconds"], 0.1)
        self.assertEqual(found["torch"]["seconds"], 0.2)
        self.assertEqual(found["onnx"], {"error": "out is 2.0, jhalak's 1"})
        self.assertIn("it has ended with 3", found["candle"]["error"])


if __name__ == "__main__":
    unittest.main()
