"""Plots in files, read back from their text and paths."""

from __future__ import annotations

import hashlib
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from hypergauge import dashboards
from hypergauge.core.errors import BadRequest
from hypergauge.dashboards.palette import COLORS, STROKES
from hypergauge.dashboards.plots.axes import time_axis, value_axis
from hypergauge.dashboards.plots.drawings.heatmap import draw_heatmap
from hypergauge.dashboards.plots.figure import Looks, draw
from hypergauge.dashboards.plots.page import chart_data, page
from hypergauge.dashboards.plots.panels import lay_out
from hypergauge.dashboards.plots.rows import lay_out_bars
from hypergauge.dashboards.plots.styles import STYLES
from hypergauge.dashboards.shades import SCALE
from hypergauge.dashboards.terminal.sharing import Cell, Grid
from hypergauge.insight.charts.chart import Series
from hypergauge.insight.charts.spread import extremes, spread
from hypergauge.sql.queries.charts.chart_styles import ChartStyle
from tests.support.data.pictures import bar, bars, chart, notice, series

SVG = "{http://www.w3.org/2000/svg}"
ASSETS = Path(dashboards.__file__).parent / "assets"


def svg(*some: Series, style: str = "paper", size: tuple[float, float] | None = None, **fields: object) -> ET.Element:
    return ET.fromstring(draw(lay_out(chart(*some, **fields)), ".svg", Looks(style, size)))


def texts(figure: ET.Element) -> list[str]:
    return ["".join(one.itertext()).strip() for one in figure.iter(f"{SVG}text")]


def strokes(figure: ET.Element) -> list[tuple[str, str, str]]:
    """Return color, dashes and path of each curve."""
    found = []
    for path in figure.iter(f"{SVG}path"):
        style = dict(part.split(": ", 1) for part in path.get("style", "").split("; ") if ": " in part)
        if style.get("stroke", "").upper() in COLORS and path.get("clip-path"):
            found.append((style["stroke"].upper(), style.get("stroke-dasharray", ""), path.get("d", "")))
    return found


@pytest.mark.parametrize(
    ("metric", "unit", "largest", "title"),
    [
        ("gpu_power", "watts", 312.0, "GPU power (W)"),
        ("gpu_power", "watts", 1.2e3, "GPU power (kW)"),
        ("gpu_energy_attributed", "joules", 0.02, "GPU energy attributed (mJ)"),
        ("memory_used", "bytes", 250 * 2.0**20, "Memory used (MiB)"),
        ("memory_used", "bytes", 100.0, "Memory used (B)"),
        ("disk_read", "bytes/s", 3e9, "Disk read (GiB/s)"),
        ("gpu_sm_active", "ratio", 0.9, "GPU SM active (%)"),
        ("gpu_sm_clock", "hertz", 1.98e9, "GPU SM clock (GHz)"),
        ("gpu_temperature", "celsius", 71.0, "GPU temperature (°C)"),
        ("gpu_pcie_receive", "bytes/s", 0.0, "GPU PCIe receive (B/s)"),
        ("cpu_usage", "cores", 1.9, "CPU usage (cores)"),
        ("gpu_power", "watts", 0.0, "GPU power (W)"),
        ("val/loss", "", 1e9, "val/loss"),
    ],
)
def test_values_are_in_the_unit_in_which_they_are_read(metric: str, unit: str, largest: float, title: str) -> None:
    assert value_axis(metric, unit, largest).title == title


@pytest.mark.parametrize(
    ("align", "longest", "title"),
    [
        ("time", 90, "time since the start (s)"),
        ("time", 3000, "time since the start (min)"),
        ("time", 5 * 3600, "time since the start (h)"),
        ("time", 7 * 86_400, "time since the start (days)"),
        ("phase", 90, "time since training began (s)"),
        ("phase:train", 90, "time since train began (s)"),
        ("step", 1e6, "step"),
        ("epoch", 3, "epoch"),
    ],
)
def test_a_common_axis_shows_what_it_counts(align: str, longest: float, title: str) -> None:
    assert time_axis(align, longest).title == title


