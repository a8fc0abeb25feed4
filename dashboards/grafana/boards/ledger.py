"""Dashboard *GPU ledger*: runs on each GPU and MIG instance in real time, and each run's own part of it."""

from __future__ import annotations

from hypergauge.dashboards.grafana import choices, parts
from hypergauge.dashboards.grafana.model import panels
from hypergauge.dashboards.grafana.model.fields import by_label, color, for_regexp, link
from hypergauge.dashboards.grafana.model.layout import Row, annotation, board_link, dashboard
from hypergauge.dashboards.grafana.model.variables import choice
from hypergauge.dashboards.grafana.queries import Json, query, texts
from hypergauge.dashboards.grafana.states import states
from hypergauge.dashboards.palette import COLORS

__all__ = ["board"]

_SPAN = "$__timeFrom()::timestamptz, $__timeTo()::timestamptz"
# A subquery: as an argument of functions that are inlined, a call would be repeated for each row.
_RUNS = f"(select ledger_runs({_SPAN}, {texts('host')}, {texts('experiment')}))::text[]"
# The lanes as numbers; none for an empty choice.
_LANES = f"(select array(select one::integer from unnest({texts('lane')}) one where one <> ''))"
_EMPTY = "No run used a GPU in this time range."
_GRAY = "#9aa0a6"
_RUN = "/d/bench-run?var-run="
# Distinguishes the states of a run. In a link, which has the value as it is (`csv`), it is a parameter without effect.
_LOST = "&lost"


def board() -> Json:
    """Return the dashboard."""
    return dashboard(
        "bench-ledger",
        "GPU ledger",
        [
            _sentence(),
            _lanes(),
            Row(
                "$lane",
                [
                    _parts("SM share of each run", "sm", unit="percentunit"),
                    _parts("Power of each run, on idle power", "power", unit="watt"),
                ],
                repeat="lane",
            ),
            Row("Runs", [parts.run_table(_RUNS, width=24, height=9)]),
        ],
        description="Runs on GPUs and MIG instances in real time: who held them, and each run's own part.",
        variables=[
            choice(
                "host", "Host", "select distinct host from places where kind = 'host' and origin = '' order by host"
            ),
            choice(
                "experiment",
                "Experiment",
                """
                select experiment_id::text as __value, concat_ws(' ', experiment_id, nullif(name, '')) as __text
                from experiments order by experiment_id desc
                """,
            ),
            choice(
                "lane",
                "GPU",
                f"""
                select place_id::text as __value, concat_ws(' ', host, lane) as __text
                from ledger_lanes({texts("host")})
                """,
            ),
            choices.mlflow(),
        ],
        annotations=[
            annotation(
                "Failures",
                f"""
                select distinct ended_at as time, concat_ws(': ', '✗ ' || title, coalesce(nullif(reason, ''), status)) as text
                from ledger_blocks({_RUNS}) where early order by 1
                """,
                color="red",
                hidden=True,
            ),
            annotation(
                "Rules",
                f"""
                select f.started_at as time, coalesce(f.ended_at, r.ended_at, now()) as timeend,
                       concat_ws(': ', run_title(w, r), f.rule) as text, f.severity as tags
                from rule_firings f join runs r using (run_id) join workloads w using (workload_id)
                where run_id = any({_RUNS}) order by 1
                """,
                color="orange",
            ),
            annotation(
                "Phases",
                f"""
                select s.started_at as time, concat_ws(': ', run_title(w, r), s.name) as text
                from spans s join runs r using (run_id) join workloads w using (workload_id)
                where run_id = any({_RUNS}) and s.kind = 'phase' order by 1
                """,
                enabled=False,
            ),
        ],
        links=[board_link("GPUs", "bench-fleet", keep_time=True)],
        start="now-6h",
    )


def _sentence() -> Json:
    return panels.stat(
        "In this time range",
        f"""
            select concat_ws(' ', (select 'Not finished: ' || u || '.' from unfinished({_RUNS}) u where u not like 'none of %'),
                             sharing_sentence({_RUNS}), ledger_sentence) as sentence
            from ledger_sentence({_RUNS}, {_SPAN})
        """,
        text=True,
        options={"textMode": "value", "colorMode": "none", "justifyMode": "auto", "text": {"valueSize": 16}},
        defaults={"noValue": _EMPTY},
        description="Runs that did not finish; what sharing saved and cost, against the same runs alone in their experiments; and "
        "how busy the GPUs were from the first start to the last end in the time range. Parts of runs and intervals: `bench interference`.",
        width=24,
        height=4,
    )


def _lanes() -> Json:
    return states(
        "GPUs and MIG instances; lighter: time lost to the runs beside it",
        f"""
            (select time, ended, lane, run_id || case when lost then '{_LOST}' else '' end as run, title,
                    color::integer + case when lost then {len(COLORS)} else 0 end as color
             from ledger_states({_RUNS}, {_SPAN})) blocks
        """,
        line="lane",
        state="run",
        text="title",
        links=[link("Open the run", f"{_RUN}${{__value.raw:csv}}&${{__url_time_range}}")],
        empty=_EMPTY,
        description="A line more for each run at the same time. Lighter: how much longer the run took than alone, at its end. "
        "✗ marks runs that failed, were stopped or timed out.",
        width=24,
        height=12,
    )


def _parts(title: str, measure: str, *, unit: str) -> Json:
    return panels.timeseries(
        title,
        [
            query(
                f"""
                select time, color, run_id, stroke, title, tone, value
                from ledger_chart({_RUNS}, '{measure}', {parts.RANGE}, {_LANES}) order by time
                """,
                series=True,
            )
        ],
        unit=unit,
        custom={
            "drawStyle": "bars",
            "barAlignment": 1,
            "barWidthFactor": 1,
            "fillOpacity": 85,
            "lineWidth": 0,
            **({"axisSoftMax": 1} if measure == "sm" else {}),
            "stacking": {"mode": "normal", "group": "A"},
        },
        overrides=[
            for_regexp(
                '/run_id="[^"]/',
                links=[link("Open the run", f"{_RUN}${{__field.labels.run_id}}&${{__url_time_range}}")],
            ),
            for_regexp('/title="idle"/', color=color(_GRAY)),
            for_regexp('/tone="lost"/', custom__fillOpacity=30),
            *by_label(),
        ],
        description="An even part is that of the whole GPU's value, since nothing measured the run itself. "
        "Time lost: how much longer the run took than alone, at its end.",
        empty=_EMPTY,
        points=360,
        width=12,
        height=7,
    )
