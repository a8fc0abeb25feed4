"""Pages of the reference, and the parts of them that are generated.

A page marks such a part by its name, and keeps the hand-written text around it::

    <!-- rules: made by make reference -->

    …

    <!-- /rules -->
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from docs.generate import columns, exporters, notices, options, quantities, relations, rules, settings
from hypergauge.sql.server.database import Connection

__all__ = ["FOLDER", "PARTS", "pages", "part_names", "rendered"]

FOLDER = Path(__file__).parents[1] / "reference"
_PART = re.compile(r"<!-- (?P<name>[\w-]+): made by make reference -->\n.*?<!-- /(?P=name) -->", re.DOTALL)

# Markdown of a part by its name; the catalogs in the database come from the connection.
PARTS: Mapping[str, Callable[[Connection], str]] = {
    "columns": lambda _: columns.table(),
    "environments": lambda _: settings.environments(),
    "metrics": quantities.tables,
    "notices": notices.codes,
    "options": lambda _: options.sections(),
    "reasons": notices.reasons,
    "relations": relations.sections,
    "rules": lambda _: rules.sections(),
    "settings": lambda _: settings.sections(),
    "sources": quantities.sources,
    **{f"exporter-{name}": partial(exporters.table_of, name) for name in exporters.NAMES},
}


def pages() -> list[Path]:
    """Return the pages with generated parts."""
    return [page for page in sorted(FOLDER.glob("*.md")) if part_names(page)]


def part_names(page: Path) -> list[str]:
    """Return the names of the generated parts of a page, in their order."""
    return [part["name"] for part in _PART.finditer(page.read_text(encoding="utf-8"))]


def rendered(page: Path, connection: Connection) -> str:
    """Return the text of a page with its generated parts as of now."""

    def part(found: re.Match[str]) -> str:
        name = found["name"]
        text = PARTS[name](connection).strip()
        return f"<!-- {name}: made by make reference -->\n\n{text}\n\n<!-- /{name} -->"

    return _PART.sub(part, page.read_text(encoding="utf-8"))
