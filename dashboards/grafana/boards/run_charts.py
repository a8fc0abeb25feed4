"""Charts of one run: its own metrics, and those of its devices and host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypergauge.dashboards.grafana import choices, parts
from hypergauge.dashboards.grafana.model import panels
from hypergauge.dashboards.grafana.model.fields import by_label, color, for_regexp
from hypergauge.dashboards.grafana.queries import Json, query, texts
from hypergauge.dashboards.grafana.states import named, shares

__all__ = ["RUN", "any_quantity", "curve", "gpus", "host", "training"]

# The run that is chosen, as a text in SQL.
RUN = "${run:sqlstring}"
_NOT_MEASURED = "Not measured of this run within the chosen time."
_OWN_AND_WHOLE = (for_regexp("/this run/", color=color("#3274D9")), for_regexp("/whole/", color=color("#8E8E9A")))


def training() -> list[Json]:
    """Return charts of its steps, and of each figure that it has logged."""
    return [_steps(), _logged()]


def gpus() -> list[Json]:
    """Return charts of its GPUs: which of them when, and what of them is its own."""
    return [
        _heatmap(),
        _chart(
            "Share of time with kernels: own and the whole GPU's",
            [_own("gpu_sm_utilization"), _around("gpu_utilization", "the whole GPU or instance")],
            unit="percentunit",
            description="The driver tells no run's own share on a MIG instance, which is the run's alone.",
        ),
        _chart(
            "GPU memory",
            [
                _own("gpu_memory_used"),
                _around("gpu_memory_used", "the whole GPU or instance"),
                _around("gpu_memory_total", "there is", "C"),
            ],
            unit="bytes",
        ),
        _chart(
            "Power",
            [_own("gpu_energy_attributed", "this run, beyond idle"), _around("gpu_power", "the whole GPUs")],
            unit="watt",
        ),
        _chart(
            "Power of each GPU",
            [named(f"select time, device, value from run_devices_chart({RUN}, 'gpu_power', {parts.RANGE})", "device")],
            unit="watt",
            overrides=by_label(),
        ),
    ]


def host() -> list[Json]:
    """Return charts of what it uses of its host, and the whole host beside it."""
    return [
        _chart("CPU", [_own("cpu_usage"), _around("cpu_usage", "the whole host")], unit="suffix: cores"),
        _chart(
            "Memory",
            [_own("memory_used"), _around("memory_available", "available on the host")],
            unit="bytes",
        ),
        _chart(
            "Disk, this run's own",
            [_own("disk_read", "read"), _own("disk_write", "written", "B")],
            unit="binBps",
        ),
        _chart(
            "Network, the whole host's",
            [_around("network_receive", "received", "A"), _around("network_transmit", "sent")],
            unit="binBps",
        ),
    ]


def any_quantity() -> Json:
    """Return a chart of any quantity, in the narrowest scope that the run has."""
    return panels.timeseries(
        "$metric",
        [
            query(
                f"""
                select time, scope as metric, value
                from run_chart({choices.RUNS}, {texts("metric")}, {parts.RANGE}, false, {parts.MAX_SERIES}) order by time
                """,
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
    """Return the query of a quantity of the run under a name: in the narrowest scope that it has, or in some."""
    return query(
        f"""
        select time, '{name}' as metric, value
        from run_chart({choices.RUNS}, array['{quantity}'], {parts.RANGE}, false, {parts.MAX_SERIES}, {scopes}) order by time
        """,
        series=True,
        ref=ref,
    )


def _steps() -> Json:
    return _chart(
        "Steps a second",
        [query(f"select time, source as metric, value from run_steps({RUN}, {parts.RANGE})", series=True)],
        unit="suffix: /s",
        description="By the spans of its steps; where it tracks none, by the steps of what it logs most often.",
        empty="No steps within the chosen time: `with track.step(n)` in the script, or a metric that is logged by step.",
        width=24,
    )


def _logged() -> Json:
    """Return a chart of each figure that was logged."""
    return panels.timeseries(
        "Logged: $software",
        [
            query(
                f"select time, key as metric, value from run_logged({RUN}, {texts('software')}, {parts.RANGE})",
                series=True,
            )
        ],
        custom={"spanNulls": True, "showPoints": "auto"},
        empty="Nothing was logged within the chosen time.",
        repeat="software",
        max_per_row=3,
        width=8,
        height=7,
    )


def _heatmap() -> Json:
    # Without the step that the run begins in: Grafana makes all cells as wide as the shortest distance of two times.
    return shares(
        "Utilization of its GPUs and instances",
        f"""
        select time, device as metric, value from run_devices_chart({RUN}, 'gpu_utilization', {parts.RANGE})
        where time > (select started_at from runs where run_id = {RUN})
        """,
        empty="No GPU was measured",
        height=6,
    )


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
