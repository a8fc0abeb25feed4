"""Pages of charts in a real browser: zoom, values, hidden curves, by mouse and by keyboard."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hypergauge.dashboards.plots.page import page
from hypergauge.dashboards.plots.panels import lay_out
from tests.support.browser import Browser, browser
from tests.support.data.pictures import chart, notice, series


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests of the module."""
    with browser(tmp_path_factory.mktemp("browser")) as one:
        yield one


@pytest.fixture
def drawn(opened: Browser, tmp_path: Path) -> Iterator[Browser]:
    """A page of two runs over 100 s with power, and loss as it was logged; in the end there are no console errors."""
    curves = (
        series("20/1/1 narrow", [100.0 + at for at in range(100)]),
        series("20/1/2 wide", [300.0] * 80, simulated=True),
        series("20/1/1 narrow", [2, 1, 0.5], 0, metric="loss", unit="", scope="", x=np.array([0.0, 30.0, 60.0])),
    )
    path = tmp_path / "page.html"
    path.write_text(page([lay_out(chart(*curves, notices=(notice("* 20/1/2 ran on simulated GPUs"),)))], "Two runs"))
    opened.screen(1200)
    opened.open(path)
    yield opened
    assert opened.requests == []
    assert opened.complaints == []


def rows(page: Browser) -> Any:
    return page.run(
        "[...document.querySelectorAll('.legend tbody tr')].map(row => [...row.cells].map(one => one.textContent.trim()))"
    )


def where(page: Browser) -> Any:
    return page.run("document.querySelector('.where').textContent")


def span(page: Browser) -> Any:
    return page.run("charts[0].range().map((x) => Math.round(x))")


def inked(page: Browser, color: tuple[int, int, int], panel: int = 0) -> Any:
    """Return how many pixels of a panel have a color."""
    script = """
        ((panel, wanted) => {
            const canvas = document.querySelectorAll("canvas")[panel];
            const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", {willReadFrequently: true});
            copy.drawImage(canvas, 0, 0);
            const {data} = copy.getImageData(0, 0, canvas.width, canvas.height);
            let found = 0;
            for (let at = 0; at < data.length; at += 4) {
                if (data[at + 3] > 200 && wanted.every((one, part) => Math.abs(data[at + part] - one) < 12)) found++;
            }
            return found;
        })"""
    return page.run(f"{script}({panel}, {list(color)})")


BLUE, ORANGE = (0x32, 0x74, 0xD9), (0xE6, 0x9F, 0x00)


def test_it_shows_what_was_drawn(drawn: Browser) -> None:
    assert drawn.run("document.title") == "Two runs"
    assert drawn.run("[...document.querySelectorAll('h3')].map(one => one.textContent)") == ["GPU power (W)", "loss"]
    assert rows(drawn) == [["20/1/1 narrow", "149.5", "0.5"], ["20/1/2 wide *", "300", ""]]
    assert inked(drawn, BLUE) > 300
    assert inked(drawn, ORANGE) > 300
    assert inked(drawn, ORANGE, panel=1) == 0


def test_a_mean_counts_points_by_their_time(opened: Browser, tmp_path: Path) -> None:
    x = np.array([0.0, 2, 4, 5, 6, 7, 8])
    path = tmp_path / "page.html"
    path.write_text(page([lay_out(chart(series("20/1/1", [100.0, 100, 100, 0, 0, 0, 0], x=x)))], "Uneven"))
    opened.screen(1200)
    opened.open(path)
    assert rows(opened) == [["20/1/1", "57.89"]]