def test_a_plot_is_labeled() -> None:
    curves = series("20/1/1 narrow", [1500.0, 1700.0]), series("20/1/2 wide", [800.0, 900.0], simulated=True)
    loss = series("20/1/1 narrow", [2.0, 1.0], metric="loss", unit="")
    found = texts(svg(*curves, loss, notices=(notice("* 20/1/2 ran on simulated GPUs: their metrics are not real"),)))
    assert {"GPU power (kW)", "loss", "time since the start (s)", "20/1/1 narrow", "20/1/2 wide *"} <= set(found)
    assert "* 20/1/2 ran on simulated GPUs" in " ".join(found)


def test_a_legend_is_in_the_order_of_the_runs_row_by_row() -> None:
    names = [f"20/1/{at} network" for at in range(1, 5)]
    found = svg(*(series(name, [1.0, float(at)]) for at, name in enumerate(names)))
    legend = next(one for one in found.iter(f"{SVG}g") if one.get("id", "").startswith("legend"))
    places = {
        "".join(one.itertext()).strip(): (float(one.attrib["y"]), float(one.attrib["x"]))
        for one in legend.iter(f"{SVG}text")
    }
    assert len({x for _, x in places.values()}) > len({y for y, _ in places.values()}) > 1, "several rows and columns"
    assert sorted(names, key=places.__getitem__) == names


def test_a_run_looks_alike_in_all_panels() -> None:
    styles = ChartStyle(7, 0), ChartStyle(3, 1)
    first, second = (series(f"20/1/{at + 1}", [1.0, 2.0], style=style) for at, style in enumerate(styles))
    alone = series("20/1/2", [5.0, 6.0], metric="loss", unit="", style=styles[1])
    found = strokes(svg(first, second, alone))
    assert [(color, bool(dashes)) for color, dashes, _ in found] == [(COLORS[7], False), *[(COLORS[3], True)] * 2]
    data = json.loads(chart_data(lay_out(chart(first, second, alone))))
    assert data["styles"] == [
        {"color": COLORS[7], "dash": []}, {"color": COLORS[3], "dash": list(STROKES[1])},
    ]  # fmt: skip
    dots = bars(bar("20/1/2", 1.0, style=styles[1]))
    assert COLORS[3].lower() in draw(lay_out_bars(dots), ".svg").decode()


def test_a_style_of_matplotlib_has_its_own_colors() -> None:
    figure = ET.tostring(svg(series("20/1/9", [1.0, 2.0], style=ChartStyle(8, 0)), style="ggplot")).decode()
    assert "#348abd" in figure, "the second of its seven"
    assert not any(color.lower() in figure for color in COLORS)


def test_many_curves_are_gray_with_their_median_and_the_extremes_in_color() -> None:
    curves = [series(f"20/1/{at}", [float(at)] * 20, ended_early=at == 21) for at in range(1, 41)]
    layout = lay_out(chart(*curves))
    crowd = layout.panels[0].crowd
    assert crowd is not None
    assert [layout.legend[key].name for key in crowd.named] == ["20/1/1", "20/1/40", "20/1/21"]
    assert crowd.spread.median.tolist() == pytest.approx([20.5] * 20)
    assert layout.spread == "median and 10th\N{EN DASH}90th percentile of 40 runs"
    figure = svg(*curves)
    assert sorted(color for color, _, _ in strokes(figure)) == sorted([COLORS[0], COLORS[3], COLORS[8]])
    found = texts(figure)
    assert {"20/1/1", "20/1/40", "20/1/21", layout.spread.capitalize()} <= set(found)
    assert "20/1/2" not in found
    data = json.loads(chart_data(layout))["panels"][0]
    assert (data["crowd"]["named"], data["crowd"]["value"]) == ([0, 39, 20], [20.5] * 20)
    assert lay_out(chart(*curves[:12])).panels[0].crowd is None


def test_quantiles_are_those_of_the_curves_at_each_point() -> None:
    x = np.arange(3.0)
    curves = [(x, np.full(3, float(at))) for at in range(11)]
    found = spread(curves)
    assert (found.count, found.x.tolist()) == (11, [0, 1, 2])
    assert [one.tolist() for one in (found.low, found.median, found.high)] == [[1.0] * 3, [5.0] * 3, [9.0] * 3]
    assert extremes([(x, np.array([5.0, np.nan, 5.0])), (x, np.ones(3)), (x, np.full(3, 9.0))]) == (1, 2)


