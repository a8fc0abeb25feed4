"""Failing runs: their reasons, retries, and the runs beside them."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.home import GRACE, GRACEFUL, Home, Sheet, Started, open_gate, processes_of
from tests.support.waiting import HUNG_SECONDS, wait_for

pytestmark = pytest.mark.slow

HEADER = "Experiment,Workload,Name,File,Params"
LIMIT_BYTES = 700 << 20
ATTEMPTS = 5
WAITS = "{scripts}/attempts.py"


@dataclass(frozen=True)
class Scene:
    """A file that is being scheduled."""

    sheet: Sheet
    schedule: Started


@pytest.fixture(scope="module")
def scenes(home: Home) -> dict[int, Scene]:
    """Scenes by experiment, all started at once."""

    def rows(experiment: int, *rows: str) -> Sheet:
        folder = home.folder / f"failures-{experiment}"
        folder.mkdir()
        return home.sheet(folder.name, HEADER, [f"{experiment},{row.replace('{folder}', str(folder))}" for row in rows])

    later = "2,later,{scripts}/clocked.py,--seconds 0"
    files = {
        640: rows(640, f"1,flaky,{WAITS},{{folder}}/a 3 0", "1,good,{scripts}/clocked.py,--seconds 0", later),
        641: rows(641, f"1,waits,{WAITS},{{folder}}/a wait", f"1,bad,{WAITS},{{folder}}/b 3 3", later),
        642: rows(
            642,
            f"1,bad,{WAITS},{{folder}}/a 3 wait",
            f"1,waits,{WAITS},{{folder}}/b wait",
            "1,short,{scripts}/clocked.py,--seconds 1.5",
        ),
        643: rows(643, f"1,interrupted,{WAITS},{{folder}}/a 3 wait", later),
        644: rows(644, f"1,waits,{WAITS},{{folder}}/a wait", "1,bad,{scripts}/gate.py,{folder}/gate", later),
    }
    options = {
        640: ["--retries", "2", "--fail-fast"],
        641: ["--fail-fast"],
        642: ["--retries", "3", "--workload-timeout", "3"],
        643: ["--retries", "1"],
        644: ["--fail-fast"],
    }
    return {
        experiment: Scene(
            sheet,
            home.start("schedule", sheet.path, *options[experiment], through=GRACEFUL if experiment == 644 else ()),
        )
        for experiment, sheet in files.items()
    }


def ends(home: Home, experiment: int) -> list[tuple[str, int, str, str | None]]:
    """Return name, attempt, status and reason of all runs of an experiment, none of which has left a process."""
    runs = home.runs(experiment)
    assert not [process for run in runs for process in processes_of(run["run_id"])]
    return [(run["name"], run["attempt"], run["status"], run["reason"]) for run in runs]


def test_only_failed_runs_are_retried(home: Home, scenes: dict[int, Scene]) -> None:
    printed = scenes[640].schedule.wait()
    assert ends(home, 640) == [
        ("flaky", 1, "failed", "exit status 3"),
        ("flaky", 2, "finished", None),
        ("good", 1, "finished", None),
        ("later", 1, "finished", None),
    ]
    flaky, again, good, later = home.runs(640)
    assert max(flaky["ended"], good["ended"]) <= again["started"] < again["ended"] <= later["started"]
    assert scenes[640].sheet.column("Status") == ["finished"] * 3
    assert scenes[640].sheet.column("Run") == [again["run_id"], good["run_id"], later["run_id"]]
    assert "flaky (retry 1 of 2)" in printed


def test_fail_fast_ends_the_workload_and_the_schedule(home: Home, scenes: dict[int, Scene]) -> None:
    printed = scenes[641].schedule.wait(status=1)
    assert ends(home, 641) == [
        ("waits", 1, "stopped", "stopped: bad failed"),
        ("bad", 1, "failed", "exit status 3"),
    ]
    assert scenes[641].sheet.column("Status") == ["stopped", "failed", ""]
    assert "the remaining workload is not started" in printed


def test_the_time_of_a_workload_ends_all_its_runs(home: Home, scenes: dict[int, Scene]) -> None:
    scenes[642].schedule.wait(status=1)
    over = "its workload ran longer than 3 s"
    assert ends(home, 642) == [
        ("bad", 1, "failed", "exit status 3"),
        ("waits", 1, "timeout", over),
        ("short", 1, "finished", None),
    ]
    _, waits, short = home.runs(642)
    assert waits["duration"] >= 3 + 5  # deaf to the request, and then to nothing
    compared = {run["name"]: run["neighbours_changed"] for run in home.json("compare", "642")["runs"]}
    [ended] = [one for one in compared["waits"] if one["run"] == "642/1/3"]
    assert (ended["what"], ended["status"], ended["at"]) == (
        "ended",
        "finished",
        pytest.approx(short["duration"], abs=0.01),
    )
    noted = r"642/1/2: neighbours changed after .*\(642/1/3 ended, finished\)"
    assert re.search(noted, home.bench("compare", "642"))


def test_an_interrupt_ends_a_repeated_run(home: Home, scenes: dict[int, Scene]) -> None:
    [run] = home.running(643)
    assert run["attempt"] == 2
    scenes[643].schedule.interrupt()
    scenes[643].schedule.wait(status=1)
    assert ends(home, 643) == [
        ("interrupted", 1, "failed", "exit status 3"),
        ("interrupted", 2, "stopped", "stopped on request"),
    ]
    assert scenes[643].sheet.column("Status") == ["stopped", ""]


def test_two_interrupts_while_a_failure_ends_the_others_leave_nothing(home: Home, scenes: dict[int, Scene]) -> None:
    waits, _ = home.running(644, 2)
    open_gate(scenes[644].sheet.path.with_suffix("") / "gate", 3)
    wait_for(lambda: home.runs(644)[1]["status"] == "failed", "the failure")
    scenes[644].schedule.interrupt()
    time.sleep(0.5)  # two at the same moment are one
    scenes[644].schedule.interrupt()
    wait_for(lambda: not processes_of(waits["run_id"]), "its end", timeout=GRACE / 2)
    scenes[644].schedule.wait(status=1)
    assert [end[:3] for end in ends(home, 644)] == [("waits", 1, "stopped"), ("bad", 1, "failed")]


def test_a_kill_by_the_kernel_is_the_reason(home: Home) -> None:
    sheet = home.sheet("hog", HEADER, ["645,1,hog,{scripts}/hog.py,"])
    # While the kernel takes away the memory of the killed process, an allocation has it kill another process of the group
    # too: the scheduler, or even the supervisor. Then this is not the failure under test, and the run is repeated.
    for _ in range(ATTEMPTS):
        with memory_group() as group:
            enter = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
            home.start("schedule", sheet.path, "--rerun", "failed", through=enter).process.wait(HUNG_SECONDS)
            wait_for(lambda: home.runs(645)[-1]["status"] != "running", "the run's end")
            alone = kills(group) == 1
        if alone:
            break
    else:
        pytest.skip(f"the kernel killed more than one process of the group, {ATTEMPTS} times")
    run = home.runs(645)[-1]
    assert (run["status"], run["exit_code"]) == ("failed", 137)
    printed = re.fullmatch(
        r"killed by the kernel for lack of memory; the peak of its largest process was (\d+) MiB of the cgroup's 700 MiB",
        run["reason"],
    )
    assert printed, run["reason"]
    assert 100 < int(printed[1]) <= 700


@contextlib.contextmanager
def memory_group() -> Iterator[Path]:
    """Make a control group with little memory below the one of this process, where that is allowed."""
    groups = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    version_1 = next((name for _, controllers, name in groups if controllers == "memory"), None)
    if version_1 is not None:
        above, limit = Path(f"/sys/fs/cgroup/memory{version_1}"), "memory.limit_in_bytes"
    else:
        name = next((name for number, _, name in groups if number == "0"), "")
        above, limit = Path(f"/sys/fs/cgroup{name}"), "memory.max"
    group = above / f"bench-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        try:
            (group / limit).write_text(str(LIMIT_BYTES))
        except OSError as error:
            pytest.skip(f"a control group cannot limit memory here: {error}")
        yield group
    finally:
        wait_for(lambda: not (group / "cgroup.procs").read_text(), "the end of what was in the group")
        group.rmdir()


def kills(group: Path) -> int:
    """Return the number of processes that the kernel killed in a control group for lack of memory."""
    files = [file for name in ("memory.events", "memory.oom_control") if (file := group / name).exists()]
    [found] = re.findall(r"^oom_kill (\d+)$", files[0].read_text(), re.MULTILINE)
    return int(found)
