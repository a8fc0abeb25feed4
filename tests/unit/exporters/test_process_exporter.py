"""Resource usage of runs, with real processes: totals equal the kernel's, and never fall."""

from __future__ import annotations

import os
import re
import subprocess
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest

from hypergauge.core.files.run_folder import SupervisorState
from hypergauge.core.system.processes import end_run
from hypergauge.exporters.process import usage
from hypergauge.exporters.process.cgroup_limits import CgroupLimits
from hypergauge.exporters.process.exporter import ProcessExporter
from hypergauge.exporters.serving.registry import ExporterOptions
from hypergauge.exporters.serving.text import render
from hypergauge.scheduler.profilers.perf_events import EVENTS
from tests.support.exporters.golden import check_golden
from tests.support.exporters.process import BURN, END, TOTALS, Page, Start, folder, watch
from tests.support.waiting import wait_for

# 3 s in total: 2 % of it exceed /proc's truncation, four times a tick of 0.01 s.
CHURN = """
for _ in range(200):
    if (pid := os.fork()) == 0:
        burn(0.015)
        os._exit(0)
    os.waitpid(pid, 0)
say(used())
sys.stdin.read()
"""

# The child uses the CPU in a session of its own; its parent dies without waiting for it.
ORPHAN = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(0.3)
        burn(0.4)
        os._exit(0)
    os._exit(0)
os.wait()
time.sleep(60)
"""

WRITER = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        file = os.open({file!r}, os.O_WRONLY | os.O_CREAT)
        os.write(file, bytes(1 << 20))
        os.fsync(file)
        time.sleep(0.5)
    os._exit(0)
os.wait()
time.sleep(60)
"""

# It uses the CPU for 0.3 s outside the run, and prints its children's CPU time after it has waited for an orphan.
SUPERVISOR = """
import ctypes, os, resource, subprocess, sys, time
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0
environment = {**os.environ, "BENCH_RUN_ID": os.environ["BENCH_SUPERVISOR"]}
del environment["BENCH_SUPERVISOR"]
end = time.thread_time() + 0.3
while time.thread_time() < end: pass
root = subprocess.Popen([sys.executable, "-c", sys.argv[1]], env=environment, stdin=subprocess.DEVNULL)
while os.wait()[0] != root.pid:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(usage.ru_utime + usage.ru_stime, flush=True)
"""

LIVE = TOTALS | {
    "start_time_seconds",
    "peak_memory_bytes",
    "resident_memory_bytes",
    "proportional_memory_bytes",
    "threads",
    "processes",
    "available_cores",
}


def test_the_cpu_time_of_200_short_lived_children_equals_getrusage(page: Page, python: Start, run_id: str) -> None:
    process = python(BURN + CHURN, BENCH_RUN_ID=run_id)
    samples = watch(page, run_id, process)
    process.communicate()
    assert len(samples) > 10
    for name in sorted(TOTALS):
        values = [sample[name] for sample in samples]
        assert values == sorted(values), f"{name} fell"
    assert samples[-1]["cpu_seconds_total"] == pytest.approx(samples[-1]["own"], rel=0.02)


def test_all_metrics_of_a_live_run(page: Page, python: Start, run_id: str, tmp_path: Path) -> None:
    folder(tmp_path, run_id).write_state(SupervisorState(1, 2.0, root_pid=3, started_at=1.75e9))
    process = python(
        "import threading\nx = bytearray(50_000_000)\nthreading.Thread(target=input).start()\nprint(1, flush=True)",
        BENCH_RUN_ID=run_id,
    )
    assert process.stdout is not None
    process.stdout.readline()
    found, timestamps = page.read(run_id)
    found.pop("memory_limit_bytes", None)  # present where a control group limits memory
    assert found.keys() == LIVE
    assert 0 < found["available_cores"] <= len(os.sched_getaffinity(0))
    assert timestamps == {None}
    assert found["start_time_seconds"] == 1.75e9
    assert found["processes"] == 1
    assert found["threads"] == 2
    assert 50e6 < found["proportional_memory_bytes"] <= found["resident_memory_bytes"] * 1.05 < 100e6
    assert found["peak_memory_bytes"] == found["proportional_memory_bytes"]
    process.communicate(b"\n")
    assert page.read(run_id) == ({}, set()), "vanished without an end: no longer exposed"


