"""Catalog of commands. Each is imported when it is called: ``bench --help`` needs names and first lines only."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

__all__ = ["COMMANDS", "Catalog", "DeferredCommand"]

# By command: its module in `hypergauge.cli`, whose `register` adds it, and the first line of its help. A test compares both.
COMMANDS: dict[str, tuple[str, str]] = {
    "schedule": ("running.schedule", "Run every row of an experiment file that is still to do, workload by workload."),
    "run": ("running.schedule", "Run one command without a file; it is measured like any other run."),
    "stop": (
        "running.stop",
        "End runs, with everything they started, and say so in their status; what is queued does not begin.",
    ),
    "job": (
        "running.remote",
        "Run the workload that an executor's job was ordered to, on this host; the order is what it reads.",
    ),
    "sweep": ("running.sweep", "Write the experiment file of a grid or a random search."),
    "status": (
        "serving.status",
        "Show what runs now, and whether database, collector, exporters, MLflow and Grafana answer.",
    ),
    "list": ("asking.read", "List experiments, or the runs of one, with status and duration."),
    "metrics": ("asking.read", "Show the quantities there are, with unit, scope and source."),
    "note": ("run_annotations", "Note something about a run, or show what is noted."),
    "keep": ("run_annotations", "Protect runs from retention and from `bench rm`."),
    "rm": ("run_annotations", "Remove runs with their samples, their output and what MLflow has of them."),
    "logs": ("logs", "Write a run's output to standard output."),
    "compare": (
        "asking.compare",
        "Compare runs, rows by the mean of all their attempts, or workloads, by what the hardware did.",
    ),
    "highlights": (
        "asking.highlights",
        "Tell a run in ten lines: its phases, what came time and again, where it changed, what was far off.",
    ),
    "interference": (
        "asking.interference",
        "Say what running side by side cost each configuration, against the same alone, and whether it paid.",
    ),
    "watch": ("asking.watch", "Show runs while they go on, until all have ended; Ctrl-C leaves, and stops nothing."),
    "plot": (
        "asking.plot",
        "Draw what runs, or workloads, did over the time, steps or epochs that they have in common.",
    ),
    "report": (
        "asking.report",
        "Tell the whole story of runs on one page: what ran, how it compares, curves, phases, environment.",
    ),
    "share": (
        "asking.view",
        "Write what is to be looked at to a small file: which metrics of which runs, never the data.",
    ),
    "open": (
        "asking.view",
        "Show what a small file holds, with what the database has of it by now, as a page in the browser.",
    ),
    "export": (
        "asking.export",
        "Write runs to a file: their samples, all there is of them for another database, or a trace.",
    ),
    "import": ("asking.export", "Bring the runs of another database in: all that are not here yet, or none."),
    "up": (
        "serving.serve",
        "Start the local stack (database, collector, exporters, MLflow, Grafana where it is installed) and keep it.",
    ),
    "down": (
        "serving.serve",
        "Stop the local stack. Runs that go on are not ended, but no longer measured, and cannot log to MLflow.",
    ),
    "demo": (
        "setup",
        "Run a small real experiment, from training to comparison; it is experiment 0, or the next free one.",
    ),
    "init": ("setup", "Write a commented experiments.csv and a script that run as they are."),
    "doctor": ("setup", "Show what is missing on this host, and the command that mends it."),
    "exporter": ("serving.serve", "Exporters: what can be measured here, and one of them alone."),
    "collector": ("serving.serve", "The collector: scrapes targets into the database."),
    "db": ("database", "The database: schema, address, shell, backup."),
    "dashboards": ("dashboards", "Grafana's dashboards: their files, and how they get there."),
    "rules": ("asking.rules", "What to look for in runs: bottlenecks, idle devices, outliers."),
}
_HIDDEN = frozenset({"job"})


class DeferredCommand(TyperCommand):
    """A command of which only name and first line are known until it is called."""

    def __init__(self, name: str, **settings: Any) -> None:
        self._module, line = COMMANDS[name]
        super().__init__(name, help=line, short_help=line, hidden=name in _HIDDEN, **settings)

    def load(self) -> Any:
        """Import the command."""
        app = typer.Typer(rich_markup_mode=self.rich_markup_mode)
        import_module(f"hypergauge.cli.{self._module}").register(app)
        return get_group(app).commands[self.name or ""]

    def make_context(self, *words: Any, **extra: Any) -> Any:
        """Begin the command itself, which goes on by itself from there: also where a shell completes its words."""
        return self.load().make_context(*words, **extra)


class Catalog(TyperGroup):
    """The group of all commands."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: DeferredCommand(name, rich_markup_mode=self.rich_markup_mode) for name in COMMANDS}
