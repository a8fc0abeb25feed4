"""Thin commands: threads, loops and waits belong to the packages below."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import hypergauge.cli

CLI = Path(hypergauge.cli.__file__).parent
WAITS = {"sleep", "wait", "Thread", "Event", "Timer"}


def modules() -> list[Path]:
    return [path for path in sorted(CLI.rglob("*.py")) if "templates" not in path.parts]


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(CLI)))
def test_a_command_has_no_thread_no_endless_loop_and_no_wait(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        line = f"{path.name}:{getattr(node, 'lineno', 0)}"
        assert not isinstance(node, ast.While), f"{line}: a loop that waits"
        if isinstance(node, ast.Import):
            assert "threading" not in {alias.name for alias in node.names}, line
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            assert name not in WAITS, f"{line}: {name}"
