"""Figures of runs as lines over parallel axes: their parameters, then their results."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator

from hypergauge.dashboards.plots.axes import value_axis
from hypergauge.dashboards.plots.canvas import FAINT, LETTER, LINE, Looks, abreast, by_rows, em, empty, look
from hypergauge.dashboards.plots.panels import MANY, PROFILED
from hypergauge.dashboards.plots.styles import Style
from hypergauge.dashboards.terminal.formatting import SIMULATED
from hypergauge.insight.charts.parallel import Dimension, Parallel, Track
from hypergauge.insight.charts.parameters import in_order, number

__all__ = ["Scale", "draw_parallel", "scales"]

_READ = "A line is a run: its parameters, then the mean over its time, or the last value of a software metric"
_EARLY = "; a line ends with a cross at the status where the run ended early"
_NONE = "; none: without this parameter or value"
# Text of a missing parameter or value, and the foot of an axis that has one: the share below all values.
_MISSING, _FOOT = "none", 0.12
# Ticks closer than this share of an axis overlap, and so do names of more categories than this.
_CLOSE, _MOST_TICKS = 0.055, 16
# Named lines of many: the best, the worst, and of those that ended early the first.
_MOST_NAMED = 6
# Width of an axis with its ticks in letters, and height of the axes in panels of the style.
_LEAST_LETTERS, _TALL = 13, 1.25
_LONGEST = 16
# Between lines of few runs through one name, so that each is seen: shares of an axis, each and all together.
_FAN, _WIDEST = 0.014, 0.07


@dataclass(frozen=True, slots=True)
class Scale:
    """Axis with a title and ticks; positions reach from 0 at its foot to 1.

    Its ticks are `names` instead of numbers. A run that ended early `ends` there.
    """

    title: str
    ticks: tuple[tuple[float, str], ...]
    position: Callable[[Track], float]
    names: bool = False
    ends: bool = False


def scales(found: Parallel) -> list[Scale]:
    """Return the axes: the parameters, the status if a run ended early, and the results."""
    made = [_parameter(one, found.tracks) for one in found.dimensions]
    if any(one.ended_early for one in found.tracks):
        made.append(_status(found.tracks))
    return made + [_result(found, metric) for metric in found.metrics if metric in found.units]


def draw_parallel(found: Parallel, style: Style, looks: Looks) -> Figure:
    """Return a figure of runs on parallel axes, in the applied style."""
    axes_ = scales(found)
    letters = sum(_letters(one) for one in axes_)
    handles = _handles(found)
    width = looks.size[0] if looks.size else max(style.page, letters * LETTER * em())
    side_by_side = abreast([str(one.get_label()) for one in handles], width)
    head = math.ceil(len(handles) / side_by_side)
    figure = empty(_notes(found), looks, width, _TALL * style.row + (head + 1) * LINE * em())
    panel = figure.subplots()
    _axes(panel, axes_, len(found.dimensions))
    named = _named(found)
    places = _places(found.tracks, axes_)
    for at, track in sorted(enumerate(found.tracks), key=lambda pair: (pair[0] in named, -pair[0])):
        _track(panel, track, places[at], plain=at not in named, many=len(found.tracks) > MANY)
    made = figure.legend(
        handles=by_rows(handles, side_by_side),
        loc="outside upper left",
        ncols=side_by_side,
        title=looks.title,
        alignment="left",
    )
    made.get_title().set_fontsize(rcParams["figure.titlesize"])
    return figure


def _axes(panel: Axes, axes_: Sequence[Scale], parameters: int) -> None:
    """Draw the axes with their titles above and their ticks to the left; those of results are darker."""
    panel.set_axis_off()
    panel.set_xlim(-0.02, len(axes_) - 1 + 0.02)
    panel.set_ylim(-0.03, 1.03)
    ground = {"facecolor": rcParams["axes.facecolor"], "edgecolor": "none", "alpha": 0.8, "pad": 0.5}
    apart = 0.35 * rcParams["font.size"]
    for x, one in enumerate(axes_):
        result = x >= parameters
        ink = rcParams["axes.labelcolor"] if result else rcParams["xtick.color"]
        panel.plot(
            [x, x], [0, 1], color=rcParams["axes.edgecolor"], linewidth=(2 if result else 1.2) * rcParams["axes.linewidth"],
            solid_capstyle="butt", clip_on=False, zorder=2.5,
        )  # fmt: skip
        panel.annotate(
            one.title, (x, 1), (0, 2 * apart), textcoords="offset points", ha="center", va="bottom", color=ink,
            size=rcParams["axes.labelsize"], weight="bold" if result else "normal", annotation_clip=False,
        )  # fmt: skip
        for y, text in one.ticks:
            panel.plot(
                [x], [y], marker="_", color=rcParams["axes.edgecolor"], markersize=0.5 * rcParams["font.size"], clip_on=False,
                markeredgewidth=rcParams["axes.linewidth"], zorder=2.5,
            )  # fmt: skip
            panel.annotate(
                text, (x, y), (-apart, 0), textcoords="offset points", ha="right", va="center", color=rcParams["ytick.color"],
                size=rcParams["ytick.labelsize"], bbox=ground, annotation_clip=False, zorder=4,
            )  # fmt: skip


def _places(tracks: Sequence[Track], axes_: Sequence[Scale]) -> list[list[float]]:
    """Return the points of each line, up to the axis where its run ended; through one name, few lines run side by side."""
    end = next((at + 1 for at, one in enumerate(axes_) if one.ends), len(axes_))
    lengths = [end if track.ended_early else len(axes_) for track in tracks]
    places = [[one.position(track) for one in axes_[:length]] for track, length in zip(tracks, lengths, strict=True)]
    if len(tracks) > MANY:
        return places
    for x, one in enumerate(axes_):
        groups: dict[float, list[list[float]]] = {}
        for mine in places:
            if one.names and len(mine) > x:
                groups.setdefault(mine[x], []).append(mine)
        for together in groups.values():
            apart = min(_FAN, _WIDEST / len(together))
            for at, mine in enumerate(together):
                mine[x] += apart * ((len(together) - 1) / 2 - at)
    return places


def _track(panel: Axes, track: Track, ys: Sequence[float], *, plain: bool, many: bool) -> None:
    xs = range(len(ys))
    kind = {"color": FAINT, "linestyle": "-"} if plain else look(track.style)
    width = rcParams["lines.linewidth"] * (0.6 if plain else 1.4 if many else 1.0)
    panel.plot(xs, ys, linewidth=width, alpha=0.6 if plain else 1.0, clip_on=False, zorder=2 if plain else 3, **kind)
    if track.ended_early:
        panel.plot(
            xs[-1:], ys[-1:], "x", color=kind["color"], markersize=0.7 * rcParams["font.size"],
            markeredgewidth=1.3 * rcParams["lines.linewidth"], clip_on=False, zorder=3.5,
        )  # fmt: skip


def _parameter(one: Dimension, tracks: Sequence[Track]) -> Scale:
    texts = in_order(track.params[one.name] for track in tracks if one.name in track.params)
    foot = _FOOT if any(one.name not in track.params for track in tracks) else 0.0
    if one.categories:
        # The first name is on top, as in a list.
        count = len(one.categories)
        places = {text: foot + (1 - foot) * _from_top(at, count) for at, text in enumerate(one.categories)}
    else:
        numbers = {text: number(text) or 0.0 for text in texts}
        exact = _ticks_of(numbers, foot, logarithmic=one.logarithmic)
        if exact is None:
            return _numeric(
                one.name, list(numbers.values()), lambda track: number(track.params.get(one.name, "")), foot,
                logarithmic=one.logarithmic,
            )  # fmt: skip
        places = exact
    shown = list(places.items())
    if len(shown) > _MOST_TICKS:
        shown = shown[:: math.ceil(len(shown) / _MOST_TICKS)]
    ticks = [(y, _short(text)) for text, y in shown]
    return Scale(
        one.name,
        _with_foot(ticks, foot),
        lambda track: places.get(track.params.get(one.name, ""), 0.0),
        names=bool(one.categories),
    )


def _status(tracks: Sequence[Track]) -> Scale:
    """Return the axis of the status; the runs that ended early are at its foot."""
    early = in_order(one.status for one in tracks if one.ended_early)
    order = [*in_order(one.status for one in tracks if not one.ended_early), *early]
    places = {text: _from_top(at, len(order)) if len(order) > 1 else 0.5 for at, text in enumerate(order)}
    ticks = tuple((y, text.replace("_", " ")) for text, y in places.items())
    return Scale("status", ticks, lambda track: places[track.status], names=True, ends=True)


def _result(found: Parallel, metric: str) -> Scale:
    # The results of runs that ended early are not drawn.
    drawn = [one for one in found.tracks if not one.ended_early]
    values = [one.results[metric] for one in drawn if metric in one.results]
    unit = found.units[metric]
    axis = value_axis(metric, unit, max(map(abs, values), default=0.0))
    foot = _FOOT if len(values) < len(drawn) else 0.0

    def value(track: Track) -> float | None:
        return track.results[metric] / axis.size if metric in track.results else None

    return _numeric(axis.title, [one / axis.size for one in values], value, foot)


def _numeric(
    title: str, values: Sequence[float], value: Callable[[Track], float | None], foot: float, *, logarithmic: bool = False
) -> Scale:  # fmt: skip
    """Return an axis from tick to tick around the values."""
    if not values:
        return Scale(title, _with_foot([], foot), lambda _: 0.0)
    low, high = min(values), max(values)
    if low == high:
        middle = (1 + foot) / 2
        return Scale(
            title, _with_foot([(middle, f"{low:.4g}")], foot), lambda track: 0.0 if value(track) is None else middle
        )
    locator = LogLocator(numticks=8) if logarithmic else MaxNLocator(5, steps=[1, 2, 2.5, 5, 10])
    marks = [float(one) for one in locator.tick_values(low, high)]
    first = max((one for one in marks if one <= low * (1 + 1e-9)), default=low)
    last = min((one for one in marks if one >= high * (1 - 1e-9)), default=high)
    transform = math.log10 if logarithmic else float

    def place(one: float) -> float:
        return foot + (1 - foot) * (transform(one) - transform(first)) / (transform(last) - transform(first))

    def position(track: Track) -> float:
        found = value(track)
        return 0.0 if found is None else place(found)

    ticks = [(place(one), f"{one:.6g}") for one in marks if first <= one <= last]
    return Scale(title, _with_foot(ticks, foot), position)


def _ticks_of(numbers: dict[str, float], foot: float, *, logarithmic: bool) -> dict[str, float] | None:
    """Return the positions of a parameter's values if all have room for a tick of their own."""
    transform = math.log10 if logarithmic else float
    low, high = transform(min(numbers.values())), transform(max(numbers.values()))
    if low == high:
        return dict.fromkeys(numbers, (1 + foot) / 2)
    places = {text: foot + (1 - foot) * (transform(one) - low) / (high - low) for text, one in numbers.items()}
    heights = sorted(places.values())
    tight = any(0 < above - below < _CLOSE for below, above in itertools.pairwise(heights))
    return None if tight else places


