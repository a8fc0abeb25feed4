"""Steps of trainings, from the processes that make them to the reader."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks.training.members import TRAINER
from benchmarks.training.stepping import SUFFIX, TrainingKind, members_of, of_this_host
from benchmarks.training.steps import log_steps, progress_at, steps_logged
from tests.support.waiting import wait_for

ROOT = Path(__file__).parents[3]


def test_progress_is_linear_within_a_step(tmp_path: Path) -> None:
    times: list[float] = []

    def steps() -> Iterator[None]:
        for _ in range(5):
            times.append(time.monotonic())
            yield

    path = tmp_path / "trainer-0.steps"
    log_steps(path, steps())
    assert steps_logged(path) == 5
    middle = progress_at(path, [times[1] + (times[4] - times[1]) / 2])
    assert 2 < middle.steps[0] < 5
    assert 0 < middle.cpu_seconds[0] <= time.process_time()
    for outside in (times[0] - 1, time.monotonic() + 1):
        with pytest.raises(ValueError, match="does not cover"):
            progress_at(path, [outside])


def test_the_ring_keeps_the_newest_steps(tmp_path: Path) -> None:
    path = tmp_path / "trainer-0.steps"
    began = time.monotonic()
    log_steps(path, itertools.repeat(None, 100_000))
    assert steps_logged(path) == 100_000
    with pytest.raises(ValueError, match="does not cover"):
        progress_at(path, [began])


@pytest.mark.parametrize("kind", of_this_host())
def test_every_member_of_a_training_makes_steps(kind: TrainingKind, tmp_path: Path) -> None:
    logs, files = tmp_path / "logs", tmp_path / "files"
    logs.mkdir()
    files.mkdir()
    words = [sys.executable, "-m", "benchmarks.training.stepping", kind, str(logs), str(files)]
    with subprocess.Popen(words, cwd=ROOT, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}) as training:
        try:
            members = wait_for(lambda: members_of(logs))
            assert sum(name.startswith(TRAINER) for name in members) >= 1
            paths = [logs / f"{name}{SUFFIX}" for name in members]
            wait_for(lambda: all(steps_logged(path) > 2 for path in paths))
            began = time.monotonic()
            counts = [steps_logged(path) for path in paths]
            wait_for(lambda: all(steps_logged(path) > count + 1 for path, count in zip(paths, counts, strict=True)))
            for path in paths:
                done = progress_at(path, [began])
                assert np.all(done.steps > 0)
        finally:
            training.terminate()
    assert training.returncode == 0
