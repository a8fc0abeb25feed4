"""CPU time of processes that are ours, and of others, in a ``/proc`` of the tests."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hypergauge.core.system.other_processes import HostCpu, OtherUse

TICKS = os.sysconf("SC_CLK_TCK")
SELF = 100


@dataclass
class Proc:
    """``/proc`` of a host with two cores; times are in seconds."""

    root: Path
    busy: float = 50.0
    ended: set[int] = field(default_factory=set)

    def write(self) -> None:
        (self.root / "proc").mkdir(exist_ok=True)
        # user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice
        line = f"cpu  {round(self.busy * TICKS)} 0 0 999 999 0 0 999 0 0\n"
        (self.root / "proc/stat").write_text(line + "cpu0 1 0 0\ncpu1 1 0 0\nintr 5\n")

    def process(
        self, pid: int, own: float, *, parent: int = 1, name: str = "python3", reaped: float = 0.0, created: int = 7,
        environment: str | None = "PATH=/bin\0",
    ) -> None:  # fmt: skip
        folder = self.root / "proc" / str(pid)
        folder.mkdir(parents=True, exist_ok=True)
        fields = ["0"] * 50
        fields[0], fields[1] = "S", str(parent)
        fields[11], fields[13], fields[19] = str(round(own * TICKS)), str(round(reaped * TICKS)), str(created)
        (folder / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")
        if environment is not None:
            (folder / "environ").write_text(environment)

    def end(self, pid: int) -> None:
        for path in (self.root / "proc" / str(pid)).iterdir():
            path.unlink()
        (self.root / "proc" / str(pid)).rmdir()

    def cpu(self) -> HostCpu:
        self.write()
        return HostCpu(self.root, own=(SELF,))

    def use(self, cpu: HostCpu, busy: float) -> OtherUse:
        """Return the use in a second in which the cores were busy for `busy` seconds."""
        self.busy += busy
        self.write()
        return cpu.other_use(1.0)


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    proc = Proc(tmp_path)
    proc.process(1, 5.0, parent=0, name="init")
    proc.process(SELF, 1.0, name="bench")
    return proc


def test_other_programs_are_named_by_their_cores(proc: Proc) -> None:
    proc.process(200, 10.0, name="ffmpeg (x)")
    proc.process(201, 10.0, name="cc1plus")
    proc.process(202, 10.0, name="cc1plus")
    proc.process(203, 10.0, name="idle")
    cpu = proc.cpu()
    proc.process(200, 11.0, name="ffmpeg (x)")
    proc.process(201, 10.3, name="cc1plus")
    proc.process(202, 10.3, name="cc1plus")
    proc.process(204, 0.2, name="new")
    use = proc.use(cpu, 1.8)
    assert use.used == pytest.approx(1.8)
    assert use.cores == 2
    assert [name for name, _ in use.programs] == ["ffmpeg (x)", "cc1plus"]
    assert [cores for _, cores in use.programs] == pytest.approx([1.0, 0.6])


@pytest.mark.parametrize(
    "ours",
    [
        {"environment": f"PATH=/bin\0BENCH_RUN_ID={'a' * 32}\0"},
        {"environment": f"BENCH_SUPERVISOR={'a' * 32}\0"},
        {"environment": "PATH=/bin\0BENCH_SERVICE=1\0", "name": "postgres"},
        {"parent": SELF},
    ],
    ids=["run", "supervisor", "service", "child"],
)
def test_processes_of_ours_and_their_descendants_do_not_count(proc: Proc, ours: dict[str, object]) -> None:
    def both(seconds: float) -> None:
        proc.process(300, seconds, **ours)  # type: ignore[arg-type]
        proc.process(301, seconds, parent=300, environment=None, name="worker")
        proc.process(302, seconds, parent=301, environment=None, name="worker")

    both(2.0)
    cpu = proc.cpu()
    both(2.6)
    use = proc.use(cpu, 1.8)
    assert use.used == pytest.approx(0.0, abs=1e-9)
    assert use.programs == ()


@pytest.mark.parametrize("environment", ["BENCH_SERVICES=1\0", "WITH=BENCH_SERVICE=1\0", "MY_BENCH_RUN_ID=1\0"])
def test_similar_variables_mark_no_process(proc: Proc, environment: str) -> None:
    proc.process(200, 1.0, environment=environment, name="similar")
    cpu = proc.cpu()
    proc.process(200, 2.0, environment=environment, name="similar")
    assert [name for name, _ in proc.use(cpu, 1.0).programs] == ["similar"]


def test_an_ended_child_of_ours_counts_once(proc: Proc) -> None:
    mine = f"BENCH_RUN_ID={'a' * 32}\0"
    proc.process(300, 1.0, environment=mine)
    proc.process(301, 4.0, parent=300, environment=mine)
    cpu = proc.cpu()
    proc.end(301)
    proc.process(300, 1.0, reaped=4.5, environment=mine)
    assert proc.use(cpu, 1.5).used == pytest.approx(1.0), "half a second was the child's, one another program's"


def test_a_process_that_reuses_a_pid_has_no_earlier_time(proc: Proc) -> None:
    proc.process(200, 90.0, name="old")
    cpu = proc.cpu()
    proc.process(200, 0.4, name="new", created=900)
    use = proc.use(cpu, 0.4)
    assert use.used == pytest.approx(0.4)
    assert use.programs == ()


def test_busy_cores_without_a_visible_process_count(proc: Proc) -> None:
    """In a container, other containers' processes are not in ``/proc``."""
    cpu = proc.cpu()
    use = proc.use(cpu, 1.7)
    assert use.used == pytest.approx(1.7)
    assert use.programs == ()
    assert proc.use(cpu, 99.0).used == 2
    assert (cpu.name(1), cpu.name(4242)) == ("init", "process 4242")


def test_a_new_measurement_begins_with_restart(proc: Proc) -> None:
    cpu = proc.cpu()
    proc.use(cpu, 1.7)
    cpu.restart()
    assert proc.use(cpu, 0.2).used == pytest.approx(0.2)
