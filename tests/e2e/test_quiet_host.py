"""Other programs on the host: named before runs start, and waited for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.conftest import NewFolder
from tests.support.home import Home

pytestmark = pytest.mark.slow


@pytest.fixture
def home(new_folder: NewFolder) -> Iterator[Home]:
    folder = new_folder()
    # Any use counts, so that these tests do not depend on the load.
    with Home(folder / "home", folder / "work", {"BENCH_QUIET_CORES": "0"}).stack() as home:
        yield home


@pytest.fixture
def stranger() -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"], env={}) as process:
        yield
        process.kill()


@pytest.mark.usefixtures("stranger")
def test_other_programs_are_named_before_runs_start(home: Home) -> None:
    (home.folder / "two.csv").write_text("Experiment,Workload,File\n7,1,x.py\n7,2,x.py\n")
    (home.folder / "x.py").write_text("print('done')\n")
    lines = home.bench("schedule", "two.csv").splitlines()
    [warning] = [line for line in lines if "other processes use" in line]
    assert warning.startswith("! 7/1 ")
    assert "--quiet-host waits" in warning
    assert lines.index(warning) < next(at for at, line in enumerate(lines) if "7/1/1" in line)

    lines = home.bench("schedule", "two.csv", "--rerun", "all", "--quiet-host-timeout", "0.1").splitlines()
    waits = [line for line in lines if "waits for a quiet host, 0.1 s at most" in line or "is not quiet" in line]
    assert [line.strip("! ").split()[0] for line in waits if "is not quiet" in line] == ["7/1", "7/2"]
    assert [run["status"] for run in home.runs(7)] == ["finished"] * 4

    assert "other processes use" in home.bench("run", "--", "true")
    assert "is not quiet" in home.bench("run", "--quiet-host", "--quiet-host-timeout", "0.1", "--", "true")
