"""Help of each command."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from hypergauge.cli import app


def commands(command: object, *path: str) -> Iterator[tuple[str, ...]]:
    """Yield the names of a command and of its subcommands."""
    yield path
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, *path, name)


@pytest.mark.parametrize("words", [*commands(get_command(app))], ids=" ".join)
def test_each_command_has_its_help(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, [*words, "--help"])
    assert (done.exit_code, done.exception) == (0, None)
    assert " ".join(("Usage: bench", *words)) in done.output
