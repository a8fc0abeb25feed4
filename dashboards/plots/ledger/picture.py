"""Picture of a ledger: a row for each GPU or MIG instance, with its runs as stacked steps over real time."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from matplotlib import dates, rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Polygon, Rectangle

from hypergauge.dashboards.palette import COLORS
from hypergauge.dashboards.plots.canvas import Looks, abreast, by_rows, em, empty, saved
from hypergauge.dashboards.plots.ledger.legend import FAILED, GAP, IDLE, RULE, contrast, legend_keys, run_keys, small
from hypergauge.dashboards.plots.ledger.words import HEIGHT, full_height, lane_names, tooltip
from hypergauge.dashboards.plots.styles import Style, applied
from hypergauge.insight.ledger.model import Block, Floats, Lane, Ledger
from hypergauge.insight.ledger.stack import Layer, heights, stacked

__all__ = ["anchor", "draw_ledger", "height_text", "inline_svg"]

# Distance of two rows in heights of a row. In ems: highest and lowest row, width of most letters, plain and bold, height of a line.
_PITCH, _HIGHEST, _LOWEST, _LETTER, _BOLD, _LINE = 1.3, 7.0, 3.6, 0.54, 0.64, 1.3
# Of a row: the strip of time without a run below it, and the marks above it.
_STRIP, _MARK = 0.07, 0.12
# Ink that a page replaces with its own color.
_INK = "#010203"
_SECONDS_OF_DAY = 86_400


def draw_ledger(found: Ledger, suffix: str, looks: Looks) -> bytes:
    """Return a ledger as a file of one of the types `hypergauge.dashboards.plots.figure.SUFFIXES`.

    Raises
    ------
    BadRequest
        There is no such style, or the size is too small.
    """
    with applied(looks.style) as style:
        drawn = saved(_figure(found, style, looks, linked=False), suffix, looks)
    return _titled(found, drawn.decode()).encode() if suffix == ".svg" else drawn


def inline_svg(found: Ledger) -> str:
    """Return a ledger as an element of a page, in the page's colors; blocks are links to the rows of their runs."""
    with applied("paper") as style:
        ink: Any = dict.fromkeys(
            ("text.color", "axes.edgecolor", "xtick.color", "ytick.color", "axes.labelcolor"), _INK
        )
        rcParams.update(ink | {"figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none"})
        drawn = saved(_figure(found, style, looks := Looks(notes=False), linked=True), ".svg", looks).decode()
    drawn = (
        _titled(found, drawn[drawn.index("<svg") :])
        .replace(_INK, "currentColor")
        .replace('<a xlink:href="', '<a href="')
    )
    # The width is the page's.
    return re.sub(r'<svg ([^>]*?)width="[^"]*" height="[^"]*"', r'<svg \1role="img" class="ledger"', drawn, count=1)


def anchor(run_id: str) -> str:
    """Return the id of a run's row on a page."""
    return f"run-{run_id}"


def height_text(found: Ledger) -> str:
    """Return the meaning of the blocks' heights."""
    return HEIGHT[found.measure]


def _titled(found: Ledger, drawn: str) -> str:
    """Return an SVG with tooltips for its blocks."""
    texts = [tooltip(found, block) for block in found.blocks]
    return re.sub(r'<g id="block-(\d+)(-lost)?">', lambda one: f"{one[0]}<title>{texts[int(one[1])]}</title>", drawn)


@dataclass(frozen=True, slots=True)
class _Row:
    """Row of a lane: its `base`, inches of its height, inches of a second, and the value of a full height."""

    axes: Axes
    base: float
    inches: float
    per_second: float
    full: float

    def y(self, values: Floats) -> Floats:
        """Return the positions of values."""
        return self.base + values / self.full