def test_a_cross_marks_the_end_of_a_run_that_ended_early(opened: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    opened.screen(1200)
    found = []
    for early in (False, True):
        curves = series("20/1/1", [100.0] * 20, 0, ended_early=early), series("20/1/2", [300.0] * 40, 0)
        path.write_text(page([lay_out(chart(*curves))], "Two runs"))
        opened.open(path)
        found.append((inked(opened, BLUE), inked(opened, ORANGE)))
    (whole, other), (failed, other_again) = found
    assert failed > whole
    assert other_again == other


def test_the_pointer_shows_every_value(drawn: Browser) -> None:
    left, top, width, height = drawn.box(".u-over")
    drawn.mouse("mouseMoved", left + width * 40 / 99, top + height / 2)
    assert where(drawn) == "at 40 s"
    assert rows(drawn) == [
        ["20/1/1 narrow", "140 (126 \N{EN DASH} 154)", "1"],
        ["20/1/2 wide *", "300 (270 \N{EN DASH} 330)", ""],
    ]
    drawn.mouse("mouseMoved", left + width - 2, top + height / 2)
    assert rows(drawn)[1] == ["20/1/2 wide *", "", ""], "a run that has ended has no value"
    drawn.mouse("mouseMoved", 5, 5)
    assert where(drawn) == ""


def test_dragging_zooms_all_panels_and_a_double_click_shows_all(drawn: Browser) -> None:
    left, top, width, height = drawn.box(".u-over")
    middle = top + height / 2
    drawn.mouse("mouseMoved", left + width * 19.8 / 99, middle)
    drawn.mouse("mousePressed", left + width * 19.8 / 99, middle, clicks=1)
    drawn.mouse("mouseMoved", left + width * 60.4 / 99, middle)
    drawn.mouse("mouseReleased", left + width * 60.4 / 99, middle, clicks=1)
    assert span(drawn) == [20, 60]
    assert drawn.run("charts[0].plots.map((plot) => Math.round(plot.scales.x.max))") == [60, 60]
    drawn.mouse("mouseMoved", 5, 5)
    assert rows(drawn)[0][1] == "140", "the mean of what is seen"
    for clicks in (1, 2):
        drawn.mouse("mousePressed", left + 50, middle, clicks=clicks)
        drawn.mouse("mouseReleased", left + 50, middle, clicks=clicks)
    assert span(drawn) == [0, 99]


def test_a_curve_can_be_left_out(drawn: Browser) -> None:
    drawn.run("document.querySelectorAll('.legend input')[0].click()")
    drawn.frame()
    assert inked(drawn, BLUE) == 0
    assert inked(drawn, ORANGE) > 300
    drawn.run("document.querySelector('[data-all]').click()")
    drawn.frame()
    assert inked(drawn, BLUE) > 300


def test_it_is_read_by_keyboard(drawn: Browser) -> None:
    drawn.run("document.querySelector('.panel').focus()")
    drawn.press("ArrowRight", "ArrowRight")
    assert where(drawn) == "at 1.98 s"
    drawn.press("+")
    assert span(drawn)[1] < 60
    drawn.press("0")
    assert span(drawn) == [0, 99]
    drawn.press("Escape")
    assert where(drawn) == ""
    drawn.press(*["Tab"] * 6, " ")
    assert drawn.run("charts[0].shown") == [False, True], "from panel to panel, and through the heads of the legend"


def test_it_fits_a_telephone_and_the_dark(drawn: Browser) -> None:
    drawn.screen(375, 700, dark=True, mobile=True)
    assert drawn.run("document.documentElement.scrollWidth") <= 375
    assert inked(drawn, ORANGE) > 100, "a run has its color on any ground"
    assert drawn.run("getComputedStyle(document.body).backgroundColor") == "rgb(21, 24, 28)"


def test_print_is_light_and_sharp(drawn: Browser) -> None:
    drawn.screen(1200, dark=True)
    assert drawn.pdf().startswith(b"%PDF")
    assert drawn.run("charts[0].plots[0].ctx.canvas.width / charts[0].plots[0].width") >= 2


GRAY, GREEN = (0x9A, 0x9F, 0xA6), (0x00, 0x9E, 0x73)


@pytest.fixture
def crowded(opened: Browser, tmp_path: Path) -> Iterator[Browser]:
    """A page of forty runs with power; in the end there are no console errors."""
    curves = [series(f"20/1/{at}", [100.0 * at] * 100, 0) for at in range(1, 41)]
    path = tmp_path / "page.html"
    path.write_text(page([lay_out(chart(*curves))], "Forty runs"))
    opened.screen(1440)
    opened.open(path)
    opened.mouse("mouseMoved", 5, 5)
    yield opened
    assert opened.complaints == []


def test_of_many_curves_the_one_that_is_pointed_at_has_its_color(crowded: Browser) -> None:
    assert inked(crowded, GREEN) == 0, "the third of many is gray"
    assert inked(crowded, BLUE) > 300, "the lowest has its color"
    crowded.run("document.querySelectorAll('.legend input')[2].focus()")
    crowded.frame()
    assert (crowded.run("charts[0].focused"), crowded.run("document.querySelectorAll('tr.focused').length")) == (2, 1)
    assert inked(crowded, GREEN) > 300
    crowded.run("document.activeElement.blur()")
    left, top, width, _ = crowded.box(".u-over")
    at = crowded.run("charts[0].plots[0].valToPos(2.5, 'y')")
    crowded.mouse("mouseMoved", left + width / 2, top + at)
    assert crowded.run("charts[0].focused") == 24
    crowded.mouse("mouseMoved", 5, 5)
    assert crowded.run("charts[0].focused") is None
    crowded.run("document.querySelector('.panel').focus()")
    crowded.press("ArrowDown", "ArrowDown")
    assert crowded.run("charts[0].focused") == 1


def test_many_runs_with_a_metric_that_each_logged_once_have_one_axis(opened: Browser, tmp_path: Path) -> None:
    """No position has a value of three quarters of the runs, so there is no median of the logged metric."""
    load = [series(f"20/1/{at}", [10.0 + at / 10] * 90 + [30.0 + at / 10] * 10, 0) for at in range(1, 41)]
    logged = [
        series(
            f"20/1/{at}", [0.5, 0.1 * at], 0, metric="accuracy", unit="", scope="", x=np.array([2.0 * at, 2.0 * at + 1])
        )
        for at in range(1, 41)
    ]
    path = tmp_path / "page.html"
    path.write_text(page([lay_out(chart(*load, *logged))], "Forty runs"))
    opened.screen(1440)
    opened.open(path)
    assert opened.run("charts[0].whole()") == [0, 99]
    assert opened.run("charts[0].plots.map((plot) => [plot.scales.x.min, plot.scales.x.max])") == [[0, 99]] * 2
    means = opened.run("[...charts[0].values[0]]")
    assert means == pytest.approx([12.0 + at / 10 for at in range(1, 41)], rel=0.01), "over the whole range"
    opened.run("document.querySelector('[data-zoom=in]').click()")
    opened.frame()
    zoomed = opened.run("charts[0].plots.map((plot) => [plot.scales.x.min, plot.scales.x.max])")
    assert zoomed[0] == zoomed[1] == pytest.approx([24.75, 74.25])
    opened.run("document.querySelector('[data-zoom=reset]').click()")
    opened.picture(tmp_path / "forty.png")
    assert opened.complaints == []


def test_the_legend_stands_beside_the_panels_and_sorts_by_value(crowded: Browser) -> None:
    panels, legend = crowded.box(".panels"), crowded.box(".chart .scroll")
    assert legend[0] >= panels[0] + panels[2]
    assert legend[3] <= 900, "it scrolls"
    found = [[row[0] for row in rows(crowded)[:2]]]
    for _ in range(3):
        crowded.run("document.querySelector('[data-sort]').click()")
        found.append([row[0] for row in rows(crowded)[:2]])
    first = ["20/1/1", "20/1/2"]
    assert found == [first, ["20/1/40", "20/1/39"], first, first]
    assert crowded.run("document.querySelector('[aria-sort]')") is None
    crowded.run("document.querySelector('[data-sort]').click(); document.querySelector('tbody input').click()")
    assert crowded.run("charts[0].shown.indexOf(false)") == 39, "the box of the highest is that of its curve"
    crowded.screen(800)
    assert crowded.box(".chart .scroll")[1] > crowded.box(".panels")[1]


def test_the_time_on_a_shared_gpu_is_thin(opened: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    opened.screen(1200)
    found = []
    for shared in ((), ((25.0, 75.0),), ((0.0, 100.0),)):
        path.write_text(
            page([lay_out(chart(series("20/1/1", [100.0] * 100, 0, scope="device", shared=shared)))], "One")
        )
        opened.open(path)
        found.append(inked(opened, BLUE))
    assert found[0] > found[1] > found[2] > 100


def test_the_value_of_a_shared_gpu_is_marked_and_not_ranked(opened: Browser, tmp_path: Path) -> None:
    """The whole GPU was busier than any run of its own."""
    curves = (
        series("20/1/1 beside", [300.0] * 100, 0, scope="device", shared=((50.0, 100.0),)),
        series("20/1/2 alone", [100.0] * 100, 0, scope="device"),
        series("20/1/3 idle", [50.0] * 100, 0, scope="device"),
    )
    path = tmp_path / "page.html"
    path.write_text(page([lay_out(chart(*curves))], "Three runs"))
    opened.screen(1200)
    opened.open(path)
    assert rows(opened) == [["20/1/1 beside", "300†"], ["20/1/2 alone", "100"], ["20/1/3 idle", "50"]]
    opened.run("document.querySelector('[data-sort]').click()")
    assert [name for name, _ in rows(opened)] == ["20/1/2 alone", "20/1/3 idle", "20/1/1 beside"]
    opened.run("document.querySelector('[data-sort]').click()")
    assert [name for name, _ in rows(opened)] == ["20/1/3 idle", "20/1/2 alone", "20/1/1 beside"]


def test_the_last_value_is_that_of_the_run(opened: Browser, tmp_path: Path) -> None:
    """A loss that became NaN has no last value, and the points of a long curve are means."""
    loss = {"metric": "loss", "unit": "", "scope": "", "x": np.array([0.0, 30.0, 60.0]), "logged": True}
    curves = (
        series("20/1/1 diverged", [2, 0.1, math.nan], 0, last=math.nan, **loss),
        series("20/1/2 gone", [2, 0.2, 0.3], 0, last=math.nan, **loss),
        series("20/1/3 long", [2, 1, 0.75], 0, last=0.5, **loss),
    )
    path = tmp_path / "page.html"
    path.write_text(page([lay_out(chart(*curves))], "Three runs"))
    opened.screen(1200)
    opened.open(path)
    assert [value for _, value in rows(opened)] == ["NaN", "NaN", "0.5"]
