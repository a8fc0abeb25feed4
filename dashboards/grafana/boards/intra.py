"""Dashboard *Intra-workload*: the runs of one workload on a common time axis."""

from __future__ import annotations

from hypergauge.dashboards.grafana import choices, curves, parts, results
from hypergauge.dashboards.grafana.choices import RUNS
from hypergauge.dashboards.grafana.model import panels
from hypergauge.dashboards.grafana.model.fields import (
    BY_TIME,
    by_label,
    for_name,
    for_regexp,
    hidden_point,
    partition,
)
from hypergauge.dashboards.grafana.model.layout import Row, aligned_dashboard, board_link, fit_link
from hypergauge.dashboards.grafana.queries import Json, query, texts

__all__ = ["board"]

_UID = "bench-intra"
_METRIC = texts("metric")
_SOFTWARE = texts("software")
_KEY = "${result:sqlstring}"
# The last value that was logged, as in the table of results: that of a curve is a mean of several, and skips NaN.
_WITH_LAST = "concat_ws(': ', title, last)"
_NO_NUMBERS = "No parameter with different numbers."


def board() -> Json:
    """Return the dashboard."""
    return aligned_dashboard(
        _UID,
        "Intra-workload: comparison of runs",
        [
            results.verdict(f"run_verdict({RUNS}, {_KEY}, ${{baseline:sqlstring}})", parts.run_notices(RUNS, _METRIC), best="Best ${result}"),
            Row(
                "Notices and provenance",
                [
                    parts.notices({"": parts.run_notices(RUNS, _METRIC)}, width=24, height=7),
                    parts.run_table(RUNS, width=24, height=9),
                ],
                collapsed=True,
            ),
            results.run_results(RUNS, baseline="${baseline:sqlstring}", key=_KEY, name="Last ${result}", width=24, height=7),
            Row("$metric", [_curve(), _values()], repeat="metric"),
            Row("$metric of each run", [_heatmap()], collapsed=True, repeat="metric"),
            Row("$metric by step and by epoch", [_by("step"), _by("epoch")], collapsed=True, repeat="metric"),
            Row("Logged: $software", [_software_by_time(), _software_by_step()], repeat="software"),
            Row(
                "Results by parameter: $parameter",
                [_by_parameter("Duration", "seconds", "dthms"), _by_parameter("Last $result", "last", "short"),
                 _by_parameter("GPU energy", "energy", "joule")],
                collapsed=True,
            ),
        ],
        description="The runs of one workload on a common time axis. All start at 00:00.",
        variables=[
            choices.experiment(),
            choices.workload(["newest"]),
            choices.run(),
            choices.baseline_run(),
            choices.metric(["gpu_sm_active"]),
            choices.software(["loss"]),
            choices.align(),
            choices.result(chosen=_SOFTWARE),
            choices.ranking(),
            choices.parameter(),
            choices.drawn(curves.MAX_SERIES),
            choices.fit(),
            choices.cut(),
            choices.mlflow(),
        ],
        annotations=[parts.phases(RUNS), parts.firings(RUNS), parts.failures(RUNS)],
        links=[
            fit_link(_UID),
            board_link("Inter", "bench-inter", keep_time=True),
            board_link("Mixed", "bench-mixed", keep_time=True),
        ],
    )  # fmt: skip


def _curve() -> Json:
    return panels.timeseries(
        "$metric over time$drawn$cut",
        **parts.drawn(*curves.run_curves(RUNS, _METRIC), metric=_METRIC),
        custom={"lineWidth": 2},
        overrides=curves.by_run(),
        description=curves.SHARED,
        empty=curves.CHOOSE,
        width=16,
        height=9,
    )


def _values() -> Json:
    made = parts.in_unit_of(
        _METRIC,
        query(
            f"""
            select title as "{results.SWATCH}",
                   concat(case when ended_early(status) then '✗ ' end, title, ' ' || shared_mark(scope)) as "Run", mean as "Mean", p95
            from run_values({RUNS}, {_METRIC}) join runs using (run_id)
            order by shared_mark(scope) is not null, mean desc nulls last
            """
        ),
        results.colored_by(f"run_titles({RUNS})"),
    )
    return panels.table(
        "$metric: mean and p95, highest first",
        **made | {"transformations": [*made["transformations"], results.colored()]},
        overrides=[
            results.swatch(),
            for_name("Run", custom__minWidth=100, custom__wrapText=True),
            # Wrapped: a cell that is too narrow for "0.879 cores" would show "879 cores".
            for_name("Mean", custom__width=90, custom__wrapText=True),
            for_name("p95", custom__width=85, custom__wrapText=True),
        ],
        description=results.SHARED,
        empty=curves.CHOOSE,
        width=8,
        height=9,
    )


def _heatmap() -> Json:
    made = parts.in_unit_of(_METRIC, curves.run_lines(RUNS, _METRIC))
    return panels.heatmap(
        "$metric of each run, the highest mean first$drawn",
        **made | {"transformations": [*made["transformations"], partition("title"), BY_TIME]},
        description=f"An empty row or cell was not measured; 0 has a color. {results.SHARED}",
        empty=curves.CHOOSE,
        points=240,
        width=24,
        height=16,
    )


def _by(axis: str) -> Json:
    return parts.by_number(
        f"$metric by {axis}",
        curves.run_points(RUNS, _METRIC, axis),
        description=curves.FIRST_RUNS,
        x=axis,
        metric=_METRIC,
        width=12,
        height=9,
    )


def _software_by_time() -> Json:
    return panels.timeseries(
        "$software over time$drawn$cut",
        **parts.drawn(curves.software_curves(RUNS, _SOFTWARE, title=_WITH_LAST)),
        custom={"spanNulls": True, "showPoints": "auto"},
        overrides=by_label(),
        empty=curves.CHOOSE,
        width=12,
        height=9,
    )


def _software_by_step() -> Json:
    return parts.by_number(
        "$software by step$drawn",
        curves.software_points(RUNS, _SOFTWARE, title=_WITH_LAST),
        x="step",
        width=12,
        height=9,
    )


def _by_parameter(title: str, column: str, unit: str) -> Json:
    return panels.xychart(
        f"{title} by $parameter",
        curves.or_placeholder(
            f"select title, color, stroke, x, {column} as y from parameter_results({RUNS}, ${{parameter:sqlstring}}, {_KEY}) "
            f"where {column} is not null",
            "select *",
            f"select '{_NO_NUMBERS}', '0', '0', 0, 0",
        ),
        transformations=[partition("title", "color", "stroke")],
        options={"legend": {"showLegend": False, "displayMode": "list", "placement": "bottom", "calcs": []}},
        overrides=[
            *by_label()[:-1],
            for_regexp("/^x/", custom__axisLabel="$parameter"),
            for_regexp(
                "/^y/", unit=unit, custom__axisLabel=title, custom__axisSoftMin=0, displayName="${__field.labels.title}"
            ),
            hidden_point(_NO_NUMBERS),
        ],
        width=8,
        height=9,
    )
