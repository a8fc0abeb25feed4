"""perf counters in the exporter ``process``: totals that never fall, with perf's own timestamps."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
import time
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from hypergauge.core.files.run_folder import RunEnd, RunFolder, SupervisorState
from hypergauge.core.system.processes import end_run
from hypergauge.exporters.process import perf_counters
from hypergauge.exporters.process.exporter import ProcessExporter
from hypergauge.exporters.process.perf_counters import PerfCounters
from hypergauge.exporters.serving.registry import ExporterOptions
from hypergauge.scheduler.profilers.perf import EVENTS, Perf
from tests.support.waiting import wait_for_environment

HEAD = "# started on Sat Nov 21 16:12:19 2026\n\n"
SECOND = """\
     {second};{instructions};;instructions;1000146;100.00;1.25;insn per cycle
     {second};2000000000;;cycles;1000146;100.00;;
     {second};1000000;;LLC-loads;500072;50.00;;
     {second};250000;;LLC-load-misses;500072;50.00;25.00;of all LL-cache accesses
     {second};400000000;;branches;1000146;100.00;;
     {second};8000000;;branch-misses;1000146;100.00;2.00;of all branches
     {second};12;;context-switches;1000146;100.00;12.000;/sec
     {second};137;;page-faults;1000146;100.00;137.000;/sec
"""


def second(at: int, instructions: int = 2_500_000_000) -> str:
    return SECOND.format(second=f"{at}.000172905", instructions=instructions)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "perf.csv"


def read(path: Path, text: str) -> PerfCounters:
    path.write_text(text)
    counters = PerfCounters(path)
    counters.read()
    return counters


def test_a_second_of_a_processor(path: Path) -> None:
    counters = read(path, HEAD + second(1))
    assert counters.totals == {
        "instructions": 2.5e9, "cycles": 2e9, "LLC-loads": 1e6, "LLC-load-misses": 250e3, "branches": 400e6,
        "branch-misses": 8e6, "context-switches": 12, "page-faults": 137,
    }  # fmt: skip
    assert counters.ratios == {
        ("instructions", "cycles"): 1.25,
        ("LLC-load-misses", "LLC-loads"): 0.25,
        ("branch-misses", "branches"): 0.02,
    }
    assert counters.seconds == 1.000172905
    assert set(counters.totals) == set(EVENTS)


@pytest.mark.parametrize(
    ("lines", "totals"),
    [
        pytest.param(
            "1.0;<not supported>;;instructions;0;100.00;;\n1.0;<not counted>;;page-faults;0;100.00;;\n1.0;3;;branches;1;1;;\n",
            {"branches": 3},
            id="unsupported events of a virtual machine are left out",
        ),
        pytest.param("1,0001;1000;;cycles;1;100,00;;\n", {"cycles": 1000}, id="a locale with a decimal comma"),
        pytest.param(
            "1.0;5;;cpu_core/instructions/;1;70.00;;\n1.0;7;;cpu_atom/instructions/u;1;30.00;;\n",
            {"instructions": 12},
            id="a processor with two kinds of cores",
        ),
        pytest.param(
            "1.0;5;;instructions:u;1;100.00;;\n1.0;0;;context-switches:u;1;100.00;;\n1.0;4;;page-faults:u;1;100.00;;\n",
            {"instructions": 5, "page-faults": 4},
            id="counts of user mode, without context switches",
        ),
        pytest.param("1.0;5;;cycles;1;100.00;;\n2.0;7;;cyc", {"cycles": 5}, id="an incomplete line"),
        pytest.param("\0\xff;;;\n1.0;5\n;;;;;;\n1.0;5;;flops;1;1;;\n", {}, id="unknown lines"),
    ],
)
def test_lines_of_perf(path: Path, lines: str, totals: dict[str, float]) -> None:
    assert read(path, HEAD + lines).totals == totals


def test_ratios_cover_the_newest_lines(path: Path) -> None:
    counters = read(path, HEAD + second(1))
    with path.open("a") as file:
        file.write(second(2, 1_000_000_000) + second(3, 3_000_000_000))
    counters.read()
    assert counters.ratios["instructions", "cycles"] == 1.0
    assert (counters.totals["instructions"], counters.seconds) == (6.5e9, 3.000172905)
    counters.read()
    assert counters.ratios["instructions", "cycles"] == 1.0  # until new lines arrive


def test_a_long_file_is_read_in_parts_and_exposed_when_complete(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_counters, "_READ_BYTES", 1000)
    path.write_text(HEAD + "".join(second(at) for at in range(1, 6)))
    counters = PerfCounters(path)
    current = []
    for _ in range(4):
        counters.read()
        current.append(bool(counters.final()))
    assert current == [False, False, True, True]
    assert counters.totals["page-faults"] == 5 * 137


def test_a_run_without_perf(tmp_path: Path) -> None:
    counters = PerfCounters(tmp_path / "perf.csv")
    counters.read()
    assert (counters.totals, counters.final(), counters.live()) == ({}, {}, {})


# --- the exporter -----------------------------------------------------------------------------------------------------


class Page(Collector):
    """The exporter's exposition, parsed again."""

    def __init__(self, home: Path) -> None:
        self._exporter = ProcessExporter(ExporterOptions(home))

    def collect(self) -> list[Metric]:
        return list(self._exporter.collect())

    def read(self, run_id: str) -> dict[str, tuple[float, float]]:
        """Return values and times of a run by name without ``bench_process_``."""
        return {
            sample.name.removeprefix("bench_process_"): (sample.value, float(sample.timestamp or "nan"))
            for family in text_string_to_metric_families(generate_latest(self).decode())
            for sample in family.samples
            if sample.labels == {"run_id": run_id}
        }


