"""Variables of dashboards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypergauge.dashboards.grafana.queries import DATASOURCE, Json

__all__ = ["choice", "custom", "hidden", "textbox"]

_ON_LOAD = 1


def choice(
    name: str,
    label: str,
    statement: str,
    *,
    several: bool = True,
    start: Sequence[str] = (),
    description: str = "",
    hide: bool = False,
) -> Json:
    """Return a variable whose values a query gives, in its order.

    Parameters
    ----------
    statement
        Gives ``__value`` and ``__text``, or one column that is both. Dimension tables only: it runs at each load, and again
        whenever a variable that it names changes.
    several
        Whether more than one value can be chosen, or All.
    start
        What is chosen at first, of that what there is; by default All, or the first value where only one can be chosen.
    hide
        Whether it is not shown, but can be set by a link.
    """
    statement = " ".join(statement.split())
    made: Json = {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "definition": statement,
        "query": statement,
        "refresh": _ON_LOAD,
        "sort": 0,
        "regex": "",
        "multi": several,
        "includeAll": several,
        "allowCustomValue": False,
        "current": _current(start, several=several),
        "options": [],
        "hide": 2 if hide else 0,
    }
    return {**made, "description": description} if description else made


def _current(start: Sequence[str], *, several: bool) -> Json:
    if not start:
        return {"text": ["All"], "value": ["$__all"]} if several else {}
    return {"text": list(start), "value": list(start)} if several else {"text": start[0], "value": start[0]}


def custom(name: str, label: str, options: Mapping[str, str], *, description: str = "") -> Json:
    """Return a variable of fixed values: one is chosen of `options`, value → text, at first the first."""
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
    """Return a variable that people type."""
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


def hidden(name: str, values: Sequence[str]) -> Json:
    """Return a variable that is not shown and has fixed values, all of them chosen: what a saved view holds."""
    options = [{"text": value, "value": value, "selected": True} for value in values]
    return {
        "name": name,
        "type": "custom",
        "query": ",".join(values),
        "multi": True,
        "includeAll": False,
        "current": {"text": list(values), "value": list(values)},
        "options": options,
        "hide": 2,
    }
