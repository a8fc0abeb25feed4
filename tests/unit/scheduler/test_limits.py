"""Memory limits in the kernel's files, below an injected root."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypergauge.scheduler.supervisor.limits import Memory

GIB = 1 << 30
HOST = {"proc/meminfo": "MemTotal:       16252928 kB\nMemFree:  1 kB\n", "proc/vmstat": "oom_kill 7\noom_kill_x 9\n"}
HOST_BYTES = 16252928 * 1024
UNLIMITED_V1 = "9223372036854771712\n"
EVENTS = "low 0\nhigh 0\nmax 12\noom 4\noom_kill {}\noom_group_kill 0\n"
CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"


def root_of(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({}, Memory(None, "host", None), id="nothing to read"),
        pytest.param(HOST, Memory(HOST_BYTES, "host", 7), id="no groups"),
        pytest.param(
            {**HOST, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cgroup.procs": ""},
            Memory(HOST_BYTES, "host", 7),
            id="version 2, in the root, which counts nothing",
        ),
        pytest.param(
            {
                **HOST,
                "proc/self/cgroup": "0::/user.slice/session.scope\n",
                "sys/fs/cgroup/user.slice/memory.max": f"{8 * GIB}\n",
                "sys/fs/cgroup/user.slice/memory.events": EVENTS.format(5),
                "sys/fs/cgroup/user.slice/session.scope/memory.max": "max\n",
                "sys/fs/cgroup/user.slice/session.scope/memory.events": EVENTS.format(2),
            },
            Memory(8 * GIB, "cgroup", 2),
            id="version 2, limited above",
        ),
        pytest.param(
            {
                **HOST,
                "proc/self/cgroup": "0::/user.slice\n",
                "sys/fs/cgroup/user.slice/memory.max": f"{64 * GIB}\n",
                "sys/fs/cgroup/user.slice/memory.events": EVENTS.format(0),
            },
            Memory(HOST_BYTES, "host", 0),
            id="a limit beyond the host's memory limits nothing",
        ),
        pytest.param(
            {
                **HOST,
                "proc/self/cgroup": "0::/\n",
                "sys/fs/cgroup/memory.max": f"{4 * GIB}\n",
                "sys/fs/cgroup/memory.events": EVENTS.format(1),
            },
            Memory(4 * GIB, "cgroup", 1),
            id="version 2, a container with a name space of its own",
        ),
        pytest.param(
            {
                **HOST,
                "proc/self/cgroup": "5:cpu,cpuacct:/docker/1f\n4:memory:/docker/1f\n1:name=systemd:/docker/1f\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2 * GIB}\n",
                "sys/fs/cgroup/memory/memory.oom_control": CONTROL.format(3),
            },
            Memory(2 * GIB, "cgroup", 3),
            id="version 1, a container that is shown its name outside",
        ),
        pytest.param(
            {
                **HOST,
                "proc/self/cgroup": "4:memory:/jobs/1\n0::/\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": UNLIMITED_V1,
                "sys/fs/cgroup/memory/jobs/memory.limit_in_bytes": f"{6 * GIB}\n",
                "sys/fs/cgroup/memory/jobs/1/memory.limit_in_bytes": UNLIMITED_V1,
                "sys/fs/cgroup/memory/jobs/1/memory.oom_control": CONTROL.format(0),
            },
            Memory(6 * GIB, "cgroup", 0),
            id="version 1 beside version 2, limited above",
        ),
        pytest.param(
            {
                **HOST,
                "proc/self/cgroup": "4:memory:/jobs\n",
                "sys/fs/cgroup/memory/jobs/memory.limit_in_bytes": UNLIMITED_V1,
                "sys/fs/cgroup/memory/jobs/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\n",
            },
            Memory(HOST_BYTES, "host", 7),
            id="a kernel whose groups do not count",
        ),
    ],
)
def test_what_limits_is_found(tmp_path: Path, files: dict[str, str], expected: Memory) -> None:
    assert Memory.read(root_of(tmp_path, files)) == expected


def test_this_host_answers() -> None:
    memory = Memory.read()
    assert memory.limit_bytes is not None
    assert memory.limit_bytes > 1 << 27


@pytest.mark.parametrize(("before", "after", "expected"), [(2, 4, 2), (2, 2, 0), (None, 4, 0), (2, None, 0), (4, 0, 0)])
def test_kills_are_counted_between_two_readings(before: int | None, after: int | None, expected: int) -> None:
    assert Memory(oom_kills=after).killed_since(Memory(oom_kills=before)) == expected
