"""Charts of one run: metrics of the run, its devices and its host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypergauge.dashboards.grafana import choices, parts
from hypergauge.dashboards.grafana.curves import broken_at_gaps
from hypergauge.dashboards.grafana.model import panels
from hypergauge.dashboards.grafana.model.fields import by_label, color, for_regexp
from hypergauge.dashboards.grafana.queries import Json, query, texts
from hypergauge.dashboards.grafana.states import colored_by_name, ratio_heatmap

__all__ = ["RUN", "any_quantity", "curve", "gpus", "host", "training"]

# The chosen run as an SQL text.
RUN = "${run:sqlstring}"
_NOT_MEASURED = "Not measured in this time range."
_OWN_AND_WHOLE = (for_regexp("/this run/", color=color("#3274D9")), for_regexp("/whole/", color=color("#8E8E9A")))


def training() -> list[Json]:
    """Return charts of steps and of each software metric."""
    return [_steps(), _logged()]


def gpus() -> list[Json]:
    """Return charts of the run's GPUs and of its own share of them."""
    return [
        _heatmap(),
        _chart(
            "GPU utilization: run and whole GPU",
            [_own("gpu_sm_utilization"), _around("gpu_utilization", "whole GPU or instance")],
            unit="percentunit",
            description="On a MIG instance the driver reports no utilization of processes; the instance is the run's alone.",
        ),
        _chart(
            "GPU memory",
            [
                _own("gpu_memory_used"),
                _around("gpu_memory_used", "whole GPU or instance"),
                _around("gpu_memory_total", "capacity", "C"),
            ],
            unit="bytes",
        ),
        _chart(
            "Power",
            [_own("gpu_energy_attributed", "this run, above idle"), _around("gpu_power", "whole GPUs")],
            unit="watt",
            width=8,
        ),
        _of_each_gpu("Power of each GPU", "gpu_power"),
        _of_each_gpu("Peak power of each GPU", "gpu_power_peak"),
    ]


def host() -> list[Json]:
    """Return charts of the run's host usage and of the whole host."""
    return [
        _chart("CPU", [_own("cpu_usage"), _around("cpu_usage", "whole host")], unit="suffix: cores"),
        _chart(
            "Memory",
            [_own("memory_used"), _around("memory_available", "available on the host")],
            unit="bytes",
        ),
        _chart(
            "Disk of the run",
            [_own("disk_read", "read"), _own("disk_write", "written", "B")],
            unit="binBps",
        ),
        _chart(
            "Network of the host",
            [_around("network_receive", "received", "A"), _around("network_transmit", "sent")],
            unit="binBps",
        ),
        _chart(
            "Power of CPU and memory",
            [
                _own("cpu_energy_attributed", "CPU of this run, above idle"),
                _own("dram_energy_attributed", "memory of this run, above idle", "B"),
                _own("system_energy_attributed", "system of this run, above idle", "C"),
                _around("cpu_power", "CPU packages", "D"),
                _around("dram_power", "memory", "E"),
                _around("system_power", "whole system", "F"),
            ],
            unit="watt",
            width=24,
            overrides=(),
            description="The run's parts by its CPU time. A system includes the others.",
        ),
    ]


def any_quantity() -> Json:
    """Return a chart of any quantity in the run's narrowest scope."""
    return panels.timeseries(
        "$metric",
        [
            query(
                broken_at_gaps(
                    f"""
                    select time, scope as metric, value
                    from run_chart({choices.RUNS}, {texts("metric")}, {parts.RANGE}, false, {parts.MAX_SERIES})
                    """,
                    "metric",
                ),
                series=True,
            ),
            parts.unit_query(texts("metric")),
        ],
        transformations=[parts.unit_applied()],
        empty=_NOT_MEASURED,
        width=24,
        height=8,
    )


def curve(quantity: str, name: str, scopes: str = "null", ref: str = "A") -> Json:
    """Return the query of a quantity of the run under a name; in the narrowest scope, by default of all."""
    rows = f"""
        select distinct on (time) time, '{name}' as metric, value
        from run_chart({choices.RUNS}, array['{quantity}'], {parts.RANGE}, false, {parts.MAX_SERIES}, {scopes})
        order by time, scope_width(scope, (select exclusive({RUN})))
    """
    return query(broken_at_gaps(rows, "metric"), series=True, ref=ref)


def _steps() -> Json:
    return _chart(
        "Steps a second",
        [query(f"select time, source as metric, value from run_steps({RUN}, {parts.RANGE})", series=True)],
        unit="suffix: /s",
        description="From step spans; without spans, from the steps of the most frequent software metric.",
        empty="No steps in this time range: the script needs `with track.step(n)` or metrics logged by step.",
        width=24,
    )


def _logged() -> Json:
    """Return a chart of each software metric."""
    return panels.timeseries(
        "Logged: $software",
        [
            query(
                f"select time, key as metric, value from run_logged({RUN}, {texts('software')}, {parts.RANGE})",
                series=True,
            )
        ],
        custom={"spanNulls": True, "showPoints": "auto"},
        empty="Nothing was logged in this time range.",
        repeat="software",
        max_per_row=3,
        width=8,
        height=7,
    )


def _heatmap() -> Json:
    # Without the run's first bucket: Grafana makes all cells as wide as the shortest distance of two times.
    return ratio_heatmap(
        "Utilization of GPUs and instances",
        f"""
            with measured as materialized (
                select time, device as metric, value from run_devices_chart({RUN}, 'gpu_utilization', {parts.RANGE})
                where time > (select started_at from runs where run_id = {RUN})
            )
            select * from measured
            union all
            select (select min(time) from measured), device, null
            from placements p join devices d using (host, origin, gpu_uuid)
            where p.run_id = {RUN} and d.gpu_instance_id is not distinct from p.gpu_instance_id
              and exists (select from measured) and device not in (select metric from measured)
        """,
        empty="No GPU was measured",
        description="An empty row or cell was not measured; an idle GPU has the color of 0 %.",
        height=6,
    )


def _of_each_gpu(title: str, quantity: str) -> Json:
    statement = f"select time, device, value from run_devices_chart({RUN}, '{quantity}', {parts.RANGE})"
    return _chart(title, [colored_by_name(statement, "device")], unit="watt", width=8, overrides=by_label())


def _own(quantity: str, name: str = "this run", ref: str = "A") -> Json:
    return curve(quantity, name, "array['process']", ref)


def _around(quantity: str, name: str, ref: str = "B") -> Json:
    return curve(quantity, name, "array['instance', 'device', 'host']", ref)


def _chart(
    title: str,
    targets: list[Json],
    *,
    unit: str,
    width: int = 12,
    empty: str = _NOT_MEASURED,
    overrides: Sequence[Json] = _OWN_AND_WHOLE,
    **more: Any,
) -> Json:
    return panels.timeseries(
        title,
        targets,
        unit=unit,
        overrides=overrides,
        empty=empty,
        width=width,
        height=7,
        **more,
    )
