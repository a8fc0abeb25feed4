"""Recorded sessions: the demo, a first experiment, and its comparison."""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from docs.pictures.terminal import record

__all__ = ["SESSIONS", "Session", "record_session"]

_WIDTH = 100  # characters
_FIRST = "first"  # folder of the first experiment
_SCHEDULE = (f"bench init {_FIRST}", f"bench schedule {_FIRST}/experiments.csv")


@dataclass(frozen=True, slots=True)
class Session:
    """Commands of a session, after those that it needs."""

    commands: tuple[str, ...]
    before: tuple[str, ...] = ()


SESSIONS = {
    "demo": Session(("bench demo",)),
    "schedule": Session(_SCHEDULE),
    "compare": Session(
        ("bench compare 1", "bench interference 1"),
        before=_SCHEDULE,
    ),
}


def record_session(name: str, folder: Path, home: Path) -> Path:
    """Run a session with an own `BENCH_HOME`, and write it to a folder as SVG.

    The demo and the schedule are recorded in a home without them. The comparison runs the schedule first if it is missing.
    """
    session = SESSIONS[name]
    work = home / "work"
    work.mkdir(parents=True, exist_ok=True)
    variables = environment(home)
    file = folder / f"{name}.svg"
    with tempfile.TemporaryDirectory(prefix="bench-pictures-") as other:
        for command in session.before if not (work / _FIRST).exists() else ():
            record([command], Path(other) / "before.svg", title="", width=_WIDTH, folder=work, environment=variables)
    record(
        session.commands, file, title="hypergauge", width=_WIDTH, folder=work, environment=variables,
        renamed={str(home): "~/.local/share/hypergauge"},
    )  # fmt: skip
    return file


def environment(home: Path) -> dict[str, str]:
    """Return the variables of commands: this interpreter's `bench` first, and an own `BENCH_HOME`."""
    return {"BENCH_HOME": str(home), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
