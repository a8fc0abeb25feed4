"""Kinds of the catalog's metrics: gauge or counter, whatever a source declares."""

from __future__ import annotations

import functools
import re
from importlib.resources import files
from typing import Literal, cast

from hypergauge.sql.server.database import Connection

__all__ = ["Kind", "catalog_kinds", "packaged_kinds"]

Kind = Literal["gauge", "counter"]

_FILE = "schema/functions/bench/10_catalog.sql"
_ROW = re.compile(r"^ +\('(\w+)', '[^']*', '\w+', '[^']*', [^,]+, '(gauge|counter)',", re.MULTILINE)


@functools.cache
def packaged_kinds() -> dict[str, Kind]:
    """Return the kinds of the packaged catalog by metric, for a collector that starts without its database."""
    text = files("hypergauge.sql").joinpath(_FILE).read_text(encoding="utf-8")
    return {metric: cast("Kind", kind) for metric, kind in _ROW.findall(text)}


def catalog_kinds(connection: Connection) -> dict[str, Kind]:
    """Return the kinds of the database's catalog by metric, those of the users' own rows included."""
    rows = connection.execute(
        "select metric, min(kind) from metrics where origin = '' group by metric having min(kind) = max(kind)"
    )
    return {metric: cast("Kind", kind) for metric, kind in rows}
