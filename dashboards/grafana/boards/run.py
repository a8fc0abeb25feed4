"""Dashboard *Run*: one run, live or past, in real time."""

from __future__ import annotations

from functools import partial

from hypergauge.dashboards.grafana import choices, parts
from hypergauge.dashboards.grafana.boards import run_charts, run_training
from hypergauge.dashboards.grafana.boards.run_charts import RUN
from hypergauge.dashboards.grafana.model import panels
from hypergauge.dashboards.grafana.model.fields import for_name, for_names, hidden
from hypergauge.dashboards.grafana.model.layout import Row, annotation, board_link, dashboard
from hypergauge.dashboards.grafana.model.variables import choice
from hypergauge.dashboards.grafana.queries import Json, literal, query
from hypergauge.dashboards.grafana.states import states

__all__ = ["board"]

_UID = "bench-run"
_MOST_LOGGED = 9  # three lines of charts
_NO_HIGHLIGHTS = "Written when the run ends. Until then: `bench highlights RUN`."

_stat = partial(panels.stat, width=3, height=4)
_measured = partial(_stat, empty="not measured")


def board() -> Json:
    """Return the dashboard."""
    return dashboard(
        _UID,
        "Run",
        [
            _title(),
            _status(),
            _duration(),
            _value("CPU", "cpu_usage", "suffix: cores", "Mean of the time range."),
            _value("Memory", "memory_used", "bytes", "Maximum of the time range, of the run's own processes.", "max"),
            _value(
                "GPU",
                "gpu_utilization",
                "percentunit",
                "Mean of the time range, of the whole GPU if shared.",
            ),
            _power(),
            _energy(),
            _notices(),
            _highlights(),
            _phases(),
            Row("Training", run_charts.training()),
            Row("Health of the training", run_training.tensors()),
            Row("GPUs", run_charts.gpus()),
            Row("Host", run_charts.host()),
            Row("Details, neighbours and rules", [_card(), _neighbours(), _rules()]),
            Row("Any quantity: $metric", [run_charts.any_quantity()], collapsed=True, repeat="metric"),
        ],
        description="One run, running or ended, in real time.",
        variables=[
            _choice(),
            choices.metric(["load"], runs=choices.RUNS),
            _logged(),
            choices.mlflow(),
            *(_hidden(name) for name in ("whole", "workload", "mlflow")),
        ],
        annotations=[
            annotation(
                "Rules",
                f"""
                    select started_at as time, coalesce(ended_at, now()) as timeend, rule as text, severity as tags
                    from rule_firings where run_id = {RUN}
                """,
                color="orange",
                hidden=True,
            ),
        ],
        links=[
            _link("Fit", f"/d/{_UID}?var-run=${{run}}&${{run_whole}}", "bolt"),
            _link("Workload", "/d/bench-intra?${run_workload}", "dashboard"),
            _link("MLflow", "${mlflow}/#/runs/${run_mlflow}", "external link", new_tab=True),
            board_link("GPUs", "bench-fleet"),
        ],
        start="now-15m",
    )


def _choice() -> Json:
    """Return the choice of one run: running ones first, then the newest."""
    return choice(
        "run",
        "Run",
        """
            select run_id as __value, concat_ws(' · ', run_title(w, r), nullif(r.status, 'finished')) as __text
            from runs r join workloads w using (workload_id)
            order by r.status = 'running' desc, r.started_at desc nulls last limit 2000
        """,
        several=False,
    )


def _logged() -> Json:
    """Return the hidden choice of software metrics: the most relevant ones, since *Intra-workload* draws any."""
    statement = (
        f"select key from result_keys({choices.RUNS}) with ordinality as x (key, nth) order by nth limit {_MOST_LOGGED}"
    )
    return choice("software", "", statement, hide=True)


def _hidden(name: str) -> Json:
    return choice(
        f"run_{name}", "", f"select {name} from run_links({RUN}) where {name} is not null", several=False, hide=True
    ) | {"skipUrlSync": True}


def _link(title: str, url: str, icon: str, *, new_tab: bool = False) -> Json:
    return {**board_link(title, ""), "url": url, "icon": icon, "includeVars": False, "targetBlank": new_tab}


def _of_run(what: str) -> Json:
    return query(f"select {what} from runs r join workloads w using (workload_id) where run_id = {RUN}")


def _title() -> Json:
    # No-break spaces keep the marks on the line of the name.
    title = "regexp_replace(run_title(w, r), ' ([*◆])', E'\\u00a0\\\\1', 'g') as run"
    return _stat("Run", [_of_run(title)], text=True, options={"text": {"valueSize": 15}}, empty="no run")


def _status() -> Json:
    return _stat("Status", [_of_run("r.status")], text=True, defaults={"mappings": parts.STATUS})


def _duration() -> Json:
    return _stat(
        "Duration", [_of_run("extract(epoch from coalesce(r.ended_at, now()) - r.started_at) as seconds")], unit="dthms"
    )


def _value(title: str, quantity: str, unit: str, description: str, calc: str = "mean") -> Json:
    return _measured(
        title,
        [run_charts.curve(quantity, title)],
        unit=unit,
        calc=calc,
        options={"colorMode": "none"},
        description=description,
        points=40,
    )


