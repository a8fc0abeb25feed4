"""Golden responses of exporters; ``BENCH_WRITE_GOLDEN=1`` writes them."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from hypergauge.collector.convert.exposition import Parser
from hypergauge.exporters.serving.text import render
from tests.support.waiting import HUNG_SECONDS

__all__ = ["check_golden", "check_parses", "promtool_findings"]

FOLDER = Path(__file__).parents[2] / "data" / "golden"


def check_golden(name: str, page: bytes | str | Iterable[Metric]) -> None:
    """Compare an exposition, or rendered families, with ``tests/data/golden/NAME.txt``."""
    if not isinstance(page, str):
        page = (page if isinstance(page, bytes) else render(page)).decode()
    page = page.replace(f'-{platform.node()}"', '-HOST"')  # identity of an integrated GPU
    path = FOLDER / f"{name}.txt"
    if os.environ.get("BENCH_WRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(page, encoding="utf-8")
    assert path.exists(), f"{path.name} is missing: BENCH_WRITE_GOLDEN=1 writes it"
    assert page == path.read_text(encoding="utf-8"), f"if {path.name} is to change: BENCH_WRITE_GOLDEN=1"


def check_parses(page: bytes) -> None:
    """Check that the parsers of Prometheus and of the collector read each line of an exposition as a distinct series."""
    lines = sum(1 for line in page.splitlines() if not line.startswith(b"#"))
    families = list(text_string_to_metric_families(page.decode()))
    assert len({family.name for family in families}) == len(families)
    assert sum(len(family.samples) for family in families) == lines
    scrape = Parser().parse(page)
    assert (len(scrape.refs), scrape.malformed, scrape.repeated) == (lines, 0, 0)


def promtool_findings(page: bytes | str) -> list[str]:
    """Return the findings of Prometheus's linter in an exposition, or in a golden one by name; skip without promtool."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed: it comes with Debian's package prometheus")
    if isinstance(page, str):
        page = (FOLDER / f"{page}.txt").read_bytes()
    done = subprocess.run(
        [promtool, "check", "metrics"], input=page, capture_output=True, check=False, timeout=HUNG_SECONDS
    )
    return (done.stdout + done.stderr).decode().splitlines()
