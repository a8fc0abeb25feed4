"""Dashboard *Inter-workload*: workloads compared by the aggregate of their runs."""

from __future__ import annotations

from hypergauge.dashboards.grafana import choices, curves, parts, results
from hypergauge.dashboards.grafana.choices import WORKLOADS
from hypergauge.dashboards.grafana.model import panels
from hypergauge.dashboards.grafana.model.fields import (
    by_label,
    for_name,
    for_regexp,
    hidden,
    hidden_point,
    link,
    partition,
)
from hypergauge.dashboards.grafana.model.layout import Row, aligned_dashboard, board_link, fit_link
from hypergauge.dashboards.grafana.model.variables import choice
from hypergauge.dashboards.grafana.queries import Json, query, texts

__all__ = ["board"]

_UID = "bench-inter"
_RUNS = f"runs_of({WORKLOADS})"
_METRIC = texts("metric")
_COUNTED = "Repetitions in which every run finished."
_RESULTS = f"workload_results({WORKLOADS}, ${{throughput:sqlstring}}, ${{baseline:sqlstring}})"
_NO_ENERGY = "No workload has a known GPU energy."


def board() -> Json:
    """Return the dashboard."""
    return aligned_dashboard(
        _UID,
        "Inter-workload: comparison of workloads",
        [
            results.verdict(
                f"workload_verdict({WORKLOADS}, ${{throughput:sqlstring}}, ${{baseline:sqlstring}})",
                parts.workload_notices(WORKLOADS, _METRIC),
                best="Greatest throughput",
                leanest="Least GPU energy per run",
            ),
            Row(
                "Notices and provenance",
                [
                    parts.notices({"": parts.workload_notices(WORKLOADS, _METRIC)}, width=24, height=7),
                    parts.run_table(_RUNS, width=24, height=9),
                ],
                collapsed=True,
            ),
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
            choices.metric(["gpu_sm_active"], runs=_RUNS),
            choices.align(),
            _known(),
            choices.fit(_RUNS),
            choices.cut(_RUNS),
            choices.mlflow(),
        ],
        annotations=[parts.failures(_RUNS)],
        links=[
            fit_link(_UID),
            board_link("Intra", "bench-intra", keep_time=True),
            board_link("Mixed", "bench-mixed", keep_time=True),
        ],
    )


def _known() -> Json:
    """Return the hidden variable that ends the title of a chart of energies: empty if all workloads have one."""
    return choice(
        "known",
        "",
        f"""
        select format(' · %s of %s known', count(energy), count(*)) from {_RESULTS}
        having count(energy) < count(*)
        """,
        several=False,
        hide=True,
    ) | {"skipUrlSync": True}


def _table() -> Json:
    to_runs = link(
        "Runs",
        "/d/bench-intra?var-workload=${__data.fields.workload_id}&var-experiment=${__data.fields.experiment_id}"
        "&from=1970-01-01T00:00:00.000Z&to=${fit}",
    )
    return panels.table(
        "Workloads, greatest throughput first, not finished last",
        [
            query(
                f"""
                select title as "{results.SWATCH}", title as "Workload", runs as "Runs", unfinished as "Not finished",
                       clock_text(seconds) as "Duration", seconds_change as "Δ time", throughput as "Throughput",
                       throughput_change as "Δ rate", per_run / 1000 as "kJ per run", per_run_change as "Δ per run",
                       coalesce(energy_of, 'not known') as "Energy", {results.repetitions("attempted")}, energy / 1000 as "GPU kJ",
                       energy_change as "Δ energy", workload_id, experiment_id
                from {_RESULTS} order by n = 0, throughput desc nulls last, seconds
                """
            ),
            results.colored_by(f"workload_titles({WORKLOADS})"),
        ],
        transformations=[results.colored()],
        overrides=[
            parts.NO_PLACEHOLDER,
            for_name(
                "Workload",
                links=[to_runs],
                custom__width=205,
                custom__wrapText=True,
            ),
            results.swatch(),
            for_name("Runs", custom__width=50),
            results.NOT_FINISHED,
            for_name("Repetitions", custom__width=95, description=_COUNTED),
            for_name("Duration", custom__width=90, custom__align="right"),
            for_name("Throughput", displayName="$throughput", custom__width=110),
            for_name("kJ per run", custom__width=88),
            for_name("GPU kJ", custom__width=70),
            *(results.change(f"Δ {name}", description=results.CHANGE)
              for name in ("time", "energy", "per run")),
            results.change("Δ rate", more_is_better=True, description=results.CHANGE),
            for_name("Energy", custom__width=110, description=results.NOT_KNOWN),
            *hidden("workload_id", "experiment_id"),
        ],
        description=f"Changes: {results.CHANGE}",
        empty=curves.CHOOSE,
        width=24,
        height=7,
    )  # fmt: skip


def _throughput() -> Json:
    return panels.xychart(
        "$throughput against GPU energy per run$known",
        curves.or_placeholder(
            f"""
            select title, color, stroke, per_run as energy, throughput from {_RESULTS}
            where per_run is not null and throughput is not null
            """,
            "select *",
            f"select '{_NO_ENERGY}', '0', '0', 0, 0",
        ),
        transformations=[partition("title", "color", "stroke")],
        overrides=[
            *by_label()[:-1],
            for_regexp("/^energy/", unit="joule", custom__axisLabel="GPU energy per run", custom__axisSoftMin=0),
            for_regexp(
                "/^throughput/",
                custom__axisLabel="$throughput",
                custom__axisSoftMin=0,
                displayName="${__field.labels.title}",
            ),
            hidden_point(_NO_ENERGY),
        ],
        width=12,
        height=9,
    )


def _durations() -> Json:
    return panels.table(
        "Duration",
        f"""
        select concat(case when failed > 0 then '✗ ' end, title) as "Workload", clock_text(seconds) as "Duration", seconds as " "
        from {_RESULTS} where seconds is not null
        """,
        overrides=[
            for_name("Workload", custom__width=210, custom__wrapText=True),
            for_name("Duration", custom__width=90, custom__align="right"),
            for_name(" ", **parts.bar("blue", text=False)),
        ],
        empty="No duration: no workload is chosen, or none ran in one pass.",
        width=12,
        height=9,
    )


def _curves() -> Json:
    return panels.timeseries(
        "$metric over time: mean of runs, range of samples$cut",
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
                select title as "Workload", mean as "Mean", mean_change as "Δ mean", lowest as "Minimum", highest as "Maximum"
                from workload_values_against({WORKLOADS}, {_METRIC}, ${{baseline:sqlstring}})
                """
            ),
        ),
        overrides=[
            parts.NO_PLACEHOLDER,
            for_name("Workload", custom__width=170, custom__wrapText=True),
            for_name("Mean", **parts.bar("blue")),
            # More is better for some metrics and worse for others.
            results.change("Δ mean", more_is_better=None, description="≠: the baseline did other work."),
            for_regexp("/^(Minimum|Maximum)$/", custom__width=85),
        ],
        empty=curves.CHOOSE,
        width=10,
        height=10,
    )
