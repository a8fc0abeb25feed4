"""Dashboard files that Grafana provisions, built from code and checked against it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from hypergauge.dashboards.grafana.boards import BOARDS, board
from hypergauge.dashboards.grafana.choices import with_mlflow
from hypergauge.dashboards.grafana.queries import Json
from hypergauge.dashboards.grafana.validity import faults

__all__ = ["FOLDER", "differences", "rendered", "write"]

# Beside the code, in a checkout as in an installed package.
FOLDER = Path(__file__).parents[1] / "generated"


def rendered(dashboard: Json) -> str:
    """Return a dashboard as its file holds it."""
    return json.dumps(dashboard, indent=2, ensure_ascii=False) + "\n"


def write(folder: Path = FOLDER, mlflow: str | None = None, mode: int = 0o666) -> list[Path]:
    """Write a file a dashboard, remove those of dashboards that are gone, and return what was written or removed.

    With `mlflow`, their links lead to the one at that address. New files have `mode`, less the umask.
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
    for path in _strangers(folder):
        path.unlink()
        changed.append(path)
    return changed


def differences(folder: Path = FOLDER) -> Iterator[str]:
    """Yield what is wrong, a line each: files that are not what the code yields, and panels that are not valid."""
    for uid in BOARDS:
        made, path = board(uid), folder / f"{uid}.json"
        yield from (f"{uid}: {fault}" for fault in faults(made))
        if not path.is_file():
            yield f"{path.name} is missing"
        elif (found := path.read_text(encoding="utf-8")) != (wanted := rendered(made)):
            lines = zip([*found.splitlines(), ""], wanted.splitlines(), strict=False)
            line = next((n for n, (old, new) in enumerate(lines, 1) if old != new), 0)
            yield f"{path.name}:{line} is not what the code yields; `bench dashboards build` writes it"
    for path in _strangers(folder):
        yield f"{path.name} is no dashboard of ours; `bench dashboards build` removes it"


def _strangers(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.glob("bench-*.json")) if path.stem not in BOARDS)
