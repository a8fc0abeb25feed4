"""Layout of dashboards: rows of panels, variables, links, annotations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hypergauge.dashboards.grafana.queries import DATASOURCE, Json

__all__ = ["SCHEMA", "Row", "aligned_dashboard", "annotation", "board_link", "dashboard", "fit_link"]

SCHEMA = 42
TAG = "hypergauge"
_COLUMNS = 24


@dataclass(frozen=True, slots=True)
class Row:
    """A headline and its panels: initially hidden if `collapsed`, once for each value of the variable `repeat`."""

    title: str
    panels: Sequence[Json]
    collapsed: bool = False
    repeat: str | None = None


def dashboard(
    uid: str,
    title: str,
    content: Sequence[Json | Row],
    *,
    description: str = "",
    variables: Sequence[Json] = (),
    links: Sequence[Json] = (),
    annotations: Sequence[Json] = (),
    start: str = "now-1h",
    stop: str = "now",
    refresh: str = "",
    timezone: str = "browser",
    tags: Sequence[str] = (TAG,),
    with_clock: bool = True,
) -> Json:
    """Return a dashboard, with panels placed from left to right and from top to bottom.

    Parameters
    ----------
    content
        Panels, and rows of them.
    start, stop
        The initial time range.
    refresh
        The interval of automatic refresh, such as ``10s``; empty for none.
    timezone
        ``utc`` if times count from 1970.
    with_clock
        Whether the choice of the time range is shown.
    """
    return {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": list(tags),
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "liveNow": False,
        "preload": False,
        "fiscalYearStartMonth": 0,
        "weekStart": "",
        "timezone": timezone,
        "time": {"from": start, "to": stop},
        "timepicker": {"hidden": not with_clock, "refresh_intervals": ["5s", "10s", "30s", "1m", "5m"]},
        "refresh": refresh,
        "links": list(links),
        "templating": {"list": list(variables)},
        "annotations": {"list": list(annotations)},
        "panels": list(_placed(content)),
    }


def aligned_dashboard(
    uid: str, title: str, content: Sequence[Json | Row], *, seconds: float = 3600, **more: Any
) -> Json:
    """Return a dashboard on which all runs start at 00:00 (in 1970, to Grafana) and that shows `seconds`.

    The choice of the time range is hidden, since its dates mean nothing: dragging over a chart zooms, `fit_link` shows all.
    """
    return dashboard(
        uid, title, content, start=_moment(0), stop=_moment(seconds), timezone="utc", with_clock=False, **more
    )


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(math.ceil(seconds), UTC):%Y-%m-%dT%H:%M:%S.000Z}"


def board_link(title: str, uid: str, *, keep_time: bool = False) -> Json:
    """Return a link to another dashboard that keeps the selection."""
    return {
        "title": title,
        "type": "link",
        "url": f"/d/{uid}",
        "icon": "dashboard",
        "tooltip": "",
        "tags": [],
        "asDropdown": False,
        "includeVars": True,
        "keepTime": keep_time,
        "targetBlank": False,
    }


def fit_link(uid: str) -> Json:
    """Return a link that fits the time range to the longest run; it needs the variable `choices.fit`."""
    return {
        **board_link("Fit", uid),
        "url": f"/d/{uid}?from=1970-01-01T00:00:00.000Z&to=${{fit}}",
        "icon": "bolt",
        "tooltip": "Time range of the longest run",
    }


def annotation(
    name: str, statement: str, *, color: str = "rgba(120, 120, 120, 0.6)", enabled: bool = True, hidden: bool = False
) -> Json:
    """Return annotations from a query's ``time``, ``timeend``, ``text`` and ``tags``; `hidden` ones have no switch."""
    return {
        "name": name,
        "datasource": DATASOURCE,
        "enable": enabled,
        "hide": hidden,
        "iconColor": color,
        "target": {
            "refId": "Anno",
            "editorMode": "code",
            "format": "table",
            "rawQuery": True,
            "rawSql": " ".join(statement.split()),
        },
    }


def _placed(content: Sequence[Json | Row]) -> Iterator[Json]:
    """Yield panels and Grafana rows with their ids and positions."""
    position = _Placement()
    for item in content:
        if not isinstance(item, Row):
            yield position.panel(item)
            continue
        header = position.row(item)
        panels = [position.panel(one) for one in item.panels]
        # A collapsed row contains its panels and takes one line; an open row precedes them.
        yield {**header, "panels": panels if item.collapsed else []}
        if item.collapsed:
            position.continue_below(header)
        else:
            yield from panels


class _Placement:
    """Position of the next panel."""

    def __init__(self) -> None:
        self._last_id = 0
        self._x = self._y = self._bottom = 0

    def panel(self, panel: Json) -> Json:
        size = panel["gridPos"]
        if self._x + size["w"] > _COLUMNS:
            self._x, self._y = 0, self._bottom
        position = {"h": size["h"], "w": size["w"], "x": self._x, "y": self._y}
        self._x += size["w"]
        self._bottom = max(self._bottom, self._y + size["h"])
        return {**panel, "id": self._next_id(), "gridPos": position}

    def row(self, row: Row) -> Json:
        self._x, self._y = 0, self._bottom
        header: Json = {
            "id": self._next_id(),
            "type": "row",
            "title": row.title,
            "collapsed": row.collapsed,
            "gridPos": {"h": 1, "w": _COLUMNS, "x": 0, "y": self._y},
            **({"repeat": row.repeat} if row.repeat else {}),
        }
        self.continue_below(header)
        return header

    def continue_below(self, header: Json) -> None:
        self._x, self._y = 0, header["gridPos"]["y"] + 1
        self._bottom = self._y

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id
