"""Dashboard *Inter-workload*: workloads compared by the aggregate of their runs."""

from __future__ import annotations

from hypergauge.dashboards.grafana import choices, curves, parts
from hypergauge.dashboards.grafana.choices import WORKLOADS
from hypergauge.dashboards.grafana.model import panels
from hypergauge.dashboards.grafana.model.fields import by_label, color, for_name, for_regexp, link, thresholds
from hypergauge.dashboards.grafana.model.layout import Row, aligned_dashboard, board_link, fit_link
from hypergauge.dashboards.grafana.queries import Json, query, texts

__all__ = ["board"]

_UID = "bench-inter"
_RUNS = f"runs_of({WORKLOADS})"
_METRIC = texts("metric")
# Blue and orange, not green and red: more is better of some figures and worse of others.
_CHANGE: Json = {
    "unit": "percentunit",
    "decimals": 1,
    "custom__cellOptions": {"type": "color-text"},
    "thresholds": thresholds((None, "blue"), (-0.005, "text"), (0.005, "orange")),
    "custom__width": 90,
}


def board() -> Json:
    """Return the dashboard."""
    return aligned_dashboard(
        _UID,
        "Inter-workload: workloads against each other",
        [
            parts.notices({"": parts.workload_notices(WORKLOADS, _METRIC)}, width=24, height=6),
            _table(),
            _throughput(),
            _durations(),
            Row("$metric", [_curves(), _figures()], repeat="metric"),
        ],
        description="Workloads by the aggregate of their runs, of each row the latest attempt; all runs begin at 00:00.",
        variables=[
            choices.experiment(),
            choices.workload(),
            choices.baseline(),
            choices.throughput(),
            choices.metric(["gpu_utilization", "gpu_sm_utilization", "cpu_usage", "memory_used"], runs=_RUNS),
            choices.align(),
            choices.fit(_RUNS),
        ],
        links=[
            fit_link(_UID),
            board_link("Intra-workload", "bench-intra", keep_time=True),
            board_link("Mixed", "bench-mixed", keep_time=True),
        ],
    )


def _against_baseline(figure: str, of: str = "") -> str:
    """Return the change of a column against that of the baseline, in SQL; only where both have the same in a column `of`."""
    among = f"partition by {of}" if of else ""
    base = f"max({figure}) filter (where workload_id::text = ${{baseline:sqlstring}}) over ({among})"
    return f"{figure} / nullif({base}, 0) - 1"


def _table() -> Json:
    to_runs = link(
        "Its runs",
        "/d/bench-intra?var-workload=${__data.fields.workload_id}&var-experiment=${__data.fields.experiment_id}"
        "&from=1970-01-01T00:00:00.000Z&to=${fit}",
    )
    return panels.table(
        "Workloads, and how they differ from the baseline",
        [
            query(
                f"""
                select title as "Workload", runs as "Runs",
                       seconds as "Duration", {_against_baseline("seconds")} as "Δ duration",
                       throughput as "Throughput", {_against_baseline("throughput")} as "Δ throughput",
                       energy as "GPU energy", {_against_baseline("energy", "energy_of")} as "Δ energy",
                       energy / runs as "Energy per run", {_against_baseline("(energy / runs)", "energy_of")} as "Δ per run",
                       energy_of as "Energy from", workload_id, experiment_id
                from workload_totals({WORKLOADS}, ${{throughput:sqlstring}})
                """
            )
        ],
        overrides=[
            parts.NO_WORDS,
            for_name("Workload", links=[to_runs], custom__width=300, custom__wrapText=True),
            for_name("Runs", custom__width=60),
            for_name("Duration", unit="dthms"),
            for_regexp("/^GPU energy|^Energy per/", unit="joule"),
            for_regexp("/^Δ/", **_CHANGE),
            for_name("Δ throughput", custom__width=120),
            for_name("Energy from", custom__width=120),
            *(for_name(name, custom__hideFrom__viz=True) for name in ("workload_id", "experiment_id")),
        ],
        empty=curves.CHOOSE,
        width=24,
        height=7,
    )


def _throughput() -> Json:
    return panels.xychart(
        "Throughput ($throughput) against GPU energy",
        [
            query(
                curves.or_words(
                    f"""
                    select title, color, stroke, energy, throughput
                    from workload_totals({WORKLOADS}, ${{throughput:sqlstring}}) where energy is not null
                    """,
                    "select *",
                    "select 'No energy of a GPU is known of any of these workloads.', '0', '0', 0, 0",
                )
            )
        ],
        [],
        transformations=[
            {
                "id": "partitionByValues",
                "options": {
                    "fields": ["title", "color", "stroke"],
                    "keepFields": False,
                    "naming": {"asLabels": True},
                },
            }
        ],
        options={"mapping": "auto"},
        overrides=[
            *by_label()[:-1],
            for_regexp("/^energy/", unit="joule", custom__axisLabel="GPU energy", custom__axisSoftMin=0),
            for_regexp(
                "/^throughput/",
                custom__axisLabel="$throughput",
                custom__axisSoftMin=0,
                displayName="${__field.labels.title}",
            ),
        ],
        width=12,
        height=9,
    )


def _durations() -> Json:
    return panels.bargauge(
        "Duration",
        [query(f"select title, seconds from workload_totals({WORKLOADS}, ${{throughput:sqlstring}})")],
        unit="dthms",
        defaults={"color": color("blue")},
        empty=curves.CHOOSE,
        width=12,
        height=9,
    )


def _curves() -> Json:
    return panels.timeseries(
        "$metric over time: mean of the runs, range of all samples",
        [*curves.workload_curves(WORKLOADS, _METRIC), parts.unit_query(_METRIC)],
        transformations=[parts.unit_applied()],
        overrides=curves.bands(),
        empty=curves.CHOOSE,
        width=14,
        height=10,
    )


def _figures() -> Json:
    return panels.table(
        "$metric of the runs, against the baseline",
        [
            query(
                f"""
                select title as "Workload", mean as "Mean", {_against_baseline("mean")} as "Δ mean", lowest as "Lowest",
                       highest as "Highest"
                from workload_figures({WORKLOADS}, {_METRIC})
                """
            ),
            parts.unit_query(_METRIC),
        ],
        transformations=[parts.unit_applied()],
        overrides=[
            parts.NO_WORDS,
            for_name("Workload", custom__width=170, custom__wrapText=True),
            for_name("Mean", **parts.bar("blue")),
            for_regexp("/^Δ/", **_CHANGE),
            for_regexp("/^(Lowest|Highest)$/", custom__width=85),
        ],
        empty=curves.CHOOSE,
        width=10,
        height=10,
    )
