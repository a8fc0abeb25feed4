"""Tables of docs/reference/exposition.md, checked with both parsers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from hypergauge.collector.convert.exposition import GarbageExposition, Parser

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "exposition.md"


def rows() -> list[tuple[bool, str, str, str]]:
    """Return each row: whether it is about OpenMetrics, the response, the reference's result and ours."""
    text, openmetrics = PAGE.read_text().split("Against `prometheus_client.openmetrics.parser`")
    found = []
    for is_openmetrics, part in ((False, text), (True, openmetrics)):
        cells = re.findall(r"^\| `(.+?)` \| `(.+?)` \| `(.+?)` \| .+ \|$", part, re.MULTILINE)
        found += [
            (is_openmetrics, exposition.encode().decode("unicode_escape"), *results) for exposition, *results in cells
        ]
    return found


def shown(name: str, labels: Iterable[tuple[str, str]], value: object, time: float | None) -> str:
    """Return a sample in the tables' format."""
    inside = ",".join(f'{label}="{text}"' for label, text in labels)
    return f"{name}{f'{{{inside}}}' if inside else ''} {value}{'' if time is None else f' @{time}'}"


def there(families: Callable[[str], Iterable[Metric]], exposition: str) -> str:
    """Return the reference's result for a response."""
    try:
        samples = [sample for family in families(exposition) for sample in family.samples]
    except ValueError:
        return "refused"
    exact = [s.value if s.value is None or abs(s.value) > 2**53 else float(s.value) for s in samples]
    times = [None if s.timestamp is None else float(s.timestamp) for s in samples]
    return ", ".join(
        shown(s.name, (s.labels or {}).items(), value, time)
        for s, value, time in zip(samples, exact, times, strict=True)
    )


def here(exposition: str) -> str:
    """Return our parser's result for a response."""
    parser = Parser()
    try:
        scrape = parser.parse(exposition.encode())
    except GarbageExposition:
        return "malformed"
    columns = zip(scrape.refs.tolist(), scrape.values.tolist(), scrape.timestamps.tolist(), strict=True)
    return ", ".join(
        shown(parser.series[ref].metric, parser.series[ref].labels, value, None if math.isnan(time) else time)
        for ref, value, time in columns
    )


def test_all_rows_of_the_page_are_checked() -> None:
    assert len(rows()) == sum(line.startswith("| `") for line in PAGE.read_text().splitlines())


@pytest.mark.parametrize(("is_openmetrics", "exposition", "reference", "ours"), rows())
def test_the_parsers_differ_as_documented(is_openmetrics: bool, exposition: str, reference: str, ours: str) -> None:
    assert there(openmetrics_families if is_openmetrics else text_families, exposition) == reference
    assert here(exposition) == ours
