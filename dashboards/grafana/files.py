"""Dashboard files for Grafana's provisioning, built from code and checked against it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from hypergauge.dashboards.grafana.boards import BOARDS, board
from hypergauge.dashboards.grafana.choices import with_mlflow
from hypergauge.dashboards.grafana.queries import Json
from hypergauge.dashboards.grafana.validity import faults

__all__ = ["FOLDER", "differences", "rendered", "write"]

FOLDER = Path(__file__).parents[1] / "generated"


def rendered(dashboard: Json) -> str:
    """Return the content of a dashboard's file."""
    return json.dumps(dashboard, indent=2, ensure_ascii=False) + "\n"


def write(folder: Path = FOLDER, mlflow: str | None = None, mode: int = 0o666) -> list[Path]:
    """Write a file for each dashboard, remove those of removed dashboards, and return the changed paths.

    Links lead to the address `mlflow`, if given. New files have `mode`, less the umask.
    """
    folder.mkdir(parents=True, exist_ok=True)
    changed = []
    for uid in BOARDS:
        made = board(uid) if mlflow is None else with_mlflow(board(uid), mlflow)
        path, content = folder / f"{uid}.json", rendered(made)
        if not path.is_file() or path.read_text(encoding="utf-8") != content:
            path.touch(mode)
            path.write_text(content, encoding="utf-8")
            changed.append(path)
    for path in _unknown_files(folder):
        path.unlink()
        changed.append(path)
    return changed


def differences(folder: Path = FOLDER) -> Iterator[str]:
    """Yield differences between files and code, and faults of panels, one line each."""
    for uid in BOARDS:
        made, path = board(uid), folder / f"{uid}.json"
        yield from (f"{uid}: {fault}" for fault in faults(made))
        if not path.is_file():
            yield f"{path.name} is missing"
        elif (found := path.read_text(encoding="utf-8")) != (wanted := rendered(made)):
            lines = zip([*found.splitlines(), ""], wanted.splitlines(), strict=False)
            line = next((n for n, (old, new) in enumerate(lines, 1) if old != new), 0)
            yield f"{path.name}:{line} differs from the code; `bench dashboards build` writes it"
    for path in _unknown_files(folder):
        yield f"{path.name} belongs to no dashboard; `bench dashboards build` removes it"


def _unknown_files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.glob("bench-*.json")) if path.stem not in BOARDS)
