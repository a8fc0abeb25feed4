"""Pictures of the GPU ledger, read back from their text and shapes."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hypergauge.dashboards.palette import COLORS
from hypergauge.dashboards.plots.figure import SUFFIXES, Looks
from hypergauge.dashboards.plots.ledger.page import ledger_page
from hypergauge.dashboards.plots.ledger.picture import draw_ledger
from hypergauge.dashboards.plots.styles import STYLES
from hypergauge.insight.ledger.model import Block, Lane, Ledger
from hypergauge.insight.ledger.stack import stacked
from hypergauge.sql.queries.charts.ledger import Cost, Mark, PlacedRun
from tests.support.browser import browser
from tests.support.data.pictures import notice

SVG = "{http://www.w3.org/2000/svg}"
NOTHING = np.array([], np.float64)
START = 1_800_000_000.0


def block(position: int, begin: float, end: float, value: float | None = 0.5, **fields: Any) -> Block:
    """Return a run from `begin` to `end` with a value per minute."""
    x = np.arange(START + begin, START + end, 60.0) if value is not None else NOTHING
    label = f"20/1/{position}"
    placed = PlacedRun(**{
        "run_id": f"{position:032x}", "run": label, "title": f"{label} a<b", "color": position, "status": "finished",
        "reason": None, "early": False, "place_id": 1, "host": "node1", "lane": "GPU 0", "simulated": False, "shared": True,
        "started_at": datetime.fromtimestamp(START + begin, UTC), "ended_at": datetime.fromtimestamp(START + end, UTC),
        **fields.pop("placed", {}),
    })  # fmt: skip
    return Block(**{
        "placed": placed, "start": START + begin, "end": START + end, "quantity": "" if value is None else "gpu_sm_utilization",
        "own": True, "x": x, "value": np.full(len(x), value or 0.0), "cost": None, "marks": (), **fields,
    })  # fmt: skip


def ledger(*blocks: Block, measure: str = "sm", idle: float | None = None) -> Ledger:
    """Return a ledger of a GPU for an hour."""
    x = NOTHING if idle is None else np.arange(START, START + 3600, 60.0)
    lane = Lane(1, "node1", "GPU 0", False, blocks, x, np.full(len(x), idle or 0.0))
    return Ledger(measure, START, START + 3600, (lane,), "Pairing a and b saved 38% of the time.", (notice("Mind."),))


def texts(figure: ET.Element) -> list[str]:
    return ["".join(one.itertext()).strip() for one in figure.iter(f"{SVG}text")]


def shapes(figure: ET.Element) -> dict[str, ET.Element]:
    """Return the groups of blocks by id."""
    return {one.attrib["id"]: one for one in figure.iter(f"{SVG}g") if one.get("id", "").startswith("block-")}


def test_a_ledger_is_labeled() -> None:
    lost = block(2, 900, 2700, cost=Cost("", 2.0, 0.5, ("20/2/1",)))
    crashed = block(3, 2800, 3500, placed={"early": True, "status": "failed", "reason": "out of memory"})
    marked = block(1, 0, 1800, marks=(Mark("", "phase", "train", START + 60), Mark("", "rule", "slow", START + 90)))
    figure = ET.fromstring(draw_ledger(ledger(marked, lost, crashed), ".svg", Looks(title="Night")))
    words = texts(figure)
    keys = {"time lost to runs beside it", "no run", "phase begins", "rule fired", "ended early"}
    assert {"GPU 0", "100%", "Night", "Mind.", "Pairing a and b saved 38% of the time.", *keys} <= set(words)
    assert "20/1/1 a<b" in words
    found = shapes(figure)
    assert list(found) == ["block-0", "block-1", "block-1-lost", "block-2"]
    titles = {name: one.findtext(f"{SVG}title", "") for name, one in found.items()}
    assert "100% longer than alone (20/2/1), 15:00 lost" in titles["block-1-lost"]
    assert "failed" in titles["block-2"]
    for name, color in (("block-0", COLORS[1]), ("block-1", COLORS[2])):
        assert color.lower() in ET.tostring(found[name], "unicode")


def test_keys_are_of_what_is_there() -> None:
    plain = texts(ET.fromstring(draw_ledger(ledger(block(1, 0, 3600)), ".svg", Looks(notes=False))))
    assert "no run" in plain
    assert not {"time lost to runs beside it", "rule fired", "ended early", "not its own value", "Mind."} & set(plain)


def test_a_run_whose_name_does_not_fit_in_its_block_is_in_the_legend() -> None:
    low = texts(ET.fromstring(draw_ledger(ledger(block(1, 0, 3600, 0.01), block(2, 0, 3600, 0.9)), ".svg", Looks())))
    assert [sorted(low).count(f"20/1/{at} a<b") for at in (1, 2)] == [1, 1]
    many = [block(at, 0, 3600, 0.01) for at in range(1, 9)]
    assert "20/1/1 a<b" not in texts(ET.fromstring(draw_ledger(ledger(*many), ".svg", Looks())))


def test_a_value_that_is_not_its_own_looks_different() -> None:
    figure = ET.fromstring(draw_ledger(ledger(block(1, 0, 1800), block(2, 1800, 3600, own=False)), ".svg", Looks()))
    own, divided = (ET.tostring(one, "unicode") for one in shapes(figure).values())
    assert ("opacity: 0.88" in own, "opacity: 0.4" in divided) == (True, True)
    assert "not its own value" in texts(figure)


def test_runs_stand_on_idle_power_and_on_each_other() -> None:
    [lane] = ledger(block(1, 0, 1800, 200.0), block(2, 600, 1200, 100.0), measure="power", idle=70.0).lanes
    idle, first, second = stacked(lane)
    assert idle.high == pytest.approx(70)
    assert (first.low.min(), first.high.max()) == (70, 270)
    assert (second.low.min(), second.high.max(), second.edges[0], second.edges[-1]) == (
        270,
        370,
        START + 600,
        START + 1200,
    )


def test_a_gap_in_the_values_stays_empty() -> None:
    gappy = block(1, 0, 3600, 0.5)
    kept = (gappy.x < START + 600) | (gappy.x >= START + 3000)
    gappy = replace(gappy, x=gappy.x[kept], value=gappy.value[kept])
    [layer] = stacked(ledger(gappy).lanes[0])
    inside = (layer.edges[:-1] > START + 600) & (layer.edges[:-1] < START + 3000)
    assert layer.high[inside].max() == 0
    assert layer.high[~inside].max() == 0.5


@pytest.mark.parametrize("style", STYLES)
def test_it_is_drawn_in_each_style_and_form(style: str) -> None:
    found = ledger(block(1, 0, 1800), block(2, 900, 2000, None))
    for suffix in SUFFIXES:
        assert draw_ledger(found, suffix, Looks(style)) == draw_ledger(found, suffix, Looks(style))


def test_a_block_on_a_page_leads_to_its_run(tmp_path: Path) -> None:
    page = ledger_page(ledger(block(1, 0, 1800), block(2, 900, 2700)), "GPUs of <20>")
    assert not re.search(r'(?:src|href)="https?:', re.sub(r"<metadata>.*?</metadata>", "", page, flags=re.DOTALL))
    (tmp_path / "ledger.html").write_text(page)
    with browser(tmp_path / "profile") as opened:
        opened.screen(1200)
        opened.open(tmp_path / "ledger.html")
        for name, position in (("block-0", 1), ("block-1", 2)):
            target = opened.run(f"document.querySelector('#{name} a').getAttribute('href')")
            assert opened.run(f"document.querySelector('{target} th').textContent") == f"20/1/{position} a<b"
        assert opened.run("document.querySelector('#block-0 title').textContent").startswith("20/1/1 a<b")
        assert opened.run("document.documentElement.scrollWidth <= innerWidth")
        opened.screen(1200, dark=True)
        assert opened.run("getComputedStyle(document.querySelector('svg.ledger')).color") == "rgb(232, 234, 237)"
