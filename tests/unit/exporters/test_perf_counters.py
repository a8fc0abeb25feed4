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
from hypergauge.scheduler.profilers.perf import Perf
from hypergauge.scheduler.profilers.perf_events import EVENTS, PRESETS
from tests.support.fakes.perf import CAPTURES
from tests.support.waiting import wait_for_environment

CONTENTION = "de_no_dispatch_per_slot.smt_contention"
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
    assert counters.ratios == {"instructions_per_cycle": 1.25, "cache_miss_ratio": 0.25, "branch_miss_ratio": 0.02}
    assert counters.seconds == 1.000172905
    assert set(counters.totals) == set(EVENTS)


@pytest.mark.parametrize(
    ("lines", "totals"),
    [
        pytest.param(
            "1.0;<not supported>;;instructions;0;100.00;;\n1.0;<not counted>;;page-faults;0;100.00;;\n1.0;3;;branches;1;100.00;;\n",
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
        pytest.param("\0\xff;;;\n1.0;5\n;;;;;;\n1.0;5;;;1;1;;\n", {}, id="malformed lines"),
        pytest.param("1.0;5;;sched:sched_switch;1;100.00;;\n", {"sched:sched_switch": 5}, id="a tracepoint"),
    ],
)
def test_lines_of_perf(path: Path, lines: str, totals: dict[str, float]) -> None:
    assert read(path, HEAD + lines).totals == totals


@pytest.mark.parametrize("count", ["nan", "inf", "-inf", "-5", "1e999", "\xff", ""])
def test_a_count_that_is_no_number_costs_its_line_alone(path: Path, count: str) -> None:
    lines = [f"1.0;{value};;instructions;1;100.00;;" for value in ("5", count, "7")]
    path.write_bytes(("\n".join(lines) + "\n").encode("latin-1"))
    counters = PerfCounters(path)
    counters.read()
    assert counters.totals == {"instructions": 12}


def test_ratios_cover_the_newest_lines(path: Path) -> None:
    counters = read(path, HEAD + second(1))
    with path.open("a") as file:
        file.write(second(2, 1_000_000_000) + second(3, 3_000_000_000))
    counters.read()
    assert counters.ratios["instructions_per_cycle"] == 1.0
    assert (counters.totals["instructions"], counters.seconds) == (6.5e9, 3.000172905)
    counters.read()
    assert counters.ratios["instructions_per_cycle"] == 1.0  # until new lines arrive


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
    assert (counters.totals, counters.final(), counters.live(), counters.events()) == ({}, {}, {}, {})


def capture(name: str) -> str:
    return "".join(f"1.0;{line}\n" for line in (CAPTURES / name).read_text().splitlines())


@pytest.mark.parametrize(
    ("name", "shares"),
    [
        # Intel's are computed by hand from the counts, and AMD's are those that perf computed: see the captures' README.
        ("intel_hybrid.csv", (0.0176, 0.0196, 0.6480, 0.3148, 0.2213, None)),
        ("amd_zen4.csv", (0.810, 0.020, 0.021, 0.149, None, 0.0)),
        ("amd_zen4_memory.csv", (0.509, 0.010, 0.079, 0.401, 0.316, 0.0)),
    ],
)
def test_shares_of_slots(path: Path, name: str, shares: tuple[float | None, ...]) -> None:
    names = ("retiring", "bad_speculation", "frontend_bound", "backend_bound", "memory_bound", "smt_contention")
    wanted = {f"topdown_{name}_ratio": share for name, share in zip(names, shares, strict=True) if share is not None}
    text = capture(name)
    if CONTENTION not in text:  # it is what the shares of the original leave, and they leave nothing
        text += f"1.0;0;;{CONTENTION};0;25.00;;\n" if "ex_ret_ops" in text else ""
    counters = read(path, HEAD + text)
    assert counters.ratios == pytest.approx(wanted, abs=0.0015)
    four = [counters.ratios[f"topdown_{name}_ratio"] for name in names[:4]]
    assert sum(four) + counters.ratios.get("topdown_smt_contention_ratio", 0) == pytest.approx(1)
    assert counters.final() == {}  # slots are events without metrics of their own
    assert set(counters.events()) == set(counters.totals)


def test_slots_of_which_some_are_not_counted_have_no_shares(path: Path) -> None:
    lines = [line for line in capture("intel_hybrid.csv").splitlines() if "be-bound" not in line]
    assert read(path, HEAD + "\n".join(lines) + "\n").ratios == {}


@pytest.mark.parametrize(
    ("hits", "misses"),
    [
        ("l2_rqsts.demand_data_rd_hit", "l2_rqsts.demand_data_rd_miss"),
        ("l2_cache_req_stat.dc_hit_in_l2", "l2_cache_req_stat.ls_rd_blk_c"),
    ],
)
def test_hits_and_misses_are_loads(path: Path, hits: str, misses: str) -> None:
    counters = read(path, f"{HEAD}1.0;30;;{hits};1;100.00;;\n1.0;10;;{misses};1;100.00;;\n")
    assert counters.final() == {"l2_loads_total": 40, "l2_load_misses_total": 10}
    assert counters.ratios == {"l2_miss_ratio": 0.25}


def test_a_ratio_needs_five_percent_of_the_interval(path: Path) -> None:
    lines = "{0};8;;branches;1;100.00;;\n{0};2;;branch-misses;1;{1};;\n"
    counters = read(path, HEAD + lines.format("1.0", "4.99"))
    assert counters.live() == {"branches_total": 8, "branch_misses_total": 2}
    with path.open("a") as file:
        file.write(lines.format("2.0", "5.00"))
    counters.read()
    assert counters.live() == {"branches_total": 16, "branch_misses_total": 4, "branch_miss_ratio": 0.25}


def test_every_event_of_a_preset_has_a_metric(path: Path) -> None:
    specs = [one.events for parts in PRESETS.values() for part in parts for one in part.alternatives]
    events = {event for spec in specs for event in spec.replace("{", "").replace("}", "").split(",")}
    counters = read(path, HEAD + "".join(f"1.0;1;;{event};1;100.00;;\n" for event in events))
    slots = [name for name in counters.events() if not name.startswith(("slots", "topdown-", "de_", "ex_"))]
    assert slots == []
    assert len([name for name in counters.ratios if name.startswith("topdown_")]) == 5  # Intel's, if both are there


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


def test_events_without_a_metric_have_a_label(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "runs" / uuid.uuid4().hex)
    folder.create({})
    folder.perf.write_text(f"{HEAD}1.0;7;;minor-faults;1;100.00;;\n1.0;9;;page-faults;1;100.00;;\n")
    end = RunEnd("finished", time.time() - 2, time.time() - 0.5, 0, None, 1.0, 0, 0, 1 << 20)
    folder.write_end(end)
    lines = generate_latest(Page(tmp_path)).decode().splitlines()
    assert f'bench_process_perf_events_total{{event="minor-faults",run_id="{folder.run_id}"}} 7.0' in lines
    assert f'bench_process_page_faults_total{{run_id="{folder.run_id}"}} 9.0' in lines
    assert not [line for line in lines if 'event="page-faults"' in line]


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
