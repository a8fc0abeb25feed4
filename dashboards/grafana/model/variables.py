"""Variables of dashboards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypergauge.dashboards.grafana.queries import DATASOURCE, Json

__all__ = ["choice", "custom", "textbox"]

_ON_LOAD, _ON_TIME_RANGE = 1, 2


def choice(
    name: str,
    label: str,
    statement: str,
    *,
    several: bool = True,
    start: Sequence[str] = (),
    description: str = "",
    hide: bool = False,
    labelled: bool = True,
    timed: bool = False,
) -> Json:
    """Return a variable with the values of a query, in its order.

    Parameters
    ----------
    statement
        Returns ``__value`` and ``__text``, or one column for both. It reads dimension tables only: Grafana runs it at each
        load and whenever a variable in it changes.
    several
        Whether users can choose several values, or All.
    start
        Initial values, as far as they exist; by default All, or the first value of a single choice.
    hide
        Whether it is invisible and set by links only.
    labelled
        Whether its label is shown; that of a variable that follows another may be left out.
    timed
        Whether its statement depends on the time range.
    """
    statement = " ".join(statement.split())
    made: Json = {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "definition": statement,
        "query": statement,
        "refresh": _ON_TIME_RANGE if timed else _ON_LOAD,
        "sort": 0,
        "regex": "",
        "multi": several,
        "includeAll": several,
        "allowCustomValue": False,
        "current": _current(start, several=several),
        "options": [],
        "hide": 2 if hide else 0 if labelled else 1,
    }
    return {**made, "description": description} if description else made


def _current(start: Sequence[str], *, several: bool) -> Json:
    if not start:
        return {"text": ["All"], "value": ["$__all"]} if several else {}
    return {"text": list(start), "value": list(start)} if several else {"text": start[0], "value": start[0]}


def custom(name: str, label: str, options: Mapping[str, str], *, description: str = "") -> Json:
    """Return a variable with one of the fixed `options`, value → text; initially the first."""
    made = [
        {"text": text, "value": value, "selected": position == 0}
        for position, (value, text) in enumerate(options.items())
    ]
    return {
        "name": name,
        "label": label,
        "type": "custom",
        "query": ", ".join(f"{text} : {value}" for value, text in options.items()),
        "multi": False,
        "includeAll": False,
        "allowCustomValue": False,
        "current": {"text": made[0]["text"], "value": made[0]["value"]},
        "options": made,
        "hide": 0,
        **({"description": description} if description else {}),
    }


def textbox(name: str, label: str, value: str = "", *, description: str = "") -> Json:
    """Return a variable with typed text."""
    return {
        "name": name,
        "label": label,
        "type": "textbox",
        "query": value,
        "current": {"text": value, "value": value},
        "options": [{"text": value, "value": value, "selected": True}],
        "hide": 0,
        **({"description": description} if description else {}),
    }
