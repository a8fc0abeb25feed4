"""Dashboard *Fleet*: busy and idle hosts and GPUs, their users, their energy."""

from __future__ import annotations

from hypergauge.dashboards.grafana import parts
from hypergauge.dashboards.grafana.model import panels
from hypergauge.dashboards.grafana.model.fields import by_label, for_name, link, thresholds, values
from hypergauge.dashboards.grafana.model.layout import Row, board_link, dashboard
from hypergauge.dashboards.grafana.model.variables import choice
from hypergauge.dashboards.grafana.queries import Json, query, texts
from hypergauge.dashboards.grafana.states import named, shares, states

__all__ = ["board"]

_HOSTS = texts("host")
_NO_DEVICES = "No GPU was measured: `bench up` starts the exporters, `bench doctor` says what is missing."
_LIVE = link(
    "Open the run", "/d/bench-run?var-run=${__data.fields.run_id}&from=${__data.fields.from_ms}&to=now&refresh=5s"
)
_SHARE: Json = {
    "unit": "percentunit",
    "decimals": 0,
    "min": 0,
    "max": 1,
    "thresholds": thresholds((None, "blue")),
    "custom__cellOptions": {"type": "gauge", "mode": "basic", "valueDisplayMode": "text"},
}
_WIDTHS = {"Device": 150, "Model": 200, "Owner": 100}
_STATE = values({"busy": ("busy", "blue"), "others": ("processes of no run", "orange"), "idle": ("idle", "green")})
_TODAY = "now/d"
_NAMED: Json = {"textMode": "value_and_name"}


def board() -> Json:
    """Return the dashboard."""
    return dashboard(
        "bench-fleet",
        "Hosts and GPUs",
        [
            _count("Busy", "busy", "blue"),
            _count("Idle", "idle", "green"),
            _count("With others' processes", "others", "orange"),
            _runs_now(),
            _power_now(),
            _energy_today(),
            _busy(),
            _idle(),
            _runs(),
            _hosts(),
            Row("Over time", [_left_out(), _occupancy(), _utilization(), _power()]),
            Row("Energy today", [_energy(simulated=False), _energy(simulated=True)]),
        ],
        description="What is busy now and by whom, what lies idle, and where the energy went.",
        variables=[
            choice(
                "host", "Host", "select distinct host from places where kind = 'host' and origin = '' order by host"
            ),
        ],
        links=[board_link("Pipeline", "bench-pipeline", keep_time=True)],
        start="now-6h",
        refresh="10s",
    )


def _count(title: str, state: str, shade: str) -> Json:
    return panels.stat(
        title,
        [
            query(
                f"select count(distinct (host, device)) as n from fleet() where state = '{state}' and host = any({_HOSTS})"
            )
        ],
        defaults={"color": {"mode": "thresholds"}, "thresholds": thresholds((None, "text"), (1, shade))},
        description="GPUs, and instances of those that are divided.",
        width=4,
        height=3,
    )


def _runs_now() -> Json:
    return panels.stat(
        "Runs going on",
        [query(f"select count(*) as n from fleet_runs() where host = any({_HOSTS})")],
        width=4,
        height=3,
    )


def _power_now() -> Json:
    return panels.stat(
        "Power now",
        [
            query(
                f"""
                select sum(power) filter (where not simulated) as "measured", sum(power) filter (where simulated) as "simulated *"
                from (select distinct host, gpu_uuid, power, simulated from fleet() where host = any({_HOSTS})) boards
                """
            )
        ],
        unit="watt",
        options=_NAMED,
        width=4,
        height=3,
        empty="—",
    )


def _energy_today() -> Json:
    return panels.stat(
        "Energy",
        [
            query(
                f"""
                select sum(joules) filter (where not simulated) as "measured",
                       sum(joules) filter (where simulated) as "simulated *"
                from energy($__timeFrom(), $__timeTo()) where kind <> 'cpu' and host = any({_HOSTS})
                """
            )
        ],
        unit="joule",
        options=_NAMED,
        time_from=_TODAY,
        width=4,
        height=3,
        empty="—",
    )


def _busy() -> Json:
    return panels.table(
        "Busy",
        [
            query(
                f"""
                select host as "Host", device as "Device", model as "Model",
                       run || coalesce(' ' || name, '') as "Run", owner as "Owner",
                       extract(epoch from now() - since) as "For", utilization as "Utilization",
                       memory_used as "Memory", memory_used / memory_total as "Memory filled",
                       power as "GPU's power", temperature as "Heat",
                       run_id, floor(extract(epoch from since) * 1000)::bigint as from_ms
                from fleet() where state = 'busy' and host = any({_HOSTS})
                """
            )
        ],
        overrides=[*_columns(), for_name("Run", links=[_LIVE], custom__width=200)],
        empty="No run is on a GPU.",
        width=24,
        height=6,
    )


