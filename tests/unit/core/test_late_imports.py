"""Late imports: runs and local stacks start without pydantic, whose import takes longer than a short command."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module",
    [
        "cli.running.schedule",
        "collector.collector",
        "exporters.serving.server",
        "scheduler.executors.local",
        "scheduler.supervisor.supervisor",
        "stack.local_stack",
        "stack.rule_process",
    ],
)
def test_pydantic_is_imported_when_a_file_is_validated(module: str) -> None:
    code = f"import sys, hypergauge.{module}; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
