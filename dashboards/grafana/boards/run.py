"""Dashboard *Run*: one run, live or past, in real time."""

from __future__ import annotations

from hypergauge.dashboards.grafana import choices, parts
from hypergauge.dashboards.grafana.boards import run_charts
from hypergauge.dashboards.grafana.boards.run_charts import RUN
from hypergauge.dashboards.grafana.model import panels
from hypergauge.dashboards.grafana.model.fields import for_name, link
from hypergauge.dashboards.grafana.model.layout import Row, annotation, board_link, dashboard
from hypergauge.dashboards.grafana.model.variables import choice
from hypergauge.dashboards.grafana.queries import Json, query
from hypergauge.dashboards.grafana.states import states

__all__ = ["board"]

_UID = "bench-run"
_NEIGHBOUR = link(
    "Open the run",
    "/d/bench-run?var-run=${__data.fields.run_id}&from=${__data.fields.from_ms}&to=${__data.fields.to_ms}",
)

_STRETCH = link(
    "Look at it",
    "/d/bench-run?var-run=${__data.fields.run_id}&from=${__data.fields.from_ms}&to=${__data.fields.to_ms}",
)


def board() -> Json:
    """Return the dashboard."""
    return dashboard(
        _UID,
        "Run",
        [
            _title(),
            _status(),
            _duration(),
            _figure("CPU", "cpu_usage", "suffix: cores", "Mean of the chosen time."),
            _figure("Peak memory", "memory_used", "bytes", "Most of the chosen time, its own.", "max"),
            _figure(
                "GPU busy", "gpu_utilization", "percentunit", "Mean of the chosen time; the whole GPU's if shared."
            ),
            _figure("GPU power", "gpu_energy_attributed", "watt", "Its part, beyond idle: mean of the chosen time."),
            _energy(),
            _notices(),
            _highlights(),
            _phases(),
            Row("Training", run_charts.training()),
            Row("GPUs", run_charts.gpus()),
            Row("Host", run_charts.host()),
            Row("What it is, and who else was there", [_card(), _neighbours(), _rules()]),
            Row("Any quantity: $metric", [run_charts.any_quantity()], collapsed=True, repeat="metric"),
        ],
        description="One run, live or past, in real time.",
        variables=[
            choices.experiment([]),
            choices.workload(),
            _choice(),
            choices.software(["loss", "accuracy"]),
            choices.metric(["load"], runs=choices.RUNS),
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
            ),
        ],
        links=[
            _link("The whole run", f"/d/{_UID}?var-run=${{run}}&${{run_whole}}", "bolt"),
            _link("Against its workload", "/d/bench-intra?${run_workload}", "dashboard"),
            _link("MLflow", "${mlflow}/#/runs/${run_mlflow}", "external link", new_tab=True),
            board_link("Hosts and GPUs", "bench-fleet"),
        ],
        start="now-15m",
    )


def _choice() -> Json:
    """Return the choice of one run: those that go on first, then the newest."""
    return choice(
        "run",
        "Run",
        f"""
        select run_id as __value, concat_ws(' · ', run_title(w, r), nullif(r.status, 'finished')) as __text
        from runs r join workloads w using (workload_id)
        where workload_id = any({choices.WORKLOADS})
        order by r.status = 'running' desc, r.started_at desc nulls last limit 2000
        """,
        several=False,
    )


def _hidden(name: str) -> Json:
    return choice(
        f"run_{name}", "", f"select {name} from run_links({RUN}) where {name} is not null", several=False, hide=True
    ) | {"skipUrlSync": True}


def _link(title: str, url: str, icon: str, *, new_tab: bool = False) -> Json:
    return {
        **board_link(title, ""),
        "url": url,
        "icon": icon,
        "includeVars": False,
        "targetBlank": new_tab,
    }


def _of_run(what: str) -> Json:
    return query(f"select {what} from runs r join workloads w using (workload_id) where run_id = {RUN}")


def _title() -> Json:
    # With marks that never stand on a line alone.
    title = "regexp_replace(run_title(w, r), ' ([*◆])', E'\\u00a0\\\\1', 'g') as run"
    return panels.stat(
        "Run",
        [_of_run(title)],
        text=True,
        options={"text": {"valueSize": 15}},
        empty="no run",
        width=3,
        height=4,
    )


def _status() -> Json:
    return panels.stat(
        "Status", [_of_run("r.status")], text=True, defaults={"mappings": parts.STATUS}, empty="—", width=3, height=4
    )


def _duration() -> Json:
    return panels.stat(
        "Duration",
        [_of_run("extract(epoch from coalesce(r.ended_at, now()) - r.started_at) as seconds")],
        unit="dthms",
        empty="—",
        width=3,
        height=4,
    )