def test_quantiles_are_interpolated_and_end_where_most_curves_have_ended() -> None:
    halves = np.array([0.0, 2.0]), np.array([0.0, 2.0])
    whole = np.array([0.0, 1.0, 2.0]), np.array([2.0, 1.0, 0.0])
    long = np.array([0.0, 4.0]), np.array([1.0, 1.0])
    found = spread([halves, whole, long])
    assert (found.x.tolist(), found.median.tolist()) == ([0, 1, 2], [1, 1, 1])
    hole = np.array([0.0, 1.0, 2.0]), np.array([2.0, np.nan, 2.0])
    assert spread([hole, hole]).x.tolist() == [0, 2]


def test_the_time_on_a_shared_gpu_is_thin() -> None:
    one = series("20/1/1", [1.0] * 10, scope="device", shared=((2.5, 5.0),))
    figure = svg(one)
    [alone, together] = [path for _, _, path in strokes(figure)]
    widths = re.findall(r"stroke: #3274d9; stroke-width: ([\d.]+)", ET.tostring(figure).decode())
    assert float(widths[0]) > 2 * float(widths[1])
    assert [alone.count("M"), together.count("M")] == [2, 1]
    assert "thin: GPU shared" in texts(figure)
    layout = lay_out(chart(one))
    assert json.loads(chart_data(layout))["panels"][0]["lines"][0]["shared"] == [[2.5, 5.0]]
    assert "Thin parts" in page([layout], "One")
    assert "Thin parts" not in page([lay_out(chart(series("20/1/1", [1.0])))], "One")


def test_a_panel_per_value_of_a_parameter() -> None:
    curves = [series(f"20/1/{at}", [float(at)] * 3) for at in (1, 2, 3)]
    titles = {one.runs[0]: title for one, title in zip(curves, ("lr = 0.1", "lr = 1", "lr = 0.1"), strict=True)}
    layout = lay_out(chart(*curves), titles)
    assert [(one.title, [line.key for line in one.lines]) for one in layout.panels] == [
        ("lr = 0.1", [0, 2]),
        ("lr = 1", [1]),
    ]
    assert len({one.axis for one in layout.panels}) == 1
    figure = ET.fromstring(draw(layout, ".svg"))
    assert {"lr = 0.1", "lr = 1", "20/1/2"} <= set(texts(figure))
    assert texts(figure).count("GPU power (W)") == 1
    made = page([layout], "Facets")
    assert "lr = 0.1: GPU power (W)" in made
    assert made.count("data-sort>") == 1, "one column for one metric"


def test_the_range_of_samples_is_drawn() -> None:
    few = [series(f"20/1/{at}", [1.0, 2.0]) for at in range(3)]
    assert len(re.findall(r"opacity: 0.18", ET.tostring(svg(*few)).decode())) == 3
    many = [series(f"20/1/{at}", [1.0, 2.0]) for at in range(9)]
    assert "opacity: 0.18" not in ET.tostring(svg(*many)).decode()


def test_where_nothing_was_measured_there_is_no_curve() -> None:
    x = np.array([0, 1, 2, 3, 4, 50, 51, 52], np.float64)
    measured = series("20/1/1", [1.0] * 8, x=x)
    logged = series("20/1/1", [1.0] * 8, x=x, metric="loss", unit="")
    [broken, whole] = [path for _, _, path in strokes(svg(measured, logged))]
    assert [broken.count("M"), whole.count("M")] == [2, 1]


def test_a_single_point_is_seen() -> None:
    one = ET.tostring(svg(series("20/1/1", [1.0]))).decode()
    assert one.count("<ns0:use") > ET.tostring(svg(series("20/1/1", [1.0, 1.0]))).decode().count("<ns0:use")


def test_a_cross_marks_the_end_of_a_run_that_ended_early() -> None:
    values = [1.0, 3.0, 2.0]
    whole, failed = (ET.tostring(svg(series("20/1/1", values, ended_early=early))).decode() for early in (False, True))
    assert failed.count("<ns0:use") == whole.count("<ns0:use") + 1
    data = json.loads(chart_data(lay_out(chart(series("20/1/1", values), series("20/1/2", values, ended_early=True)))))
    assert [line.get("ended_early", False) for line in data["panels"][0]["lines"]] == [False, True]