def _idle() -> Json:
    return panels.table(
        "Not busy with a run",
        [
            query(
                f"""
                select host as "Host", device as "Device", model as "Model",
                       state as "State", extract(epoch from now() - since) as "No run for", utilization as "Utilization",
                       memory_used as "Memory", memory_used / memory_total as "Memory filled", power as "GPU's power"
                from fleet() where state <> 'busy' and host = any({_HOSTS})
                order by state = 'idle', since nulls first
                """
            )
        ],
        overrides=[
            *_columns(),
            for_name("State", mappings=_STATE, custom__cellOptions={"type": "color-text"}, custom__width=170),
            for_name("No run for", unit="dthms", noValue="as long as is known", custom__width=150),
        ],
        empty=f"Each GPU that was measured in the last minutes is busy with a run, or: {_NO_DEVICES}",
        width=24,
        height=6,
    )


def _columns() -> list[Json]:
    """Return how columns of devices look."""
    return [
        parts.NO_WORDS,
        *(for_name(name, custom__width=width) for name, width in _WIDTHS.items()),
        for_name("For", unit="dthms", custom__width=110),
        *(for_name(name, **_SHARE, custom__width=110) for name in ("Utilization", "Memory filled")),
        for_name("Memory", unit="bytes", custom__width=100),
        for_name("GPU's power", unit="watt", decimals=0, custom__width=110),
        for_name("Heat", unit="celsius", custom__width=70),
        *(for_name(name, custom__hideFrom__viz=True) for name in ("run_id", "from_ms")),
    ]


def _hosts() -> Json:
    return panels.table(
        "Hosts",
        [
            query(
                f"""
                select host as "Host", runs as "Runs", gpus as "GPUs", gpus_busy as "Busy", cores_busy as "Cores busy",
                       cores as "Cores", cores_busy / cores as "CPU", memory_used as "Memory",
                       memory_used / memory_total as "Memory filled", load as "Load"
                from fleet_hosts() where host = any({_HOSTS})
                """
            )
        ],
        defaults={"decimals": 1},
        overrides=[
            parts.NO_WORDS,
            *(for_name(name, **_SHARE) for name in ("CPU", "Memory filled")),
            *(for_name(name, decimals=0, custom__width=70) for name in ("Runs", "GPUs", "Busy", "Cores")),
            for_name("Memory", unit="bytes"),
        ],
        empty="No host was measured in the last minutes: `bench up` starts the exporters.",
        width=24,
        height=5,
    )


def _runs() -> Json:
    return panels.table(
        "Runs, with what is their own",
        [
            query(
                f"""
                select run || coalesce(' ' || name, '') || case when simulated then ' *' else '' end as "Run", owner as "Owner",
                       host as "Host", devices as "Devices", extract(epoch from now() - since) as "For", cpu_usage as "CPU",
                       memory_used as "Memory", gpu_memory_used as "GPU memory", gpu_power as "GPU power, own part",
                       run_id, floor(extract(epoch from since) * 1000)::bigint as from_ms
                from fleet_runs() where host = any({_HOSTS})
                """
            )
        ],
        overrides=[
            *_columns(),
            for_name("Run", links=[_LIVE]),
            for_name("CPU", unit="suffix: cores", decimals=2),
            for_name("GPU memory", unit="bytes"),
            for_name("GPU power, own part", unit="watt", decimals=0),
        ],
        empty="No run goes on.",
        width=24,
        height=6,
    )


def _left_out() -> Json:
    return panels.table(
        "What to know",
        [query(f"select notice from fleet_notice($__timeFrom(), $__timeTo(), {parts.MAX_SERIES}, {_HOSTS})")],
        options={"showHeader": False},
        overrides=[for_name("notice", custom__wrapText=True)],
        empty="All GPUs that were measured are drawn.",
        width=24,
        height=3,
    )


def _occupancy() -> Json:
    return states(
        "Who had which GPU",
        f"occupancy($__timeFrom(), $__timeTo(), {parts.MAX_SERIES}, {_HOSTS})",
        line="device",
        state="runs",
        empty="No run was on a GPU within the chosen time.",
        width=24,
        height=8,
    )


def _curves(quantity: str) -> str:
    return f"""
        select time, series as metric, value
        from series_chart(array['{quantity}'], {parts.RANGE}, 'device', {parts.MAX_SERIES}, {_HOSTS})
    """


def _utilization() -> Json:
    return shares(
        "Utilization of GPUs and instances", _curves("gpu_utilization"), empty="No GPU was measured", height=7
    )


def _power() -> Json:
    return panels.timeseries(
        "Power of GPUs",
        [named(_curves("gpu_power"))],
        overrides=by_label(),
        unit="watt",
        empty=_NO_DEVICES,
        points=360,  # a minute each in six hours: the buckets of samples_1m, whatever the width
        width=24,
        height=7,
    )


def _energy(*, simulated: bool) -> Json:
    return panels.table(
        "On simulated GPUs: made up" if simulated else "By whom",
        [
            query(
                f"""
                select who as "Who", joules as "Energy", joules / sum(joules) over () as "Share"
                from energy_shares($__timeFrom(), $__timeTo(), {_HOSTS}) where {"" if simulated else "not "}simulated
                """
            )
        ],
        description="Runs beyond what their GPUs draw with nothing to do; what that is, and what others' processes add, apart.",
        time_from=_TODAY,
        overrides=[
            for_name("Energy", unit="joule", custom__width=110),
            for_name("Share", **_SHARE),
        ],
        empty="No GPU is simulated." if simulated else "No energy was measured today.",
        width=12,
        height=7,
    )