def test_all_metrics_of_a_profiled_run_and_of_its_end(
    python: Start, run_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The golden exposition has each value as 1: values depend on this host."""
    run_folder = folder(tmp_path, run_id)
    run_folder.write_state(SupervisorState(1, 2.0, root_pid=3, started_at=1.75e9))
    run_folder.perf.write_text("".join(f"1.000172905;1000;;{event};1000146;100.00;;\n" for event in EVENTS))
    process = python("print(1, flush=True); input()", BENCH_RUN_ID=run_id)
    assert process.stdout is not None
    process.stdout.readline()
    group = tmp_path / "root/sys/fs/cgroup/user"
    group.mkdir(parents=True)
    (group / "memory.max").write_text(str(1 << 30))
    (group / "cgroup.controllers").write_text("memory")
    (tmp_path / f"root/proc/{process.pid}").mkdir(parents=True)
    (tmp_path / f"root/proc/{process.pid}/cgroup").write_text("0::/user\n")
    monkeypatch.setattr(usage, "CgroupLimits", partial(CgroupLimits, tmp_path / "root"))
    page = Page(ProcessExporter(ExporterOptions(home=tmp_path, own_runs=True)))
    live = render(page.collect())
    end_run(run_id, grace=0)
    run_folder.write_end(replace(END, ended_at=time.time()))
    for name, exposition in (("process", live), ("process-ended", render(page.collect()))):
        text = exposition.decode().replace(run_id, "0" * 32)
        text = re.sub(r"^.*bench_services_.*\n", "", text, flags=re.MULTILINE)  # this machine may have a stack
        check_golden(name, re.sub(r"^(\w\S*) .*$", r"\1 1", text, flags=re.MULTILINE))


def test_the_cpu_time_of_services_is_that_of_no_run_and_of_no_other_program(python: Start, tmp_path: Path) -> None:
    exporter = ProcessExporter(ExporterOptions(home=tmp_path, own_runs=True))

    def services() -> float:
        found = [family.samples for family in exporter.collect() if family.name == "bench_services_cpu_seconds"]
        return sum(sample.value for samples in found for sample in samples)

    before = services()
    process = python(BURN + "burn(0.5)\nsay(used())\nsys.stdin.read()", BENCH_SERVICE="1")
    assert process.stdout is not None
    used = float(process.stdout.readline())
    # Other stacks of this machine may use more.
    wait_for(lambda: services() - before >= used - 0.02)
    process.communicate()
    assert services() - before >= used - 0.02, "it stays when the process has ended"


def test_proportional_memory_follows_allocations(page: Page, python: Start, run_id: str) -> None:
    process = python(
        "import sys\nx = None\nfor line in sys.stdin:\n"
        "    x = bytearray(int(line)) if int(line) else None\n    print(1, flush=True)",
        BENCH_RUN_ID=run_id,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    sizes = []
    for size in (0, 80_000_000, 0):
        process.stdin.write(b"%d\n" % size)
        process.stdin.flush()
        process.stdout.readline()
        sizes.append(page.read(run_id)[0]["proportional_memory_bytes"])
    assert sizes[1] - sizes[0] == pytest.approx(80e6, rel=0.05)
    assert sizes[2] == pytest.approx(sizes[0], abs=4e6)
    assert page.read(run_id)[0]["peak_memory_bytes"] == sizes[1]
    process.communicate()


def test_an_orphan_reaped_by_the_supervisor_belongs_to_the_run(page: Page, python: Start, run_id: str) -> None:
    process = python(SUPERVISOR, BURN + ORPHAN, BENCH_SUPERVISOR=run_id)
    samples = watch(page, run_id, process)
    root = samples[-1]["cpu_seconds_total"] - samples[-1]["own"]
    assert samples[-1]["own"] > 0.4
    assert -0.03 < root < 0.2, "the supervisor's own 0.3 s do not belong to the run; /proc counts in ticks of 0.01 s"
    assert max(sample["processes"] for sample in samples) == 2
    end_run(run_id)
    process.communicate()


def test_totals_of_unreaped_processes_are_kept(page: Page, python: Start, run_id: str) -> None:
    """Neither process is an ancestor of the other, so no process inherits the ended one's usage."""
    burner = python(BURN + "burn(0.35); say(used()); sys.stdin.read()", BENCH_RUN_ID=run_id)
    stayer = python(BURN + "say(used()); sys.stdin.read()", BENCH_RUN_ID=run_id)
    watch(page, run_id, stayer)
    before = watch(page, run_id, burner)[-1]["cpu_seconds_total"]
    burner.communicate()
    after, _ = page.read(run_id)
    stayer.communicate()
    assert before >= 0.3
    assert after["cpu_seconds_total"] == pytest.approx(before, abs=0.03)
    assert after["cpu_seconds_total"] >= before
    assert after["processes"] == 1


def test_storage_of_orphans_reaped_by_the_supervisor_is_kept(
    page: Page, python: Start, run_id: str, tmp_path: Path
) -> None:
    process = python(SUPERVISOR, WRITER.format(file=str(tmp_path / "file")), BENCH_SUPERVISOR=run_id)
    samples = watch(page, run_id, process)
    written = [sample["written_bytes_total"] for sample in samples if "written_bytes_total" in sample]
    end_run(run_id)
    process.communicate()
    if not max(written):
        pytest.skip("the file system of the test's folder counts no bytes written, as one in memory")
    assert written == sorted(written)
    assert written[-1] == pytest.approx(1 << 20, rel=0.1)


def test_own_runs_excludes_runs_of_another_home(python: Start, run_id: str, tmp_path: Path) -> None:
    page = Page(ProcessExporter(ExporterOptions(home=tmp_path, own_runs=True)))
    process = python("print(1, flush=True); input()", BENCH_RUN_ID=run_id)
    assert process.stdout is not None
    process.stdout.readline()
    assert page.read(run_id)[0] == {}
    folder(tmp_path, run_id)
    assert page.read(run_id)[0]["processes"] == 1


def test_processes_with_a_cleared_environment_are_counted(run_id: str, tmp_path: Path) -> None:
    # Its own runs alone: other tests have such processes at the same time.
    page = Page(ProcessExporter(ExporterOptions(home=tmp_path, own_runs=True)))
    folder(tmp_path, run_id)
    environment = {**os.environ, "BENCH_RUN_ID": run_id}
    process = subprocess.Popen(["sh", "-c", "env -i sleep 60; :"], env=environment)
    # Not scanned before: until its exec, its environment is the shell's.
    wait_for(lambda: [one for one in psutil.Process(process.pid).children() if one.name() == "sleep"], "the child")
    try:
        assert page.by_tree() == 1
        assert page.read(run_id)[0]["processes"] == 2
        other = Page(ProcessExporter(ExporterOptions(home=tmp_path / "other", own_runs=True)))
        assert other.by_tree() == 0
    finally:
        end_run(run_id)
        process.wait()
