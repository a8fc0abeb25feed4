"""Runs, Python processes in them, and the exporter ``process`` that reads them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypergauge.core.system.processes import end_run
from hypergauge.exporters.process.exporter import ProcessExporter
from hypergauge.exporters.serving.registry import ExporterOptions
from tests.support.exporters.process import Page, Start, StartRun
from tests.support.waiting import wait_for_environment


@pytest.fixture
def run_id() -> Iterator[str]:
    run_id = uuid.uuid4().hex
    yield run_id
    end_run(run_id, grace=0)


@pytest.fixture
def page(tmp_path: Path) -> Page:
    exporter = ProcessExporter(ExporterOptions(home=tmp_path))
    assert exporter.check() is None
    return Page(exporter)


@pytest.fixture
def python() -> Iterator[Start]:
    """Start Python with the given code, arguments and variables; its processes end with the test."""
    with contextlib.ExitStack() as stack:

        def start(code: str, *words: str, **variables: str) -> subprocess.Popen[bytes]:
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", code, *words],
                    env={**os.environ, **variables},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                )
            )
            stack.callback(process.kill)
            return process

        yield start


@pytest.fixture
def process() -> Iterator[StartRun]:
    """Start a process of a run, and return its pid."""
    with contextlib.ExitStack() as stack:

        def start(run_id: str) -> int:
            environment = {**os.environ, "BENCH_RUN_ID": run_id}
            process = stack.enter_context(subprocess.Popen(["sleep", "60"], env=environment))
            stack.callback(process.kill)
            wait_for_environment(process.pid, "BENCH_RUN_ID")
            return process.pid

        yield start
