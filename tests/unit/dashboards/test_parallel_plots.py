"""Runs on parallel axes, read back from the axes and from the picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from hypergauge.dashboards.palette import COLORS
from hypergauge.dashboards.plots.canvas import FAINT
from hypergauge.dashboards.plots.drawings.parallel import scales
from hypergauge.dashboards.plots.figure import draw
from hypergauge.insight.charts.parallel import Parallel, Track
from tests.support.data.pictures import parallel, track

SVG = "{http://www.w3.org/2000/svg}"
UNITS = {"loss": "", "gpu_power": "watts"}


def picture(found: Parallel) -> ET.Element:
    return ET.fromstring(draw(found, ".svg"))


def texts(figure: ET.Element) -> set[str]:
    return {"".join(one.itertext()).strip() for one in figure.iter(f"{SVG}text")}


def lines(figure: ET.Element, color: str) -> list[str]:
    """Return the paths of the lines of a color, without those of markers and of the legend."""
    other = {
        id(path)
        for part in figure.iter()
        if part.tag == f"{SVG}defs" or part.get("id", "").startswith("legend")
        for path in part.iter()
    }
    return [
        path.get("d", "")
        for path in figure.iter(f"{SVG}path")
        if f"stroke: {color.lower()}" in path.get("style", "") and id(path) not in other
    ]


def points(path: str) -> int:
    return path.count("M") + path.count("L")


def sweep(count: int, **statuses: str) -> list[Track]:
    return [
        track(
            f"22/1/{at + 1}", {"lr": f"{0.1 / 10 ** (at % 4):g}", "model": ("a2", "a10", "b")[at % 3]},
            {"loss": 0.1 * (at + 1), "gpu_power": 100.0 + at}, statuses.get(f"run{at + 1}", "finished"),
        )
        for at in range(count)
    ]  # fmt: skip


def test_axes_are_parameters_then_results_with_units() -> None:
    runs = sweep(4)
    lr, model, loss, power = scales(parallel(*runs, units=UNITS))
    assert [one.title for one in (lr, model, loss, power)] == ["lr", "model", "loss", "GPU power (W)"]
    assert [round(lr.position(one), 3) for one in runs] == [1, 0.667, 0.333, 0], "three decades are logarithmic"
    assert sorted(model.ticks, reverse=True) == [(1, "a2"), (0.5, "a10"), (0, "b")], "in natural order from the top"
    assert [loss.position(one) for one in runs] == pytest.approx([0, 1 / 3, 2 / 3, 1])
    few = [track(f"22/1/{at + 1}", {"batch": text}, {"loss": 1.0}) for at, text in enumerate(("32", "64", "128"))]
    batch, loss = scales(parallel(*few, units={"loss": ""}))
    assert [round(batch.position(one), 3) for one in few] == [0, 0.333, 1], "two decades at most are linear"
    assert loss.ticks == ((0.5, "1"),), "equal values have one tick"


def test_what_a_run_lacks_is_below_all_values() -> None:
    full, without = track("22/1/1", {"lr": "0"}, {"loss": 0.0}), track("22/1/2", {}, {})
    other = track("22/1/3", {"lr": "0.1"}, {"loss": 2.0})
    for one in scales(parallel(full, without, other, units={"loss": ""})):
        assert one.position(without) == 0 < one.position(full) < one.position(other) == 1
        assert (0, "none") in one.ticks


def test_a_run_that_ended_early_ends_with_a_cross_at_its_status() -> None:
    runs = sweep(3, run2="failed")
    found = parallel(*runs, units=UNITS)
    status = scales(found)[2]
    assert (status.title, {text for _, text in status.ticks}) == ("status", {"finished", "failed"})
    figure = picture(found)
    assert {"lr", "model", "status", "loss", "GPU power (W)", "22/1/1", "22/1/2", "22/1/3"} <= texts(figure)
    assert [[points(path) for path in lines(figure, color)] for color in COLORS[:3]] == [[5], [3], [5]]
    crosses = [one for one in figure.iter(f"{SVG}use") if f"stroke: {COLORS[1].lower()}" in one.get("style", "")]
    assert len(crosses) == 2, "in the panel and in the legend"
    assert "failed" not in texts(picture(parallel(*sweep(3), units=UNITS)))


def test_the_result_of_a_failed_run_does_not_stretch_the_axis() -> None:
    runs = [*sweep(3), track("22/1/4", {"lr": "0.1", "model": "b"}, {"loss": 1e9}, "failed")]
    loss = scales(parallel(*runs, units={"loss": ""}))[-1]
    assert max(float(text) for _, text in loss.ticks) < 1


@pytest.mark.parametrize(("direction", "words"), [(-1, ("best", "worst")), (None, ("lowest", "highest"))])
def test_many_runs_are_gray_but_the_best_the_worst_and_failed_ones(
    direction: int | None, words: tuple[str, str]
) -> None:
    runs = sweep(40, run7="failed")
    figure = picture(parallel(*runs, units=UNITS, best=0, worst=39, direction=direction))
    named = {f"22/1/1 ({words[0]} loss)", f"22/1/40 ({words[1]} loss)", "22/1/7 (failed)", "37 more runs"}
    assert named <= texts(figure)
    assert len(lines(figure, FAINT)) == 37


def test_few_lines_through_one_name_are_side_by_side() -> None:
    runs = [track(f"22/1/{at + 1}", {"model": "a", "lr": str(at)}, {"loss": 1.0}) for at in range(3)]
    other = track("22/1/4", {"model": "b", "lr": "3"}, {"loss": 1.0})
    figure = picture(parallel(*runs, other, units={"loss": ""}))
    starts = {path.partition("L")[0] for color in COLORS[:3] for path in lines(figure, color)}
    assert len(starts) == 3
