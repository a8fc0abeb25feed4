"""Dashboard *Fleet*: busy and idle hosts and GPUs, their users and their energy."""

from __future__ import annotations

from functools import partial

from hypergauge.dashboards.grafana import parts
from hypergauge.dashboards.grafana.model import panels
from hypergauge.dashboards.grafana.model.fields import by_label, for_name, for_names, hidden, thresholds, values
from hypergauge.dashboards.grafana.model.layout import Row, board_link, dashboard
from hypergauge.dashboards.grafana.model.variables import choice
from hypergauge.dashboards.grafana.queries import Json, texts
from hypergauge.dashboards.grafana.states import colored_by_name, ratio_heatmap, states

__all__ = ["board"]

_HOSTS = texts("host")
_NO_DEVICES = "No GPU was measured. `bench up` starts the exporters, `bench doctor` finds problems."
_LIVE = parts.run_link("Open the run", until="now&refresh=5s")
_SHARE: Json = {
    "unit": "percentunit",
    "decimals": 0,
    "min": 0,
    "max": 1,
    "thresholds": thresholds((None, "blue")),
    "custom__cellOptions": {"type": "gauge", "mode": "basic", "valueDisplayMode": "text"},
}
_WIDTHS = {"Host": 90, "Device": 140, "Model": 195, "Owner": 80}
_STATE = values({"busy": ("busy", "blue"), "others": ("other processes", "orange"), "idle": ("idle", "green")})
_TODAY = "now/d"
_NAMED: Json = {"textMode": "value_and_name"}

_stat = partial(panels.stat, width=4, height=3)