def _figure(found: Ledger, style: Style, looks: Looks, *, linked: bool) -> Figure:
    layers = [list(stacked(lane)) for lane in found.lanes]
    full = full_height(found.measure, max(map(heights, layers), default=0.0))
    count = len(found.lanes)
    width = looks.size[0] if looks.size else style.page
    row = min(_HIGHEST, max(_LOWEST, 40 / count)) * em()
    title = "\n".join(
        line
        for text in filter(None, (looks.title, found.sentence))
        for line in textwrap.wrap(
            text, int(width / (_BOLD * FontProperties(size=rcParams["figure.titlesize"]).get_size_in_points() / 72))
        )
    )
    head = (title.count("\n") + 2) * _LINE * em() * 1.2
    notes = [height_text(found), *(one.text for one in found.notices)]
    figure = empty(notes, looks, width, count * _PITCH * row + head)
    axes = figure.subplots()
    span = (found.end - found.start) or 1.0
    per_second = 0.82 * width / span
    block_number, named = 0, set()
    for at, (lane, some) in enumerate(zip(found.lanes, layers, strict=True)):
        lane_row = _Row(axes, (count - 1 - at) * _PITCH, row, per_second, full)
        _ground(lane_row, lane, found)
        by_block = {id(layer.block): layer for layer in some if layer.block is not None}
        for layer in some:
            if layer.block is None:
                _fill(lane_row, layer, facecolor=IDLE, alpha=0.55, linewidth=0)
        for block in lane.blocks:
            if _block(lane_row, found, block, by_block.get(id(block)), f"block-{block_number}", linked=linked):
                named.add(block.placed.run_id)
            block_number += 1
        _scale(lane_row, found)
    _frame(axes, found, count)
    handles = [*legend_keys(found), *run_keys(found, named)]
    columns = abreast([str(one.get_label()) for one in handles], width)
    handles = by_rows(handles, columns)
    legend = figure.legend(handles=handles, loc="outside upper left", ncols=columns, title=title, alignment="left")
    legend.get_title().set_fontsize(rcParams["figure.titlesize"])
    legend.get_title().set_fontweight("bold")
    return figure


def _scale(lane_row: _Row, found: Ledger) -> None:
    """Mark the whole of a GPU or instance, or the highest power."""
    top = 1.0 if found.measure == "sm" else lane_row.full
    y = lane_row.base + top / lane_row.full
    lane_row.axes.hlines(
        y, _at(found.start), _at(found.end), color=rcParams["text.color"], linewidth=0.5, alpha=0.35, linestyle=":"
    )
    axes = lane_row.axes.get_yaxis_transform()
    for value, at in ((top, y), (0.0, lane_row.base)):
        lane_row.axes.text(
            1.005, at, _value(found.measure, value), transform=axes, va="center", size=0.8 * small(), alpha=0.7
        )


def _ground(lane_row: _Row, lane: Lane, found: Ledger) -> None:
    """Draw the empty row, and the time without a run below it."""
    begin, end = _at(found.start), _at(found.end)
    ink = rcParams["text.color"]
    lane_row.axes.add_patch(Rectangle((begin, lane_row.base), end - begin, 1, facecolor=ink, alpha=0.05, linewidth=0))
    lane_row.axes.hlines(lane_row.base, begin, end, color=ink, linewidth=rcParams["axes.linewidth"], alpha=0.6)
    clock = found.start
    for block in (*sorted(lane.blocks, key=lambda one: one.start), None):
        until = block.start if block else found.end
        if until > clock:
            strip = Rectangle(
                (_at(clock), lane_row.base - _STRIP),
                _at(until) - _at(clock),
                _STRIP,
                facecolor=IDLE,
                alpha=0.55,
                linewidth=0,
            )
            lane_row.axes.add_patch(strip)
        clock = max(clock, block.end) if block else clock


def _block(lane_row: _Row, found: Ledger, block: Block, layer: Layer | None, name: str, *, linked: bool) -> bool:
    """Draw a block; return whether its run is named in it."""
    color = COLORS[block.placed.color % len(COLORS)]
    more: Any = {"url": f"#{anchor(block.placed.run_id)}"} if linked else {}
    begin, end = _at(block.start), _at(block.end)
    if layer is None:
        frame = Rectangle(
            (begin, lane_row.base),
            end - begin,
            1,
            facecolor=color,
            alpha=0.25,
            edgecolor=color,
            linestyle="--",
            gid=name,
            **more,
        )
        lane_row.axes.add_patch(frame)
    else:
        look = {"alpha": 0.88} if block.own else {"alpha": 0.4, "linestyle": "--"}
        _fill(lane_row, layer, facecolor=color, edgecolor=color, linewidth=0.4, gid=name, **look, **more)  # fmt: skip
        if block.lost > 0:
            part = layer.after(block.end - block.lost)
            _fill(
                lane_row,
                part,
                facecolor="none",
                edgecolor="#ffffff",
                hatch="/////",
                linewidth=0,
                gid=f"{name}-lost",
                **more,
            )
        if (missing := float(layer.edges[-1])) < block.end - GAP * (found.end - found.start):
            rest = Rectangle(
                (_at(missing), lane_row.base), end - _at(missing), 1, facecolor=color, alpha=0.12, linewidth=0
            )
            lane_row.axes.add_patch(rest)
    named = _name(lane_row, block, layer, color)
    for mark in block.marks:
        if mark.kind == "phase" and block.start <= mark.at <= block.end:
            lane_row.axes.vlines(_at(mark.at), lane_row.base + 1, lane_row.base + 1 + _MARK, color=color, linewidth=1)
        elif block.start <= mark.at <= block.end:
            lane_row.axes.plot(
                _at(mark.at), lane_row.base + 1 + _MARK, "v", color=RULE, markersize=0.55 * small(), clip_on=False
            )
    if block.placed.early:
        top = float(lane_row.y(layer.high)[-1]) if layer is not None else lane_row.base + 0.5
        lane_row.axes.plot(end, max(top, lane_row.base + 0.15), "X", color=FAILED, markersize=0.8 * small(),
                        markeredgecolor="#ffffff", markeredgewidth=0.5, clip_on=False, zorder=5)  # fmt: skip
    return named


