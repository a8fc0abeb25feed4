"""Pictures of an experiment on simulated GPUs: dashboards of a running Grafana, a plot, a page and a report."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from docs.pictures.browser import screenshot
from docs.pictures.sessions import environment

__all__ = ["BOARDS", "Experiment", "picture_board", "picture_files", "picture_fleet"]

EXPERIMENT = "2"
_FILE = Path(__file__).parent / "experiment" / "collocation.csv"
_METRICS = ("-m", "gpu_sm_active", "-m", "loss")
_BASELINE = f"{EXPERIMENT}/1/1"
_COMPARED = tuple(f"{EXPERIMENT}/{workload}" for workload in (1, 2, 3))  # without MIG: few curves
# Dashboards of ended runs by their pictures: the end of the address, and the height in pixels.
BOARDS = {"intra": 1130, "inter": 1130, "run": 1130, "ledger": 1050}
_WIDTH = 1500
_GPUS = "1xH100,1xH100:mig"
_RUNNING_SECONDS = 25
_SHOWN_MILLISECONDS = 300_000


@dataclass(frozen=True, slots=True)
class Experiment:
    """Experiment of the pictures in the database of a `BENCH_HOME`, or of `BENCH_DSN`."""

    home: Path

    @property
    def folder(self) -> Path:
        """Folder of the experiment's file and of its runs."""
        folder = self.home / "pictures"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def bench(self, *words: str) -> str:
        """Run a command on the experiment's simulated GPUs, and return its output."""
        variables = {**os.environ, **environment(self.home), "BENCH_SIMULATE": _GPUS}
        return subprocess.run(
            ["bench", *words], cwd=self.folder, env=variables, check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    @contextlib.contextmanager
    def begun(self, *words: str) -> Iterator[None]:
        """Run a command meanwhile, and wait for its end."""
        variables = {**os.environ, **environment(self.home), "BENCH_SIMULATE": _GPUS}
        with subprocess.Popen(["bench", *words], cwd=self.folder, env=variables, stdout=subprocess.DEVNULL):
            yield

    def run(self) -> None:
        """Run what is left of the experiment, in a copy of its file below `home`."""
        for source in _FILE.parent.glob("*.*"):
            if not (self.folder / source.name).exists():
                (self.folder / source.name).write_bytes(source.read_bytes())
        self.bench("schedule", _FILE.name)

    def runs(self) -> list[dict[str, Any]]:
        """Return the runs, in their order."""
        return list(json.loads(self.bench("list", EXPERIMENT, "--json")))


def picture_board(name: str, folder: Path, grafana: str, experiment: Experiment) -> Path:
    """Write the picture of a dashboard of the Grafana at the address `grafana`."""
    runs = experiment.runs()
    address = f"{grafana.rstrip('/')}/d/bench-{name}?{urlencode(_selection(name, runs), doseq=True)}&kiosk"
    file = folder / f"{name}.png"
    screenshot(address, file, width=_WIDTH, height=BOARDS[name])
    return file


def picture_fleet(folder: Path, grafana: str, experiment: Experiment) -> Path:
    """Write the picture of *Hosts and GPUs* while two runs are running, one on a whole GPU and one on a MIG instance."""
    file = folder / "fleet.png"
    training = ("--", sys.executable, "train.py", "--epochs", "4")
    with (
        experiment.begun("run", "--name", "narrow", "--devices", "0", *training),
        experiment.begun(
            "run", "--name", "wide", "--devices", "1", "--collocation", "3g.40gb", *training, "--hidden", "384"
        ),
    ):
        time.sleep(_RUNNING_SECONDS)
        until = round(time.time() * 1000)
        address = f"{grafana.rstrip('/')}/d/bench-fleet?from={until - _SHOWN_MILLISECONDS}&to={until}&kiosk"
        screenshot(address, file, width=_WIDTH, height=2050)
    return file


def picture_files(folder: Path, experiment: Experiment) -> list[Path]:
    """Write the pictures of a plot, of the same as a page, and of a report."""
    plot, page, report = folder / "plot.svg", folder / "page.png", folder / "report.png"
    experiment.bench("plot", *_COMPARED, *_METRICS, "-o", str(plot))
    with tempfile.TemporaryDirectory(prefix="bench-pictures-") as other:
        html = Path(other) / "page.html"
        experiment.bench("plot", *_COMPARED, *_METRICS, "-o", str(html))
        screenshot(html.as_uri(), page, width=1180, height=540)
        experiment.bench("report", EXPERIMENT, *_METRICS, "--baseline", _BASELINE, "-o", str(html))
        screenshot(html.as_uri(), report, width=1000, height=900)
    return [plot, page, report]


def _selection(name: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the variables and the time range in the address of a dashboard."""
    started = [_milliseconds(run["started_at"]) for run in runs]
    ended = [_milliseconds(run["ended_at"]) for run in runs]
    longest = max(end - start for start, end in zip(started, ended, strict=True))
    match name:
        case "intra":
            return {
                "var-experiment": EXPERIMENT, "var-workload": "$__all", "var-run": "$__all", "var-metric": "gpu_sm_active",
                "var-software": "loss", "var-baseline": runs[0]["run_id"], "from": 0, "to": longest,
            }  # fmt: skip
        case "inter":
            return {"var-experiment": EXPERIMENT, "var-workload": "$__all", "from": 0, "to": longest}
        case "run":
            return {"var-run": runs[0]["run_id"], "from": started[0], "to": ended[0]}
    return {"from": min(started), "to": max(ended)}


def _milliseconds(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1000)
