"""Deferred commands: the catalog's help equals that of the imported command."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module

import pytest
from typer.main import get_group

from hypergauge.cli.catalog import COMMANDS, GROUPS, DeferredCommand
from hypergauge.cli.help import Commands

# Packages that neither help texts nor reads of a few rows need.
HEAVY = {
    "mlflow", "numpy", "scipy", "pandas", "pyarrow", "matplotlib", "sklearn", "ruptures", "aiohttp", "cryptography", "jinja2",
}  # fmt: skip


def imported(code: str) -> set[str]:
    """Return the packages, and the parts of ours, that some code imports in a new interpreter."""
    shown = f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\nprint('\\n', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    names = [name.split(".") for name in done.stdout.splitlines()[-1].split()]
    return {parts[0] for parts in names} | {parts[1] for parts in names if parts[0] == "hypergauge" and len(parts) > 1}


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["schedul"]], ids=" ".join)
def test_help_imports_no_command(words: list[str]) -> None:
    found = imported(f"sys.argv[1:] = {words}; from hypergauge.cli import main; main()")
    assert not found & (HEAVY | {"psycopg", "yaml", "psutil", "sql", "insight", "scheduler"})


@pytest.mark.parametrize(
    "module",
    ["querying.read", "running.schedule", "running.run", "running.stop", "logs", "querying.watch", "run_annotations"],
)
def test_a_command_imports_what_it_needs_alone(module: str) -> None:
    assert not imported(f"import hypergauge.cli.{module}") & HEAVY


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_listed_with_its_own_summary(name: str) -> None:
    deferred = DeferredCommand(name)
    command = deferred.load()
    assert (command.help or "").splitlines()[0] == deferred.short_help
    assert command.hidden == deferred.hidden


def test_the_help_has_each_command_in_one_group() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(name for name in COMMANDS if not DeferredCommand(name).hidden)


@pytest.mark.parametrize("module", dict.fromkeys(module for module, _ in COMMANDS.values()))
def test_no_command_is_missing_in_the_list(module: str) -> None:
    app = Commands(examples={})
    import_module(f"hypergauge.cli.{module}").register(app)
    assert [*get_group(app).commands] == [name for name, (home, _) in COMMANDS.items() if home == module]


@pytest.mark.parametrize(
    ("words", "completed"),
    [("bench sch", ["schedule"]), ("bench db u", ["url", "upgrade"]), ("bench list --at", ["--attempts"])],
)
def test_a_shell_completes_commands_and_options(words: str, completed: list[str]) -> None:
    variables = {"_BENCH_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    code = "import sys; sys.argv = ['bench']; from hypergauge.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | variables, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == completed