def _power() -> Json:
    return _measured(
        "Power",
        [
            query(
                f"""
                    with measured as (
                        select * from run_chart({choices.RUNS}, '{{gpu_energy_attributed,gpu_power}}', {parts.RANGE}, false,
                                                {parts.MAX_SERIES})
                    )
                    select time, case quantity when 'gpu_power' then 'whole GPUs' else 'above idle' end as metric, value
                    from measured
                    where quantity = 'gpu_energy_attributed'
                       or not exists (select from measured where quantity = 'gpu_energy_attributed')
                    order by time
                """,
                series=True,
            )
        ],
        unit="watt",
        calc="mean",
        options={"colorMode": "none", "textMode": "value_and_name"},
        description="Mean of the time range: the run's own power above idle. Where nothing measures it: that of whole GPUs.",
        points=40,
    )


def _energy() -> Json:
    return _measured(
        "Energy",
        [
            query(
                f"""
                    select now() as time, energy_of as metric, joules as value from run_energy({RUN})
                    where joules is not null
                """,
                series=True,
            )
        ],
        unit="joule",
        options={"textMode": "value_and_name"},
        description="Since the run's start: its part of the energy above idle, an equal one where it is divided evenly. Where "
        "nothing measures it: that of whole GPUs that it had to itself, idle included, once it has ended.",
    )


def _notices() -> Json:
    return parts.notices(
        {"": f"run_notice({RUN}, $__timeFrom(), $__timeTo(), {parts.MAX_SERIES})"},
        empty="None: no simulated GPUs, no profiler, no other runs on its GPUs.",
        width=24,
        height=4,
    )


def _highlights() -> Json:
    return panels.table(
        "Highlights",
        parts.or_placeholder(
            f"""
            select extract(epoch from h.started_at - r.started_at) as "From",
                   extract(epoch from h.ended_at - r.started_at) as "To", h.kind as "Kind", h.text as "Text",
                   run_id, floor(extract(epoch from h.started_at) * 1000)::bigint as from_ms, h.kind = 'rest' as rest,
                   ceil(extract(epoch from h.ended_at) * 1000)::bigint as to_ms
            from highlights h join runs r using (run_id) where run_id = {RUN}
            """,
            'select "From", "To", "Kind", "Text", run_id, from_ms, to_ms',
            f"select null, null, '', {literal(_NO_HIGHLIGHTS)}, {RUN}, 1000::bigint * $__unixEpochFrom(), false, "
            "1000::bigint * $__unixEpochTo()",
            'order by rest, "From", "To"',
        ),
        overrides=[
            parts.NO_PLACEHOLDER,
            *for_names("From", "To", unit="dthms", custom__width=110),
            for_name("Kind", custom__width=110),
            for_name("Text", custom__wrapText=True, links=[parts.run_link("Zoom in")]),
            *hidden("run_id", "from_ms", "to_ms"),
        ],
        empty=_NO_HIGHLIGHTS,
        width=24,
        height=7,
    )


def _phases() -> Json:
    return states(
        "Phases and epochs",
        f"run_phases({RUN}, $__timeFrom(), $__timeTo())",
        line="line",
        state="name",
        empty="No phases in this time range. Scripts track them: `from hypergauge import track`, `with track.phase(...)`.",
        width=24,
        height=5,
    )


def _card() -> Json:
    return panels.table(
        "Run",
        f"select what, value from run_card({RUN})",
        options={"showHeader": False},
        overrides=[for_name("what", custom__width=120), for_name("value", custom__wrapText=True)],
        empty=parts.CHOOSE,
        width=12,
        height=13,
    )


def _neighbours() -> Json:
    return panels.table(
        "Neighbours",
        f"""
            select run as "Run", owner as "Owner", status as "Status", shared as "Shared", devices as "GPUs",
                   share as "Overlap", run_id, floor(extract(epoch from since) * 1000)::bigint as from_ms,
                   coalesce(ceil(extract(epoch from until) * 1000)::bigint::text, 'now') as to_ms
            from run_neighbours({RUN})
        """,
        overrides=[
            parts.NO_PLACEHOLDER,
            for_name("Run", links=[parts.run_link("Open the run")]),
            for_name("Status", mappings=parts.STATUS, custom__cellOptions={"type": "color-text"}, custom__width=90),
            for_name("Owner", custom__width=90),
            for_name("Shared", custom__width=80),
            for_name("Overlap", unit="percentunit", decimals=0, custom__width=110),
            *hidden("run_id", "from_ms", "to_ms"),
        ],
        empty="None: the run was alone on its host.",
        width=12,
        height=13,
    )


def _rules() -> Json:
    return panels.table(
        "Rule firings",
        f"""
            select severity as "Severity", rule as "Rule", started_at as "From", ended_at as "To", evidence::text as "Evidence",
                   firing_done(run_id, rule, started_at) as "Actions"
            from rule_firings where run_id = {RUN} order by started_at
        """,
        overrides=[
            parts.NO_PLACEHOLDER,
            *for_names("From", "To", unit="dateTimeAsIso", custom__width=160),
            *for_names("Evidence", "Actions", custom__wrapText=True),
        ],
        empty="None: no rule fired, or none was evaluated.",
        width=24,
        height=5,
    )