def board() -> Json:
    """Return the dashboard."""
    return dashboard(
        "bench-fleet",
        "Hosts and GPUs",
        [
            _count("Busy", "busy", "blue"),
            _count("Idle", "idle", "green"),
            _count("Other use", "others", "orange"),
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
        description="Busy and idle GPUs, their runs and users, and the energy of each.",
        variables=[
            choice(
                "host", "Host", "select distinct host from places where kind = 'host' and origin = '' order by host"
            ),
        ],
        links=[
            board_link("GPU ledger", "bench-ledger", keep_time=True),
            board_link("Pipeline", "bench-pipeline", keep_time=True),
        ],
        start="now-6h",
        refresh="10s",
    )


def _count(title: str, state: str, shade: str) -> Json:
    return _stat(
        title,
        f"""
            select case when count(*) > 0 then count(distinct (host, device)) filter (where state = '{state}') end as n
            from fleet() where host = any({_HOSTS})
        """,
        empty="not measured",
        defaults={"color": {"mode": "thresholds"}, "thresholds": thresholds((None, "text"), (1, shade))},
        description="GPUs and MIG instances.",
    )


def _runs_now() -> Json:
    return _stat("Running", f"select count(*) as n from fleet_runs() where host = any({_HOSTS})")


def _power_now() -> Json:
    return _stat(
        "Power",
        f"""
            select sum(power) filter (where not simulated) as "measured", sum(power) filter (where simulated) as "simulated *"
            from (select distinct host, gpu_uuid, power, simulated from fleet() where host = any({_HOSTS})) gpus
        """,
        unit="watt",
        options=_NAMED,
        empty="not measured",
    )


def _energy_today() -> Json:
    return _stat(
        "Energy today",
        f"""
            select sum(joules) filter (where not simulated) as "measured",
                   sum(joules) filter (where simulated) as "simulated *"
            from energy($__timeFrom(), $__timeTo()) where kind <> 'cpu' and host = any({_HOSTS})
        """,
        unit="joule",
        options=_NAMED,
        time_from=_TODAY,
    )


def _busy() -> Json:
    return panels.table(
        "GPUs with runs",
        f"""
            select host as "Host", device || case when count(*) over (partition by host, device) > 1 then ' †' else '' end as "Device",
                   model as "Model", run || coalesce(' ' || name, '') as "Run", owner as "Owner",
                   extract(epoch from now() - since) as "For", utilization as "Utilization",
                   memory_used as "Memory", memory_used / memory_total as "Memory share",
                   power as "GPU power", temperature as "Temperature",
                   run_id, floor(extract(epoch from since) * 1000)::bigint as from_ms
            from fleet() where state = 'busy' and host = any({_HOSTS})
        """,
        overrides=[*_columns(), for_name("Run", links=[_LIVE], custom__width=170)],
        description="† shared by the runs in these rows: the values are of the whole device, and of no run alone. Power and temperature "
        "are always those of the whole GPU.",
        empty="No GPU has a run.",
        width=24,
        height=6,
    )


def _idle() -> Json:
    return panels.table(
        "GPUs without runs",
        f"""
            select host as "Host", device as "Device", model as "Model",
                   state as "State", extract(epoch from now() - since) as "Without run for", utilization as "Utilization",
                   memory_used as "Memory", memory_used / memory_total as "Memory share", power as "GPU power"
            from fleet() where state <> 'busy' and host = any({_HOSTS})
            order by state = 'idle', since nulls first
        """,
        overrides=[
            *_columns(),
            for_name("State", mappings=_STATE, custom__cellOptions={"type": "color-text"}, custom__width=130),
            for_name("Without run for", unit="dthms", noValue="all known time", custom__width=130),
        ],
        empty=f"All measured GPUs have runs, or: {_NO_DEVICES}",
        width=24,
        height=6,
    )


def _columns() -> list[Json]:
    """Return the overrides of columns of devices."""
    return [
        parts.NO_PLACEHOLDER,
        *(for_name(name, custom__width=width) for name, width in _WIDTHS.items()),
        for_name("For", unit="dthms", custom__width=90),
        *for_names("Utilization", "Memory share", **_SHARE, custom__width=120),
        for_name("Memory", unit="bytes", custom__width=90),
        for_name("GPU power", unit="watt", decimals=0, custom__width=95),
        for_name("Temperature", unit="celsius", custom__width=100),
        *hidden("run_id", "from_ms"),
    ]


def _hosts() -> Json:
    return panels.table(
        "Hosts",
        f"""
            select host as "Host", runs as "Runs", gpus as "GPUs", gpus_busy as "Busy", cores_busy as "Cores busy",
                   cores as "Cores", cores_busy / cores as "CPU", memory_used as "Memory",
                   memory_used / memory_total as "Memory share", load as "Load"
            from fleet_hosts() where host = any({_HOSTS})
        """,
        defaults={"decimals": 1},
        overrides=[
            parts.NO_PLACEHOLDER,
            *for_names("CPU", "Memory share", **_SHARE),
            *for_names("Runs", "GPUs", "Busy", "Cores", decimals=0, custom__width=70),
            for_name("Memory", unit="bytes"),
        ],
        empty="No host was measured in the last minutes. `bench up` starts the exporters.",
        width=24,
        height=5,
    )


def _runs() -> Json:
    return panels.table(
        "Running runs",
        f"""
            select run || coalesce(' ' || name, '') || case when simulated then ' *' else '' end as "Run", owner as "Owner",
                   host as "Host", devices as "Devices", extract(epoch from now() - since) as "For", cpu_usage as "CPU",
                   memory_used as "Memory", gpu_memory_used as "GPU memory", gpu_power as "Attributed GPU power",
                   run_id, floor(extract(epoch from since) * 1000)::bigint as from_ms
            from fleet_runs() where host = any({_HOSTS})
        """,
        overrides=[
            *_columns(),
            for_name("Run", links=[_LIVE]),
            for_name("CPU", unit="suffix: cores", decimals=2),
            for_name("GPU memory", unit="bytes"),
            for_name("Attributed GPU power", unit="watt", decimals=0),
        ],
        empty="No run is running.",
        width=24,
        height=6,
    )


def _left_out() -> Json:
    return parts.notices(
        {"": f"fleet_notice($__timeFrom(), $__timeTo(), {parts.MAX_SERIES}, {_HOSTS})"},
        empty="Complete: all measured GPUs are drawn.",
        width=24,
        height=3,
    )


def _occupancy() -> Json:
    return states(
        "GPU assignment",
        f"occupancy($__timeFrom(), $__timeTo(), {parts.MAX_SERIES}, {_HOSTS})",
        line="device",
        state="runs",
        empty="No GPU had a run in this time range.",
        width=24,
        height=8,
    )


def _curves(quantity: str) -> str:
    return f"""
        select time, series as metric, value
        from series_chart(array['{quantity}'], {parts.RANGE}, 'device', {parts.MAX_SERIES}, {_HOSTS})
    """


def _utilization() -> Json:
    return ratio_heatmap(
        "Utilization of GPUs and instances",
        f"""
            select time, device as metric, value
            from fleet_utilization({parts.RANGE}, {parts.MAX_SERIES}, {_HOSTS})
        """,
        empty="No GPU was measured",
        description="An empty row or cell was not measured; an idle GPU has the color of 0 %.",
        height=7,
    )


def _power() -> Json:
    return panels.timeseries(
        "Power of GPUs",
        [colored_by_name(_curves("gpu_power"))],
        overrides=by_label(),
        unit="watt",
        empty=_NO_DEVICES,
        points=360,  # one per minute of six hours, as in samples_1m, for any panel width
        width=24,
        height=7,
    )


def _energy(*, simulated: bool) -> Json:
    return panels.table(
        "Simulated GPUs" if simulated else "By user",
        f"""
            select who as "User", joules as "Energy", joules / sum(joules) over () as "Share"
            from energy_shares($__timeFrom(), $__timeTo(), {_HOSTS}) where {"" if simulated else "not "}simulated
        """,
        description="Runs have their energy above idle; idle energy and other processes have rows of their own.",
        time_from=_TODAY,
        overrides=[
            for_name("Energy", unit="joule", custom__width=110),
            for_name("Share", **_SHARE),
        ],
        empty="No GPU is simulated." if simulated else "No energy was measured today.",
        width=12,
        height=7,
    )