def _figure(title: str, quantity: str, unit: str, description: str, calc: str = "mean") -> Json:
    return panels.stat(
        title,
        [run_charts.curve(quantity, title)],
        unit=unit,
        calc=calc,
        options={"colorMode": "none"},
        description=description,
        empty="—",
        points=40,
        width=3,
        height=4,
    )


def _energy() -> Json:
    return panels.stat(
        "Energy",
        [query(f"select run_energy({RUN}) as joules")],
        unit="joule",
        description="Of its GPUs, beyond what they draw with nothing to do; from its start on.",
        empty="—",
        width=3,
        height=4,
    )


def _notices() -> Json:
    return panels.table(
        "What to know",
        [query(f"select about, notice from run_notice({RUN}, $__timeFrom(), $__timeTo(), {parts.MAX_SERIES})")],
        options={"showHeader": False},
        overrides=[for_name("about", custom__width=110), for_name("notice", custom__wrapText=True)],
        empty="Nothing: no simulated GPU, no profiler, nobody else on its GPUs.",
        width=24,
        height=5,
    )


def _highlights() -> Json:
    return panels.table(
        "In ten lines",
        [
            query(
                f"""
                select extract(epoch from h.started_at - r.started_at) as "From",
                       extract(epoch from h.ended_at - r.started_at) as "To", h.kind as "Kind", h.text as "What",
                       run_id, floor(extract(epoch from h.started_at) * 1000)::bigint as from_ms,
                       ceil(extract(epoch from h.ended_at) * 1000)::bigint as to_ms
                from highlights h join runs r using (run_id) where run_id = {RUN}
                order by h.kind = 'rest', h.started_at, h.ended_at
                """
            )
        ],
        overrides=[
            parts.NO_WORDS,
            *(for_name(name, unit="dthms", custom__width=110) for name in ("From", "To")),
            for_name("Kind", custom__width=110),
            for_name("What", custom__wrapText=True, links=[_STRETCH]),
            *(for_name(name, custom__hideFrom__viz=True) for name in ("run_id", "from_ms", "to_ms")),
        ],
        empty="They are written when a run has ended: `bench highlights RUN` tells them until then.",
        width=24,
        height=9,
    )


def _phases() -> Json:
    return states(
        "Phases and epochs",
        f"run_phases({RUN}, $__timeFrom(), $__timeTo())",
        line="line",
        state="name",
        empty="Nothing was tracked within the chosen time: `from hypergauge import track`, then `with track.phase(...)`.",
        width=24,
        height=5,
    )


def _card() -> Json:
    return panels.table(
        "This run",
        [query(f"select what, value from run_card({RUN})")],
        options={"showHeader": False},
        overrides=[for_name("what", custom__width=120), for_name("value", custom__wrapText=True)],
        empty=parts.CHOOSE,
        width=12,
        height=13,
    )


def _neighbours() -> Json:
    return panels.table(
        "Neighbours: who ran there at the same time",
        [
            query(
                f"""
                select run as "Run", owner as "Owner", status as "Status", shared as "Same", devices as "GPUs",
                       share as "Beside it for", run_id, floor(extract(epoch from since) * 1000)::bigint as from_ms,
                       coalesce(ceil(extract(epoch from until) * 1000)::bigint::text, 'now') as to_ms
                from run_neighbours({RUN})
                """
            )
        ],
        overrides=[
            parts.NO_WORDS,
            for_name("Run", links=[_NEIGHBOUR]),
            for_name("Status", mappings=parts.STATUS, custom__cellOptions={"type": "color-text"}, custom__width=90),
            for_name("Owner", custom__width=90),
            for_name("Same", custom__width=80),
            for_name("Beside it for", unit="percentunit", decimals=0, custom__width=110),
            *(for_name(name, custom__hideFrom__viz=True) for name in ("run_id", "from_ms", "to_ms")),
        ],
        empty="Nobody: it had its host to itself.",
        width=12,
        height=13,
    )


def _rules() -> Json:
    return panels.table(
        "Rules that fired",
        [
            query(
                f"""
                select severity as "Severity", rule as "Rule", started_at as "From", ended_at as "To", evidence::text as "Evidence",
                       firing_done(run_id, rule, started_at) as "Done about it"
                from rule_firings where run_id = {RUN} order by started_at
                """
            )
        ],
        overrides=[
            parts.NO_WORDS,
            *(for_name(name, unit="dateTimeAsIso", custom__width=160) for name in ("From", "To")),
            *(for_name(name, custom__wrapText=True) for name in ("Evidence", "Done about it")),
        ],
        empty="None: no rule has fired, or none has looked at this run.",
        width=24,
        height=5,
    )
