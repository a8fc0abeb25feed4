"""Files of a run that a training has written."""

from __future__ import annotations

import base64
import json
import struct
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypergauge.sql.ingest.software import SpanRecord

__all__ = ["Recorded", "Row", "read_rows"]


@dataclass(frozen=True)
class Row:
    step: int
    size: int
    values: dict[str, float]


@dataclass(frozen=True)
class Recorded:
    """Content of a run's two files, and what the script printed last."""

    spans: list[SpanRecord]
    work: list[dict[str, Any]]
    rows: dict[tuple[str, str], list[Row]]
    problems: list[str]
    printed: dict[str, Any]

    def named(self, kind: str) -> list[SpanRecord]:
        return [span for span in self.spans if span.kind == kind]

    def phases(self) -> Counter[str]:
        return Counter(span.name for span in self.named("phase"))

    def losses(self, name: str) -> list[float]:
        return [row.values["mean"] for row in self.rows["losses", name]]

    def parent(self, span: SpanRecord) -> str | None:
        return next((one.name for one in self.spans if one.span_id == span.parent_id), None)


def read_rows(path: Path) -> tuple[dict[tuple[str, str], list[Row]], list[str]]:
    sets: dict[str, dict[str, Any]] = {}
    rows: dict[tuple[str, str], list[Row]] = {}
    problems = []
    for line in path.read_text().splitlines() if path.exists() else ():
        content = json.loads(line)
        if "problem" in content:
            problems.append(content["problem"])
        elif "gap" in content:
            continue
        elif "names" in content:
            assert content["set"] not in sets
            sets[content["set"]] = content
        else:
            named = sets[content["set"]]
            columns = {
                key: struct.unpack(f"<{len(named['names'])}f", base64.b64decode(value))
                for key, value in content.items()
                if isinstance(value, str) and key != "set"
            }
            for number, name in enumerate(named["names"]):
                size = content.get("sizes", named["sizes"])[number]
                row = Row(content["step"], size, {key: column[number] for key, column in columns.items()})
                known = rows.setdefault((named["collection"], name), [])
                assert row.step not in [one.step for one in known], "a step has one row of a tensor"
                known.append(row)
    return rows, problems