def test_a_common_axis_reaches_the_last_point_of_all_panels() -> None:
    [short, long] = (
        path
        for _, _, path in strokes(
            svg(series("20/1/1", [1.0] * 10), series("20/1/1", [1.0] * 100, metric="loss", unit=""))
        )
    )
    ends = [float(path.split()[-2]) for path in (short, long)]
    assert ends[1] - ends[0] > 100


def test_an_axis_of_amounts_begins_at_zero() -> None:
    assert lay_out(chart(series("20/1/1", [300.0, 301.0]))).panels[0].from_zero
    assert not lay_out(chart(series("20/1/1", [50.0], metric="gpu_temperature", unit="celsius"))).panels[0].from_zero
    assert not lay_out(chart(series("20/1/1", [0.98], metric="accuracy", unit=""))).panels[0].from_zero


def test_selected_scopes_are_distinguished() -> None:
    own, host = series("20/1/1", [1.0], scope="process"), series("20/1/1", [2.0], scope="host")
    legend = lay_out(chart(own, host)).legend
    assert legend[0].style != legend[1].style
    assert tuple(one.name for one in legend) == ("20/1/1 (process)", "20/1/1 (host)")


def test_bars_are_labeled() -> None:
    loss = bar("20/1/1 narrow", 0.5, metric="loss", unit="", low=0.5, high=0.5, p95=None)
    found = bars(
        bar("20/1/1 narrow", 1200.0), bar("20/1/2 wide", 600.0, simulated=True), loss, notices=(notice("a note"),)
    )
    figure = ET.fromstring(draw(lay_out_bars(found), ".svg"))
    assert {"20/1/1 narrow", "20/1/2 wide *", "GPU power (kW)", "loss"} <= set(texts(figure))
    assert "ticks: the 95th percentile; software metrics: the last value" in " ".join(texts(figure))
    dots = [one.get("style", "") for one in figure.iter(f"{SVG}use")]
    counts = [sum(f"fill: {color.lower()}" in one for one in dots) for color in COLORS[:3]]
    assert counts == [2, 1, 0], "a run has its color in all panels"


def test_sizes_are_in_inches() -> None:
    one = series("20/1/1 narrow", [1.0, 2.0])
    panels = [series("20/1/1 narrow", [1.0, 2.0], metric=name, unit="") for name in "abcd"]
    assert svg(one).get("width") == "252pt", "a column of a paper"
    assert svg(*panels).get("width") == "515.52pt", "both columns"
    assert svg(one, size=(5, 4)).get("width") == "360pt"
    assert svg(one, size=(5, 4)).get("height") == "288pt"


@pytest.mark.parametrize("ending", [".svg", ".pdf", ".png"])
def test_the_same_picture_has_the_same_bytes(ending: str) -> None:
    layout = lay_out(chart(series("20/1/1", [1.0, 2.0]), notices=(notice("a note"),)))
    once, again = draw(layout, ending, Looks(title="Twice")), draw(layout, ending, Looks(title="Twice"))
    assert once == again
    assert b"Date" not in once


def test_text_is_text() -> None:
    layout = lay_out(chart(series("20/1/1", [1.0, 2.0])))
    assert b"/Subtype /Type3" not in draw(layout, ".pdf")
    assert b"20/1/1" in draw(layout, ".svg")


@pytest.mark.parametrize("style", [*STYLES, "ggplot"])
def test_styles(style: str, tmp_path: Path) -> None:
    assert "20/1/1" in texts(svg(series("20/1/1", [1.0, 2.0]), style=style))


def test_a_style_can_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "own.mplstyle").write_text("axes.prop_cycle: cycler('color', ['0072b2'])\nlines.linewidth: 3\n")
    figure = ET.tostring(svg(series("20/1/1", [1.0, 2.0]), style=str(tmp_path / "own.mplstyle"))).decode()
    assert "stroke-width: 3" in figure


