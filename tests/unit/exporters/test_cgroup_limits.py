"""Limits of a run, with real processes and the kernel's files below an injected root."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypergauge.core.system.processes import ProcessStat, read_stat
from hypergauge.exporters.process.cgroup_limits import CgroupLimits

GIB = 1 << 30
CORES = len(os.sched_getaffinity(0))


def stat(pid: int, seconds: float = 1.0) -> ProcessStat:
    found = read_stat(pid)
    assert found is not None
    return found._replace(own_seconds=seconds)


def kernel(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def pinned() -> Iterator[int]:
    """Process restricted to one core."""
    one = min(os.sched_getaffinity(0))
    process = subprocess.Popen([sys.executable, "-c", f"import os; os.sched_setaffinity(0, {{{one}}}); print(1, flush=True); input()"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.communicate(b"\n")


def test_cores_are_those_of_the_affinity(pinned: int) -> None:
    limits = CgroupLimits()

    def cores(*living: ProcessStat) -> float | None:
        limits.update(living)
        return limits.cores

    assert cores() is None
    assert cores(stat(pinned)) == 1
    assert cores(stat(pinned), stat(os.getpid())) == CORES
    assert cores(stat(pinned, seconds=20.0), stat(os.getpid(), seconds=1.0)) == 1, (
        "limits of idle processes do not count"
    )


@pytest.mark.parametrize(
    ("files", "cores", "memory"),
    [
        pytest.param({"group": "0::/\n", "sys/fs/cgroup/cgroup.procs": ""}, CORES, None, id="no limit"),
        pytest.param(
            {
                "group": "0::/jobs/1\n",
                "sys/fs/cgroup/jobs/cpu.max": "50000 100000\n",
                "sys/fs/cgroup/jobs/memory.max": f"{4 * GIB}\n",
                "sys/fs/cgroup/jobs/1/cpu.max": "max 100000\n",
                "sys/fs/cgroup/jobs/1/memory.max": f"{8 * GIB}\n",
            },
            0.5,
            4 * GIB,
            id="version 2, limited above",
        ),
        pytest.param(
            {
                "group": "4:memory:/jobs\n2:cpu,cpuacct:/jobs\n",
                "sys/fs/cgroup/cpu/jobs/cpu.cfs_quota_us": "25000\n",
                "sys/fs/cgroup/cpu/jobs/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/memory/jobs/memory.limit_in_bytes": "9223372036854771712\n",
            },
            0.25,
            None,
            id="version 1",
        ),
        pytest.param(
            {"group": "2:cpu:/\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"},
            CORES,
            None,
            id="version 1 without a quota",
        ),
        pytest.param({"group": "0::/\n", "sys/fs/cgroup/cpu.max": "6400000 100000\n"}, CORES, None, id="a quota of more cores than exist"),
    ],
)  # fmt: skip
def test_control_groups_limit_cores_and_memory(
    tmp_path: Path, files: dict[str, str], cores: float, memory: int | None
) -> None:
    root = kernel(tmp_path, {f"proc/{os.getpid()}/cgroup": files.pop("group"), **files})
    limits = CgroupLimits(root)
    limits.update([stat(os.getpid())])
    assert (limits.cores, limits.memory_bytes) == (cores, memory)


def test_different_groups_add_up_and_a_shared_one_counts_once(tmp_path: Path, pinned: int) -> None:
    both = {f"proc/{os.getpid()}/cgroup": "0::/a\n", f"proc/{pinned}/cgroup": "0::/b\n"}
    apart = {"sys/fs/cgroup/a/memory.max": "100\n", "sys/fs/cgroup/b/memory.max": "200\n"}
    one = {"sys/fs/cgroup/memory.max": "50\n", "sys/fs/cgroup/a/cpu.max": "max\n", "sys/fs/cgroup/b/cpu.max": "max\n"}
    for name, files, memory in (("apart", apart, 300), ("together", one, 50)):
        limits = CgroupLimits(kernel(tmp_path / name, both | files))
        limits.update([stat(os.getpid()), stat(pinned)])
        assert limits.memory_bytes == memory
