"""PyTorch trainings whose script watches its model, in a run's environment."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypergauge.scheduler.launch.launch import client_folder, run_environment
from hypergauge.scheduler.profilers import PROFILERS
from hypergauge.scheduler.tracking.spans import read_spans
from hypergauge.sql.ingest.software import SpanRecord
from tests.support.interpreters import python_with
from tests.support.recorded import read_rows

__all__ = ["Train", "Watched", "trained"]

BEGIN = """
import sys, torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from hypergauge import track
torch.manual_seed(0)
torch.set_num_threads(1)
x = torch.randn(60, 6)
y = (x.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 2), nn.Sigmoid())
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
criterion = nn.CrossEntropyLoss()
def epochs(number, evaluate=False):
    loader, held_out = DataLoader(TensorDataset(x, y), batch_size=10), DataLoader(TensorDataset(x, y), batch_size=30)
    for _ in range(number):
        model.train()
        for a, b in loader:
            optimizer.zero_grad()
            criterion(model(a), b).backward()
            optimizer.step()
        if evaluate:
            model.eval()
            with torch.no_grad():
                for a, b in held_out:
                    criterion(model(a), b)
"""


@dataclass(frozen=True)
class Watched:
    """Files of a training that has ended."""

    folder: Path
    output: str
    errors: str

    @property
    def spans(self) -> list[SpanRecord]:
        """Spans, each as it ended."""
        return list({span.span_id: span for span in read_spans(self.folder / "spans.jsonl")}.values())

    @property
    def problems(self) -> list[str]:
        """Problems among the lines of the file of tensors."""
        return read_rows(self.folder / "tensors.jsonl")[1]

    @property
    def gaps(self) -> list[str]:
        """What the watch reports that it cannot record."""
        path = self.folder / "tensors.jsonl"
        lines = (json.loads(line) for line in path.read_text().splitlines()) if path.exists() else ()
        return [line["gap"] for line in lines if "gap" in line]

    @property
    def steps(self) -> list[dict[str, Any]]:
        """Fields of the spans of steps."""
        lines = (json.loads(line) for line in (self.folder / "spans.jsonl").read_text().splitlines())
        return [line for line in lines if line["kind"] == "step"]

    def losses(self, name: str = "loss") -> list[float]:
        """Return the mean losses in the order of the steps."""
        rows = {step: values["mean"] for (step, _, loss), values in self.tensors().items() if loss == name}
        return [rows[step] for step in sorted(rows)]

    def tensors(self) -> dict[tuple[int, str, str], dict[str, float]]:
        """Return the reductions by step, collection and name."""
        return {
            (row.step, collection, name): {"size": row.size, **row.values}
            for (collection, name), rows in read_rows(self.folder / "tensors.jsonl")[0].items()
            for row in rows
        }


Train = Callable[..., Watched]


def trained(
    folder: Path,
    script: str,
    *,
    status: int = 0,
    begin: str = BEGIN,
    variables: Mapping[str, str] | None = None,
    trace: Path | None = None,
) -> Watched:
    """Run a script, which begins as above, in a run's environment; with `trace` under PyTorch's profiler."""
    (folder / "script.py").write_text(begin + script)
    files = {"BENCH_SPANS": str(folder / "spans.jsonl"), "BENCH_TENSORS": str(folder / "tensors.jsonl")}
    environment = run_environment(os.environ, files if variables is None else variables, client_folder(folder))
    words = [python_with("torch") or "", str(folder / "script.py")]
    if trace is not None:
        words = PROFILERS["torch"].wrap(words, trace.parent, {})
    done = subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return Watched(folder, done.stdout, done.stderr)
