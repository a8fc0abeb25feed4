"""Energy of CPU packages and memory through the whole pipeline: runs, idle and other add up to the host's counters.

The counters are a tree in the kernel's layout. A thread advances it by what the runs' processes burn, beside idle power.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.conftest import NewFolder
from tests.support.exporters.powercap import Counter, zone
from tests.support.home import Home
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.quiet, pytest.mark.slow]

WATTS, JOULES_PER_SECOND = 20.0, 40.0
# An exporter of another distribution: the one of this package, on the tree.
EXPORTER = """
import os
from pathlib import Path
from hypergauge.exporters.rapl import RaplExporter

class TreeExporter(RaplExporter):
    name = "powercap"

    def __init__(self, options):
        super().__init__(options, Path(os.environ["POWERCAP_TREE"]))
"""
ROWS = [
    "115,1,long,{scripts}/burn.py,--seconds 5 --batch-size 8",
    "115,1,short,{scripts}/burn.py,--seconds 1",
    "115,2,later,{scripts}/burn.py,--seconds 3",
]


class Hardware:
    """Thread that advances the counters of a tree while it is a context."""

    def __init__(self, tree: Path, home: Path) -> None:
        # The counter starts over every 100 J.
        self.package = Counter(zone(tree, "intel-rapl:0", "package-0", 99_000_000, 100_000_000))
        self.memory = Counter(zone(tree, "intel-rapl:0:0", "dram", 0))
        zone(tree, "intel-rapl:1", "psys", 0)
        self._home = home
        self._used: dict[tuple[int, float], float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(0.05):
            joules = WATTS * 0.05 + JOULES_PER_SECOND * self._burnt()
            self.package.add(joules)
            self.memory.add(joules / 10)

    def _burnt(self) -> float:
        burnt = 0.0
        for process in psutil.process_iter():
            try:
                if "burn.py" not in " ".join(process.cmdline()):
                    continue
                if "BENCH_RUN_ID" not in process.environ():
                    continue
                times, key = process.cpu_times(), (process.pid, process.create_time())
            except psutil.Error:
                continue
            used = times.user + times.system
            burnt += used - self._used.get(key, 0.0)
            self._used[key] = used
        return burnt


@pytest.fixture(scope="module")
def place(new_folder: NewFolder) -> Iterator[Home]:
    """A stack on a host with energy counters."""
    folder = new_folder()
    (folder / "site/powercap.dist-info").mkdir(parents=True)
    (folder / "site/powercap_tree.py").write_text(EXPORTER)
    (folder / "site/powercap.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: powercap\nVersion: 1\n")
    (folder / "site/powercap.dist-info/entry_points.txt").write_text(
        "[hypergauge.exporters]\npowercap = powercap_tree:TreeExporter\n"
    )
    tree = folder / "tree"
    variables = {"PYTHONPATH": str(folder / "site"), "POWERCAP_TREE": str(tree)}
    with (
        Hardware(tree, folder / "home"),
        Home(folder / "home", folder / "work", variables=variables).stack() as home,
    ):
        yield home


def test_the_parts_of_runs_idle_and_other_are_the_hosts_counters(place: Home) -> None:
    sheet = place.sheet("energy", "Experiment,Workload,Name,File,Params", ROWS)
    place.bench("schedule", sheet.path)
    assert sheet.column("Status") == ["finished"] * 3
    wait_for(
        lambda: len(place.query("select run_id from runs where summarised")) == 3,
        "the summaries",
    )
    # Later scrapes show the final totals and idle energy.
    totals = """
        select case when metric ~ '^node' then 'host' when metric ~ 'attributed' then 'runs' else 'rest' end as kind,
               sum(value * dt) as joules, min(time) as first, max(time) as last
        from samples join series using (series_id)
        where (metric like 'bench_rapl%%energy%%' and labels ->> 'domain' = %s) or metric = %s
        group by 1
    """
    for domain in ("package", "dram"):
        found = {row["kind"]: row for row in place.query(totals, domain, f"node_rapl_{domain}_joules_total")}
        whole = found["host"]["joules"]
        assert found["runs"]["joules"] > 0
        assert found["runs"]["joules"] + found["rest"]["joules"] == pytest.approx(whole, rel=1e-5)

    long, short, later = place.json("compare", "115")["runs"]
    for run in (long, short, later):
        assert run["scopes"]["cpu_energy_joules"] == "process"
        assert set(run["host_energy_method"].split("+")) <= {"cpu_time", "cpu_time_no_idle"}
        assert run["energy_parts"] == ["cpu", "dram"]
        assert run["energy_joules"] == pytest.approx(run["cpu_energy_joules"] + run["dram_energy_joules"])
        assert run["energy_per_epoch_joules"] == pytest.approx(run["energy_joules"] / 2)
        assert run["energy_per_step_joules"] == pytest.approx(run["energy_joules"] / 20)
        assert run["cpu_energy_joules"] > 0
    assert long["cpu_energy_joules"] > short["cpu_energy_joules"]
    assert long["energy_per_sample_joules"] == pytest.approx(long["energy_joules"] / 160)
    assert "energy_per_sample_joules" not in short
    stored = place.query(
        "select sum(total) as joules from run_summary where quantity = 'cpu_energy_attributed' and metric is null"
        " and scope = 'process'"
    )
    together = sum(run["cpu_energy_joules"] for run in (long, short, later))
    assert stored[0]["joules"] == pytest.approx(together)
    text = place.bench("compare", "115", "--wide")
    assert "CPU energy" in text
    assert "energy is that of CPU packages, memory" in " ".join(text.split())
