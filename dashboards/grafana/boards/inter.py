"""Dashboard *Inter-workload*: workloads compared by the aggregate of their runs."""

from __future__ import annotations

from hypergauge.dashboards.grafana import choices, curves, parts
from hypergauge.dashboards.grafana.choices import WORKLOADS
from hypergauge.dashboards.grafana.model import panels
from hypergauge.dashboards.grafana.model.fields import (
    by_label,
    color,
    for_name,
    for_regexp,
    hidden,
    link,
    partition,
    thresholds,
)
from hypergauge.dashboards.grafana.model.layout import Row, aligned_dashboard, board_link, fit_link
from hypergauge.dashboards.grafana.queries import Json, query, texts

__all__ = ["board"]

_UID = "bench-inter"
_RUNS = f"runs_of({WORKLOADS})"
_METRIC = texts("metric")
_TOTALS = f"workload_totals({WORKLOADS}, ${{throughput:sqlstring}})"
_NO_ENERGY = "No GPU energy was measured."
_CHANGE: Json = {"unit": "percentunit", "decimals": 1, "custom__width": 90}


def board() -> Json:
    """Return the dashboard."""
    return aligned_dashboard(
        _UID,
        "Inter-workload: comparison of workloads",
        [
            parts.notices({"": parts.workload_notices(WORKLOADS, _METRIC)}, width=24, height=6),
            _table(),
            _throughput(),
            _durations(),
            Row("$metric", [_curves(), _values()], repeat="metric"),
        ],
        description="Workloads by the aggregate of their runs, latest attempts only. All runs start at 00:00.",
        variables=[
            choices.experiment(),
            choices.workload(),
            choices.baseline(),
            choices.throughput(),
            choices.metric(["gpu_utilization", "gpu_sm_utilization", "cpu_usage", "memory_used"], runs=_RUNS),
            choices.align(),
            choices.fit(_RUNS),
        ],
        annotations=[parts.failures(_RUNS)],
        links=[
            fit_link(_UID),
            board_link("Intra-workload", "bench-intra", keep_time=True),
            board_link("Mixed", "bench-mixed", keep_time=True),
        ],
    )


def _change(*, more_is_better: bool) -> Json:
    """Return the options of a column of changes: blue is better and orange worse, which color-blind people tell apart."""
    less, more = ("orange", "blue") if more_is_better else ("blue", "orange")
    bounds = thresholds((None, less), (-0.005, "text"), (0.005, more))
    return {**_CHANGE, "custom__cellOptions": {"type": "color-text"}, "thresholds": bounds}


def _against_baseline(value: str, of: str = "") -> str:
    """Return the SQL change of a column against the baseline; null if their columns `of` differ."""
    among = f"partition by {of}" if of else ""
    base = f"max({value}) filter (where workload_id::text = ${{baseline:sqlstring}}) over ({among})"
    return f"{value} / nullif({base}, 0) - 1"


def _table() -> Json:
    to_runs = link(
        "Runs",
        "/d/bench-intra?var-workload=${__data.fields.workload_id}&var-experiment=${__data.fields.experiment_id}"
        "&from=1970-01-01T00:00:00.000Z&to=${fit}",
    )
    return panels.table(
        "Workloads against the baseline",
        f"""
            select title as "Workload", runs as "Runs", failed as "Failed",
                   seconds as "Duration", {_against_baseline("seconds")} as "Δ duration",
                   throughput as "Throughput", {_against_baseline("throughput")} as "Δ throughput",
                   energy as "GPU energy", {_against_baseline("energy", "energy_of")} as "Δ energy",
                   energy / runs as "Energy per run", {_against_baseline("(energy / runs)", "energy_of")} as "Δ per run",
                   energy_of as "Energy from", workload_id, experiment_id
            from {_TOTALS}
        """,
        overrides=[
            parts.NO_PLACEHOLDER,
            for_name("Workload", links=[to_runs], custom__width=300, custom__wrapText=True),
            for_name("Runs", custom__width=60),
            for_name(
                "Failed",
                custom__width=65,
                custom__cellOptions={"type": "color-text"},
                thresholds=thresholds((None, "text"), (1, "red")),
            ),
            for_name("Duration", unit="dthms"),
            for_regexp("/^GPU energy|^Energy per/", unit="joule"),
            for_regexp("/^Δ/", **_change(more_is_better=False)),
            for_name("Δ throughput", **_change(more_is_better=True) | {"custom__width": 120}),
            for_name("Energy from", custom__width=120),
            *hidden("workload_id", "experiment_id"),
        ],
        empty=curves.CHOOSE,
        width=24,
        height=7,
    )


def _throughput() -> Json:
    return panels.xychart(
        "Throughput ($throughput) against GPU energy",
        curves.or_placeholder(
            f"select title, color, stroke, energy, throughput from {_TOTALS} where energy is not null",
            "select *",
            f"select '{_NO_ENERGY}', '0', '0', 0, 0",
        ),
        transformations=[partition("title", "color", "stroke")],
        overrides=[
            *by_label()[:-1],
            for_regexp("/^energy/", unit="joule", custom__axisLabel="GPU energy", custom__axisSoftMin=0),
            for_regexp(
                "/^throughput/",
                custom__axisLabel="$throughput",
                custom__axisSoftMin=0,
                displayName="${__field.labels.title}",
            ),
            # Grafana shows an error without a point, and the point of the placeholder would be taken for a workload.
            for_name(_NO_ENERGY, color=color("transparent"), custom__pointSize={"fixed": 0}, custom__fillOpacity=0),
        ],
        width=12,
        height=9,
    )


def _durations() -> Json:
    return panels.bargauge(
        "Duration",
        f"select title, seconds from {_TOTALS}",
        unit="dthms",
        defaults={"color": color("blue")},
        empty=curves.CHOOSE,
        width=12,
        height=9,
    )


def _curves() -> Json:
    return panels.timeseries(
        "$metric over time: mean of runs, range of samples",
        **parts.in_unit_of(_METRIC, *curves.workload_curves(WORKLOADS, _METRIC)),
        overrides=curves.bands(),
        empty=curves.CHOOSE,
        width=14,
        height=10,
    )


def _values() -> Json:
    return panels.table(
        "$metric against the baseline",
        **parts.in_unit_of(
            _METRIC,
            query(
                f"""
                select title as "Workload", mean as "Mean", {_against_baseline("mean")} as "Δ mean", lowest as "Minimum",
                       highest as "Maximum"
                from workload_values({WORKLOADS}, {_METRIC})
                """
            ),
        ),
        overrides=[
            parts.NO_PLACEHOLDER,
            for_name("Workload", custom__width=170, custom__wrapText=True),
            for_name("Mean", **parts.bar("blue")),
            for_name("Δ mean", **_CHANGE),  # more is better for some metrics and worse for others
            for_regexp("/^(Minimum|Maximum)$/", custom__width=85),
        ],
        empty=curves.CHOOSE,
        width=10,
        height=10,
    )
