"""Help of each command."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from hypergauge.cli import app
from hypergauge.cli.catalog import DeferredCommand

# Columns of the narrowest terminal in which examples stay on their lines.
WIDTH = 80


def commands(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield a command and its subcommands with their names."""
    if isinstance(command, DeferredCommand):
        command = command.load()
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, *path, name)


COMMANDS = dict(commands(get_command(app)))
VISIBLE = [path for path, command in COMMANDS.items() if not command.hidden]


def words_of(line: str) -> list[str]:
    """Return the words of the `bench` command in a line of a shell, without the commands and files around it."""
    inner = re.search(r"\$\((.*?)\)", line)
    parser = shlex.shlex(inner[1] if inner else line, posix=True, punctuation_chars="|<>")
    parser.whitespace_split = True
    _, *words = itertools.takewhile(lambda word: not set(word) <= set("|<>"), parser)
    return words


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_each_command_has_its_help(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, [*words, "--help"])
    assert (done.exit_code, done.exception) == (0, None)
    assert " ".join(("Usage: bench", *words)) in done.output


@pytest.mark.parametrize("words", VISIBLE, ids=" ".join)
def test_a_help_ends_with_examples_that_fit_a_terminal(words: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": str(WIDTH)}).output.splitlines()
    examples = [line.strip() for line in shown[shown.index("Examples:") + 1 :]]
    assert 1 <= len(examples) <= 3
    assert all(" # " in line for line in examples)
    assert max(map(len, shown)) <= WIDTH


@pytest.mark.parametrize("path", VISIBLE, ids=" ".join)
def test_examples_are_commands_of_today(path: tuple[str, ...]) -> None:
    for line in COMMANDS[path].epilog.splitlines():
        words = words_of(line)
        assert tuple(words[: len(path)]) == path
        named = max((known for known in COMMANDS if tuple(words[: len(known)]) == known), key=len)
        arguments = words[len(named) :]
        if "--help" not in arguments:
            COMMANDS[named].make_context(" ".join(named), arguments)
