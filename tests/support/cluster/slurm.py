"""Home with workloads as jobs of a real Slurm."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.cluster.slurm_cluster import ACCOUNT, GPUS, SlurmCluster, slurm_cluster
from tests.support.home import Home, Sheet, Started
from tests.support.waiting import wait_for

HEADER = "Experiment,Workload,Name,Devices,Slurm,File,Params"
# The only instance of a GPU that Slurm lists as a MIG instance.
SIMULATED = f"{GPUS['h100']}xH100,{GPUS['3g.20gb']}xA100:1x3g.20gb"


@dataclass
class Site(Home):
    """Home with the Slurm commands, database and tracking server of a site.

    Attributes
    ----------
    cluster
        Cluster of the jobs. A stack measures its first node; the second is not measured.
    """

    _cluster: SlurmCluster | None = None

    @property
    def cluster(self) -> SlurmCluster:
        assert self._cluster is not None
        return self._cluster

    def schedule(self, sheet: Sheet, *options: str) -> Started:
        """Start submitting a file's workloads to Slurm."""
        return self.start("schedule", sheet.path, "--executor", "slurm", *options)

    def jobs(self, experiment: int) -> dict[int, str]:
        """Return the ids of an experiment's latest accepted jobs, by workload."""
        found = self.query(
            """
            select workload, native_id from jobs join workloads using (workload_id)
            where experiment_id = %s and native_id is not null order by submitted_at
            """,
            experiment,
        )
        return {row["workload"]: row["native_id"] for row in found}

    def job(self, experiment: int, workload: int = 1) -> str:
        """Wait until a workload is submitted, and return its job's id."""
        what = f"the job of workload {experiment}/{workload}"
        return wait_for(lambda: self.jobs(experiment).get(workload), what)

    def named(self, experiment: int, name: str) -> list[dict[str, Any]]:
        """Return the attempts of the run with this name."""
        return [run for run in self.runs(experiment) if run["name"] == name]

    def state(self, job: str) -> str:
        """Slurm's state of a job."""
        return self.cluster.job(job)["JobState"]

    def at_the_gate(self, experiment: int, *names: str) -> list[dict[str, Any]]:
        """Wait until runs wait at their gates on a node, and return them."""

        def there() -> list[dict[str, Any]] | None:
            runs = [run for run in self.runs(experiment) if run["name"] in names and run["status"] == "running"]
            waiting = [run for run in runs if "at the gate" in self.output_of(run["run_id"])]
            return waiting if len(waiting) == len(names) else None

        return wait_for(there, f"{', '.join(names)} of experiment {experiment} at the gate")

    def output_of(self, run_id: str) -> str:
        """Return a run's output so far, on any node."""
        return "".join(path.read_text() for path in self.path.rglob(f"runs/{run_id}/output.log"))


@contextlib.contextmanager
def site_in(folder: Path) -> Iterator[Site]:
    """Yield a site in a short folder: a cluster, and a stack with simulated GPUs."""
    (folder / "slurm").mkdir(parents=True)
    simulated = {"BENCH_SIMULATE": SIMULATED}
    with (
        slurm_cluster(folder / "slurm") as cluster,
        Home(folder / "home", folder / "stack", simulated).stack() as home,
    ):
        services = {"BENCH_DSN": home.dsn, "MLFLOW_TRACKING_URI": home.tracking_uri}
        found = Site(home.path, folder / "work", {**simulated, **services, **cluster.environment}, _cluster=cluster)
        found.folder.mkdir()
        (found.folder / "bench.toml").write_text(f'[slurm]\naccount = "{ACCOUNT}"\ngres = "gpu:h100:{{count}}"\n')
        try:
            yield found
        finally:
            cluster.command("scancel", "--user", "root")
            found.end()