def test_an_unknown_style_is_refused() -> None:
    with pytest.raises(BadRequest, match=r"no style 'papr' \(did you mean 'paper'\?\)"):
        draw(lay_out(chart(series("20/1/1", [1.0]))), ".svg", Looks("papr"))


def test_names_are_no_markup() -> None:
    name = "20/1/1 </script><script>alert(1)</script><!-- <b>"
    made = page([lay_out(chart(series(name, [1.0, 2.0]), notices=(notice("<i>"),)))], "<b>title</b>")
    assert made.count("</script>") == 3, "its data, the library and its own script"
    assert "<b>" not in made
    assert "<i>" not in made
    data = json.loads(made.split('<script type="application/json">')[1].split("</script>")[0])
    assert data["legend"] == [name]


def test_a_usual_page_is_small_and_loads_nothing() -> None:
    curves = [
        series(f"20/1/{at}", (300 + 50 * np.sin(np.arange(400) / (at + 3))).tolist(), metric=metric)
        for metric in ("gpu_power", "cpu_usage")
        for at in range(6)
    ]
    made = page([lay_out(chart(*curves))], "Six runs")
    assert len(made.encode()) < 200_000
    assert not re.search(r"""(src|href)\s*=|url\(|@import""", made.replace("2000/svg", ""))


def test_the_library_is_the_one_that_is_named() -> None:
    named = (ASSETS / "README.md").read_text()
    assert "uPlot 1.6.32" in named
    assert (ASSETS / "uPlot.iife.min.js").read_text().startswith("/*! https://github.com/leeoniya/uPlot (v1.6.32) */")
    for file in ASSETS.glob("uPlot*"):
        assert f"`{file.name}` | `{hashlib.sha256(file.read_bytes()).hexdigest()}`" in named


@pytest.mark.parametrize("style", ["paper", "dark"])
def test_a_heat_map_has_a_scale_and_hatches_what_is_unknown(style: str) -> None:
    cells = {(0, 1): Cell("1.50x", color="#eaae7f"), (1, 0): Cell("1.70x", color="#eaae7f")}
    partial = Grid("naive", ("a", "b"), ("a", "b"), cells)
    whole = Grid("naive", ("a",), ("a", "b"), {(0, 0): cells[0, 1], (0, 1): cells[1, 0]})
    found = [ET.fromstring(draw_heatmap([one], [], ".svg", Looks(style))) for one in (partial, whole)]
    assert all(set(SCALE.values()) <= set(texts(one)) for one in found)
    assert ["Hatched: not measured" in texts(one) for one in found] == [True, False]
    assert [len(list(one.iter(f"{SVG}pattern"))) for one in found] == [1, 0]


@pytest.mark.parametrize("style", ["paper", "dark"])
def test_a_slowdown_without_a_verdict_has_no_color(style: str) -> None:
    grid = Grid(
        "naive", ("a",), ("b", "c"), {(0, 0): Cell("1.50x", color="#eaae7f"), (0, 1): Cell("0.60x?", "0.50 to 0.70")}
    )
    found = ET.fromstring(draw_heatmap([grid], [], ".svg", Looks(style)))
    assert {"1.50x", "0.60x?", "0.50 to 0.70"} <= set(texts(found))
    assert [one.get("style", "") for one in found.iter(f"{SVG}path") if "#eaae7f" in one.get("style", "")] != []


def test_a_size_without_room_for_the_text_is_refused() -> None:
    with pytest.raises(BadRequest, match=r"3\.5x2 is too small for this text: --size WIDTHxHEIGHT"):
        svg(*(series(f"20/1/{at} a long name", [1, 2]) for at in range(1, 9)), style="slides", size=(3.5, 2))


@pytest.mark.parametrize(("suffix", "lacking"), [(".png", [set("训练🚀")]), (".pdf", [set("训练🚀")]), (".svg", [])])
def test_characters_without_a_glyph_are_named_once(suffix: str, lacking: list[set[str]]) -> None:
    warned: list[str] = []
    draw(lay_out(chart(series("20/1/1 naïve 训练 🚀训", [1, 2]))), suffix, Looks(title="训", warn=warned.append))
    assert [set(one.partition(":")[0].removeprefix("the font has no glyph for ")) for one in warned] == lacking
