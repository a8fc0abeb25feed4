"""Late imports: runs and local stacks start without packages whose import takes longer than a short command."""

from __future__ import annotations

import subprocess
import sys

import pytest

MODULES = [
    "cli.running.run",
    "cli.running.schedule",
    "collector.collector",
    "exporters.serving.server",
    "scheduler.executors.local",
    "scheduler.supervisor.supervisor",
    "stack.services.local_stack",
    "stack.services.rule_process",
]


def imports(module: str, package: str) -> bool:
    code = f"import sys, hypergauge.{module}; print({package!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout == "True\n"


@pytest.mark.parametrize("module", MODULES)
def test_pydantic_is_imported_when_a_file_is_validated(module: str) -> None:
    assert not imports(module, "pydantic")


@pytest.mark.parametrize("module", MODULES)
def test_mlflow_is_imported_when_a_run_is_delivered(module: str) -> None:
    assert not imports(module, "mlflow")
