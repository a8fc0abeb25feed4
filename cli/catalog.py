"""Catalog of commands: names and help lines, so that ``bench --help`` imports no command."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from typer.core import TyperCommand
from typer.main import get_group

from hypergauge.cli.help import Commands, Group

__all__ = ["COMMANDS", "GROUPS", "Catalog", "DeferredCommand"]

# Module in `hypergauge.cli` and first line of the help, by command. A test compares both with the module.
COMMANDS: dict[str, tuple[str, str]] = {
    "schedule": ("running.schedule", "Run all rows of an experiment file that are still to do, workload by workload."),
    "run": ("running.run", "Run one command without a file; it is measured like any other run."),
    "calibrate": ("running.calibrate", "Measure what exporters cost a training on this host, and store it."),
    "stop": (
        "running.stop",
        "Stop runs with all of their processes. Queued runs do not begin.",
    ),
    "job": (
        "running.job",
        "Run the workload of an executor's job on this host. The order comes from standard input.",
    ),
    "sweep": ("running.sweep", "Write the experiment file of a grid or a random search."),
    "status": (
        "serving.status",
        "Show what runs now, and whether database, collector, exporters, MLflow and Grafana answer.",
    ),
    "list": ("querying.read", "List experiments, or the runs of one, with status and duration."),
    "metrics": ("querying.read", "Show the available quantities, with unit, scope and source."),
    "note": ("run_annotations", "Add a note to a run, or show it."),
    "keep": ("run_annotations", "Protect runs from retention and from `bench rm`."),
    "rm": ("run_annotations", "Remove runs with their samples, their output and their MLflow runs."),
    "logs": ("logs", "Write a run's output to standard output."),
    "compare": (
        "querying.compare",
        "Compare runs, rows (mean of all attempts) or workloads by hardware metrics.",
    ),
    "highlights": (
        "querying.highlights",
        "Show a run in ten lines: phases, repetitions, changes, outliers.",
    ),
    "profile": ("querying.profile", "Show what functions, operators and kernels of a run took, or profile it live."),
    "interference": (
        "querying.interference",
        "Show what collocation cost each configuration, and whether it paid off.",
    ),
    "watch": ("querying.watch", "Show running runs live, until all have ended. Ctrl-C leaves and stops nothing."),
    "plot": (
        "querying.plot",
        "Plot runs or workloads over their common time, steps or epochs.",
    ),
    "report": (
        "querying.report",
        "Write a report on runs as one page: comparison, curves, phases, environment.",
    ),
    "share": (
        "querying.view",
        "Write a view file: a selection of runs and metrics, without the data.",
    ),
    "open": (
        "querying.view",
        "Open a view file in the browser, with the current data.",
    ),
    "export": (
        "querying.export",
        "Export runs to a file: samples, tensors, a capsule for another database, or a trace.",
    ),
    "import": ("querying.export", "Import the runs of another database: all new ones, or none."),
    "up": (
        "serving.serve",
        "Start the local stack (database, collector, exporters, MLflow, Grafana where it is installed) and keep it up.",
    ),
    "down": (
        "serving.serve",
        "Stop the local stack. Runs in progress continue unmeasured, and cannot log to MLflow.",
    ),
    "demo": (
        "setup",
        "Run a small real experiment, from training to comparison. It is experiment 0, or the next free one.",
    ),
    "init": ("setup", "Write a commented experiments.csv and a script that run as they are."),
    "doctor": ("setup", "Show what is missing on this host, and the command that fixes it."),
    "exporter": ("serving.serve", "Exporters: list them, or run one."),
    "collector": ("serving.serve", "The collector: scrapes targets into the database."),
    "db": ("database", "The database: schema, address, shell, backup."),
    "dashboards": ("dashboards", "Grafana dashboards: build, check, push."),
    "rules": ("querying.rules", "Rules on runs: bottlenecks, idle devices, outliers."),
}
_HIDDEN = frozenset({"job"})
# Commands by what people want to do, in the order of the help.
GROUPS: dict[str, tuple[str, ...]] = {
    "Begin": ("demo", "init", "doctor"),
    "Run": ("run", "schedule", "sweep", "stop", "calibrate"),
    "Look": ("status", "watch", "list", "logs", "highlights", "profile", "plot", "report"),
    "Compare": ("compare", "interference", "rules", "metrics"),
    "Keep and share": ("note", "keep", "rm", "share", "open", "export", "import"),
    "Serve": ("up", "down", "exporter", "collector", "db", "dashboards"),
}


class DeferredCommand(TyperCommand):
    """Command with its name and the first line of its help; a call imports the rest."""

    def __init__(self, name: str, **settings: Any) -> None:
        self._module, line = COMMANDS[name]
        super().__init__(name, help=line, short_help=line, hidden=name in _HIDDEN, **settings)

    def load(self) -> Any:
        """Import the command."""
        app = Commands(examples={}, rich_markup_mode=self.rich_markup_mode)
        import_module(f"hypergauge.cli.{self._module}").register(app)
        return get_group(app).commands[self.name or ""]

    def make_context(self, *arguments: Any, **extra: Any) -> Any:
        """Make the context of the imported command, which then replaces this one; also for shell completion."""
        return self.load().make_context(*arguments, **extra)


class Catalog(Group):
    """Group of all commands."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: DeferredCommand(name, rich_markup_mode=self.rich_markup_mode) for name in COMMANDS}

    def format_commands(self, _context: Any, formatter: Any) -> None:
        """Write the commands by group."""
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, COMMANDS[name][1]) for name in names])