def _with_foot(ticks: Sequence[tuple[float, str]], foot: float) -> tuple[tuple[float, str], ...]:
    return (*ticks, (0.0, _MISSING)) if foot else tuple(ticks)


def _from_top(at: int, count: int) -> float:
    return 1 - at / (count - 1) if count > 1 else 0.5


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"


def _letters(one: Scale) -> int:
    longest = max((len(text) for _, text in one.ticks), default=0)
    return max(_LEAST_LETTERS, len(one.title) + 2, longest + 5)


def _named(found: Parallel) -> list[int]:
    """Return the tracks in their color: all of few; of many the best, the worst, and some that ended early."""
    if len(found.tracks) <= MANY:
        return list(range(len(found.tracks)))
    early = [at for at, one in enumerate(found.tracks) if one.ended_early]
    extremes = [at for at in (found.best, found.worst) if at is not None]
    return list(dict.fromkeys([*extremes, *early]))[:_MOST_NAMED]


def _handles(found: Parallel) -> list[Line2D]:
    named = _named(found)
    words = (
        {found.best: "best", found.worst: "worst"}
        if found.direction
        else {found.best: "lowest", found.worst: "highest"}
    )
    many = len(found.tracks) > MANY
    handles = []
    for at in named:
        track = found.tracks[at]
        name = track.label + SIMULATED * track.simulated + PROFILED * track.profiled
        if many:
            name += f" ({words[at]} {found.metrics[0]})" if at in words else f" ({track.status})"
        handles.append(Line2D([], [], label=name, marker="x" if track.ended_early else "", **look(track.style)))
    if rest := len(found.tracks) - len(named):
        label = f"{rest} more run{'s' * (rest > 1)}"
        handles.append(Line2D([], [], label=label, color=FAINT, linewidth=0.6 * rcParams["lines.linewidth"]))
    return handles


def _notes(found: Parallel) -> list[str]:
    read = _READ
    if any(one.ended_early for one in found.tracks):
        read += _EARLY
    drawn = [one for one in found.tracks if not one.ended_early]
    without = any(one.name not in track.params for one in found.dimensions for track in found.tracks) or any(
        metric not in track.results for metric in found.metrics for track in drawn
    )
    if without:
        read += _NONE
    waiting = [f"Not started: {', '.join(found.left_out)}"] if found.left_out else []
    return [read, *waiting, *(one.text for one in found.notices)]
