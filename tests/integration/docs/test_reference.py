"""Generated parts of the reference against the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hypergauge
from docs.generate.exporters import GOLDEN
from docs.generate.pages import FOLDER, PARTS, pages, part_names, rendered
from hypergauge.exporters.serving.gpu_helps import GPU_HELPS
from hypergauge.scheduler.experiment.cells import LISTENERS
from hypergauge.sql.server.database import Database

pytestmark = pytest.mark.flavours


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_a_page_is_up_to_date(page: Path, database: Database) -> None:
    with database.session() as connection:
        text = rendered(page, connection)
    assert page.read_text(encoding="utf-8") == text, f"docs/reference/{page.name} is stale: make reference"


def test_every_part_is_on_one_page() -> None:
    assert sorted(name for page in pages() for name in part_names(page)) == sorted(PARTS)


def test_every_marker_is_that_of_a_part() -> None:
    markers = [
        line
        for page in FOLDER.glob("*.md")
        for line in page.read_text(encoding="utf-8").splitlines()
        if "<!-- " in line
    ]
    assert len(markers) == 2 * len(PARTS)


def test_every_variable_of_the_code_is_on_a_page() -> None:
    rooms = (
        Path(hypergauge.__file__).parent / room
        for room in ("cli", "client", "core", "dashboards", "exporters", "scheduler", "sql", "stack")
    )
    code = "".join(path.read_text(encoding="utf-8") for room in rooms for path in room.resolve().rglob("*.py"))
    pages = "".join(page.read_text(encoding="utf-8") for page in FOLDER.parent.rglob("*.md"))
    used = set(re.findall(r'"(BENCH_[A-Z_]+)"', code)) - {
        "BENCH_PROFILERS", "BENCH_READER_PASSWORD", "BENCH_SUPERVISOR",  # between processes of ours
    }  # fmt: skip
    assert {name for name in used if f"`{name}`" not in pages} == set()


def test_every_exporter_has_a_table() -> None:
    assert {f"exporter-{name}" for name in LISTENERS} <= PARTS.keys()


def test_the_golden_expositions_have_every_metric_of_gpus() -> None:
    shown = {
        name
        for path in GOLDEN.glob("nvml-*.txt")
        for name in re.findall(r"^# HELP (\w+)", path.read_text(), re.MULTILINE)
    }
    assert shown == set(GPU_HELPS)
