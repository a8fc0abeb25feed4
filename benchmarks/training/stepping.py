"""Training whose processes log their steps: ``python -m benchmarks.training.stepping KIND LOGS FILES``.

It starts a process for each member, and ends with all of them on SIGTERM, or when the folder LOGS is removed.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import sys
import time
from enum import StrEnum
from pathlib import Path
from types import ModuleType

from benchmarks.training import compute, files, loaders, memory, transformer
from benchmarks.training.steps import log_steps
from hypergauge.core.files.run_folder import write_atomically

__all__ = ["KINDS", "SUFFIX", "TrainingKind", "members_of", "of_this_host"]

SUFFIX = ".steps"
_MEMBERS = "members.json"


class TrainingKind(StrEnum):
    """Kind of training, by its scarce resource."""

    COMPUTE = "compute"
    MEMORY = "memory"
    IO = "io"
    PROCESSES = "processes"
    GPU = "gpu"


KINDS: dict[TrainingKind, ModuleType] = {
    TrainingKind.COMPUTE: compute,
    TrainingKind.MEMORY: memory,
    TrainingKind.IO: files,
    TrainingKind.PROCESSES: loaders,
    TrainingKind.GPU: transformer,
}


def of_this_host() -> list[TrainingKind]:
    """Return the kinds that this host can run: that on a GPU needs one, and PyTorch."""
    return [kind for kind in TrainingKind if kind is not TrainingKind.GPU or transformer.runs_here()]


def members_of(logs: Path) -> list[str]:
    """Return the names of a started training's members, none before its start."""
    path = logs / _MEMBERS
    return list(json.loads(path.read_text())) if path.exists() else []


def main(kind: TrainingKind, logs: Path, files: Path) -> None:
    """Train until SIGTERM."""
    fork = multiprocessing.get_context("fork")
    members = KINDS[kind].members(os.cpu_count() or 1, files)
    processes = [
        fork.Process(target=log_steps, args=(logs / f"{name}{SUFFIX}", steps()), name=name, daemon=True)
        for name, steps in members.items()
    ]
    for process in processes:
        process.start()
    write_atomically(logs / _MEMBERS, json.dumps(list(members)))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with contextlib.suppress(KeyboardInterrupt):
        while logs.exists() and all(process.is_alive() for process in processes):
            time.sleep(1)


if __name__ == "__main__":
    main(TrainingKind(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
