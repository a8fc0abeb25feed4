"""View files."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from hypergauge import __version__
from hypergauge.core.errors import BadRequest
from hypergauge.insight.charts.view import View, ViewChart

ID = "4f1c9a2b7d3e"


def test_a_view_is_a_few_hundred_bytes_and_reads_as_it_was_written(tmp_path: Path) -> None:
    ids = tuple(uuid.uuid4().hex[:12] for _ in range(8))
    view = View(
        (
            ViewChart(ids, ("gpu_utilization",)),
            ViewChart(ids, ("gpu_power", "cpu_usage"), by="workload", scopes=("device", "instance")),
            ViewChart(ids, ("loss",), align="phase:träin"),
            ViewChart(ids, ("loss",), from_="60", to="2m", phase="träin"),
        )
    )
    path = tmp_path / "view.json"
    view.write(path)
    assert path.stat().st_size < 500
    assert View.read(path) == view
    assert [one.name for one in tmp_path.iterdir()] == ["view.json"]


def test_only_what_differs_is_written() -> None:
    view = View((ViewChart((ID,), ("loss",)), ViewChart((ID,), ("loss",), align="step"), ViewChart((ID * 2,), ("x",))))
    assert view.text() == (
        '{"hypergauge": 1, "charts": [\n'
        f'  {{"runs": ["{ID}"], "metrics": ["loss"]}},\n'
        '  {"metrics": ["loss"], "align": "step"},\n'
        f'  {{"runs": ["{ID * 2}"], "metrics": ["x"]}}\n'
        "]}\n"
    )


CHART = f'{{"runs": ["{ID}"], "metrics": ["loss"]}}'


def charts(*others: str) -> str:
    return f'{{"hypergauge": 1, "charts": [{", ".join([CHART, *others])}]}}'


BAD: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", ":1:1: not a view: invalid JSON: Expecting value"),
    "no JSON": ('{"hypergauge": 1,\n "charts": [}', ":2:13: not a view: invalid JSON: Expecting value"),
    "binary": (b"\x89PNG\r\n\xff", ": not a view: invalid JSON"),
    "deep": ("[" * 100_000, ": not a view: invalid JSON"),
    "large": ("[" + "1," * 200_000 + "1]", ": not a view: that is a few hundred bytes"),
    "a list": ("[]", ': not a view: that begins with {"hypergauge": 1, "charts": ['),
    "something else": ('{"panels": []}', ': not a view: that begins with {"hypergauge": 1, "charts": ['),
    "no version": ('{"hypergauge": true}', ': not a view: that begins with {"hypergauge": 1, "charts": ['),
    "a later version": (
        '{"hypergauge": 2, "panels": []}',
        f": hypergauge: this view is of version 2, and hypergauge {__version__} reads version 1: install a newer hypergauge",
    ),
    "no charts": ('{"hypergauge": 1}', ": charts must be a list of at least one chart"),
    "none": ('{"hypergauge": 1, "charts": []}', ": charts must be a list of at least one chart"),
    "a word": ('{"hypergauge": 1, "charts": "all"}', ": charts must be a list of at least one chart"),
    "a chart that is none": (charts("7"), ": charts[1] is not an object in braces"),
    "an unknown key": (
        '{"hypergauge": 1, "chart": []}',
        ": chart is unknown (did you mean 'charts'?)",
    ),
    "an unknown key of a chart": (
        charts('{"metric": ["loss"]}'),
        ": charts[1].metric is unknown (did you mean 'metrics'?)",
    ),
    "no runs": ('{"hypergauge": 1, "charts": [{"metrics": ["loss"]}]}', ": charts[0] has no runs"),
    "no metrics": (charts('{"align": "step"}'), ": charts[1] has no metrics"),
    "empty metrics": (charts('{"metrics": []}'), ": charts[1].metrics is empty"),
    "one metric": (charts('{"metrics": "loss"}'), ': charts[1].metrics is "loss", but must be a list of strings'),
    "a number": (charts('{"metrics": [1]}'), ": charts[1].metrics is [1], but must be a list of strings"),
    "a list of ways": (
        charts('{"metrics": ["loss"], "by": ["run"]}'),
        ': charts[1].by is ["run"], but must be a string',
    ),
    "a label": (
        charts('{"metrics": ["loss"], "runs": ["20/1/3"]}'),
        ": charts[1].runs: '20/1/3' is not a run's id; `bench list SELECTOR` shows them",
    ),
    "by what": (
        charts('{"metrics": ["loss"], "by": "workloads"}'),
        ": charts[1].by: there is no 'workloads' (did you mean 'workload'?)",
    ),
    "align": (
        charts('{"metrics": ["loss"], "align": "steps"}'),
        ": charts[1].align: runs cannot be aligned by 'steps' (did you mean 'step'?)",
    ),
    "no duration": (
        charts('{"metrics": ["loss"], "from": "soon"}'),
        ": charts[1].from: 'soon' is not a duration: write it like 10 s, 20 min or 1.5 h",
    ),
    "an empty range": (
        charts('{"metrics": ["loss"], "from": "2m", "to": "60"}'),
        ": charts[1].from 2 min is not before to 60 s: exchange them",
    ),
    "no phase": (
        charts('{"metrics": ["loss"], "align": "phase:"}'),
        ": charts[1].align: runs cannot be aligned by 'phase:' (did you mean 'phase'?)",
    ),
    "scopes": (
        charts('{"metrics": ["loss"], "scopes": ["devices"]}'),
        ": charts[1].scopes: there is no 'devices' (did you mean 'device'?)",
    ),
}


@pytest.mark.parametrize(("content", "expected"), BAD.values(), ids=BAD)
def test_what_is_no_view_is_refused(content: str | bytes, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "view.json"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(BadRequest) as caught:
        View.read(path)
    assert str(caught.value) == f"{path}{expected}"


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"view.json: No such file or directory"):
        View.read(tmp_path / "view.json")


@pytest.mark.parametrize("options", [{"by": "row"}, {"align": "x"}, {"scopes": ("gpu",)}])
def test_a_chart_cannot_be_made_that_could_not_be_read(options: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match=r"there is no|cannot be aligned"):
        ViewChart((ID,), ("loss",), **options)
