"""Settings in commands of the documentation, which a reader's shell has not set."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypergauge.core.config.settings import VARIABLES

ROOT = Path(__file__).parents[3]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
BLOCK = re.compile(r"^ *```sh\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
USE = re.compile(r"\$\{?((?:BENCH|MLFLOW)_\w+)(?=\}|\b(?!:-))(?!:-)")


def commands(page: str) -> Iterator[str]:
    """Yield the lines of a page's shell blocks and its inline code, in their order."""
    blocks = [(match.start(), match[1]) for match in BLOCK.finditer(page)]
    spans = [(match.start(), match[1]) for match in SPAN.finditer(page)]
    for _, text in sorted(blocks + spans):
        yield from text.splitlines()


def unset(page: str) -> list[str]:
    """Return the commands that use a variable before the page sets it, and without a default."""
    found, known = [], set()
    for line in commands(page):
        found += [
            line for name in USE.findall(line.partition(" #")[0]) if name in VARIABLES.values() and name not in known
        ]
        known.update(re.findall(r"\b((?:BENCH|MLFLOW)_\w+)=", line))
    return found


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_variable_of_a_command_is_set_before_or_has_a_default(path: Path) -> None:
    assert unset(path.read_text(encoding="utf-8")) == []


def test_uses_are_found() -> None:
    page = "`a $BENCH_HOME`\n```sh\nmv ${BENCH_HOME:-x} y\nmv ${BENCH_HOME}/x y\nexport BENCH_HOME=z\nls $BENCH_HOME\n```\n"
    assert unset(page) == ["a $BENCH_HOME", "mv ${BENCH_HOME}/x y"]