def _fill(lane_row: _Row, layer: Layer, **look: object) -> None:
    if not len(layer.low):
        return
    x = np.repeat(layer.edges, 2)[1:-1]
    low, high = np.repeat(lane_row.y(layer.low), 2), np.repeat(lane_row.y(layer.high), 2)
    moments = np.array([_at(one) for one in x])
    outline = np.column_stack([np.concatenate([moments, moments[::-1]]), np.concatenate([low, high[::-1]])])
    lane_row.axes.add_patch(Polygon(outline, closed=True, **look))


def _name(lane_row: _Row, block: Block, layer: Layer | None, color: str) -> bool:
    """Write the run's name in its block, or its label; return whether one fits."""
    begin, end = (layer.edges[0], layer.edges[-1]) if layer is not None else (block.start, block.end)
    end = min(end, block.end - block.lost)  # beside the hatches
    wide = float(end - begin) * lane_row.per_second
    label, _, rest = block.placed.title.partition(" ")
    for lines in ((block.placed.title,), (label, rest), (label,)):
        needed = (max(map(len, lines)) + 1) * _LETTER * em()
        if needed > wide or not all(lines):
            continue
        half = needed / lane_row.per_second / 2
        spots = begin + half + np.array((0.5, 0.3, 0.7, 0.1, 0.9)) * (end - begin - 2 * half)
        room = [_room(lane_row, layer, spot - half, spot + half) for spot in spots]
        fits = [at for at, (low, high) in enumerate(room) if (high - low) * lane_row.inches >= 1.2 * len(lines) * em()]
        if not fits:
            continue
        y = sum(room[fits[0]]) / 2
        ink = rcParams["text.color"] if layer is None or not block.own else contrast(color)
        where: Any = {"ha": "center", "va": "center", "linespacing": 1.1}
        lane_row.axes.text(_at(float(spots[fits[0]])), y, "\n".join(lines), color=ink, size=small(), **where)
        return True
    return False


def _room(lane_row: _Row, layer: Layer | None, begin: float, end: float) -> tuple[float, float]:
    """Return the lower and upper end of a block over most of an interval."""
    if layer is None:
        return lane_row.base, lane_row.base + 1
    under = (layer.edges[:-1] < end) & (layer.edges[1:] > begin)
    low, high = lane_row.y(layer.low)[under], lane_row.y(layer.high)[under]
    return float(np.percentile(low, 75)), float(np.percentile(high, 25))


def _frame(axes: Axes, found: Ledger, count: int) -> None:
    zone = datetime.fromtimestamp(found.end).astimezone().tzinfo
    locator = dates.AutoDateLocator(tz=zone, minticks=3, maxticks=9)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    names = dates.ConciseDateFormatter(locator, tz=zone, show_offset=False)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_formatter(names)
    begin, end = datetime.fromtimestamp(found.start, zone), datetime.fromtimestamp(found.end, zone)
    days = f"{begin:%Y-%m-%d}" if begin.date() == end.date() else f"{begin:%Y-%m-%d} to {end:%Y-%m-%d}"
    axes.set_xlabel(f"{days}, {begin:%Z}")
    axes.set_xlim(_at(found.start), _at(found.end))
    axes.set_ylim(-2 * _STRIP, (count - 1) * _PITCH + 1 + 2 * _MARK)
    axes.set_yticks([(count - 1 - at) * _PITCH + 0.5 for at in range(count)], list(lane_names(found.lanes)))
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)


def _value(measure: str, value: float) -> str:
    return f"{value:.0%}" if measure == "sm" else f"{value:.0f} W"


def _at(moment: float) -> float:
    """Return a Unix time as matplotlib's date."""
    return moment / _SECONDS_OF_DAY
