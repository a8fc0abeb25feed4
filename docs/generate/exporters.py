"""Metrics of exporters: names, types, labels and help texts, from the golden expositions of the tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from docs.generate.markdown import code, table
from hypergauge.sql.server.database import Connection

__all__ = ["GOLDEN", "NAMES", "table_of"]

GOLDEN = Path(__file__).parents[2] / "tests" / "data" / "golden"
NAMES = ("amd", "apple", "dcgm", "host", "intel", "jetson", "nvml", "process", "rapl")


def table_of(exporter: str, _: Connection) -> str:
    """Return a row for each metric in the expositions of an exporter, with all labels of its series."""
    rows: dict[str, tuple[str, set[str], str]] = {}
    for family in _families(exporter):
        for sample in family.samples:
            _kind, labels, _text = rows.setdefault(sample.name, (family.type, set(), family.documentation))
            labels.update(sample.labels)
    return table(
        ["metric", "type", "labels", "meaning"],
        ([f"`{name}`", kind, code(sorted(labels)), text] for name, (kind, labels, text) in sorted(rows.items())),
    )


def _families(exporter: str) -> Iterator[Metric]:
    for path in sorted(GOLDEN.glob("*.txt")):
        if path.stem == exporter or path.stem.startswith(f"{exporter}-"):
            yield from text_string_to_metric_families(path.read_text(encoding="utf-8"))