def about(at: float) -> object:
    return pytest.approx(at, abs=0.002)


def test_the_exporter_dates_live_counters(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "runs" / uuid.uuid4().hex)
    folder.create({})
    process = subprocess.Popen(
        [sys.executable, "-c", "input()"], env={"BENCH_RUN_ID": folder.run_id}, stdin=subprocess.PIPE
    )
    try:
        wait_for_environment(process.pid, "BENCH_RUN_ID")
        began = time.time() - 10
        folder.write_state(SupervisorState(1, 1.0, process.pid, began))
        folder.perf.write_text(HEAD + second(1))
        page = Page(tmp_path)
        values = page.read(folder.run_id)
        assert list(values["instructions_total"]) == [2.5e9, about(began + 1)]
        assert list(values["instructions_per_cycle"]) == [1.25, about(began + 1)]
        assert (values["cache_miss_ratio"][0], values["branch_miss_ratio"][0]) == (0.25, 0.02)
        assert values["context_switches_total"][0] == 12
        with folder.perf.open("a") as file:
            file.write(second(2))
        assert list(page.read(folder.run_id)["page_faults_total"]) == [274, about(began + 2)]
        assert Page(tmp_path).read(folder.run_id)["page_faults_total"][0] == 274  # restarted
    finally:
        process.communicate()


def test_final_totals_are_exposed_after_the_end(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "runs" / uuid.uuid4().hex)
    folder.create({})
    folder.perf.write_text(HEAD + second(1))
    end = RunEnd("finished", 0.0, 0.0, 0, None, 1.0, 0, 0, 1 << 20)
    end = replace(end, started_at=time.time() - 2, ended_at=time.time() - 0.5)
    folder.write_end(end)
    values = Page(tmp_path).read(folder.run_id)
    assert values["cycles_total"][0] == 2e9
    assert math.isnan(values["cycles_total"][1]), "dated lines would be out of order to Prometheus"
    assert values["end_time_seconds"][0] == end.ended_at
    assert "instructions_per_cycle" not in values


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed: sudo apt-get install linux-perf")
def test_a_real_perf(tmp_path: Path) -> None:
    if problem := Perf().problem(sys.executable):
        pytest.skip(problem)
    run_id = uuid.uuid4().hex
    code = "b = bytearray(64 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1"
    try:
        subprocess.run(
            Perf().wrap([sys.executable, "-c", code], tmp_path, {}), check=True, env={"BENCH_RUN_ID": run_id}
        )
    finally:
        end_run(run_id, grace=0)
    counters = PerfCounters(tmp_path / "perf.csv")
    counters.read()
    assert counters.totals["page-faults"] > 64 << 20 >> 21  # at least one per huge page
    assert set(counters.totals) <= set(EVENTS)
