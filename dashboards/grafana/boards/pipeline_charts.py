"""Charts of the collectors' and the database's own metrics."""

from __future__ import annotations

from hypergauge.dashboards.grafana import parts
from hypergauge.dashboards.grafana.model import panels
from hypergauge.dashboards.grafana.model.fields import by_label, for_name, for_names, thresholds, values
from hypergauge.dashboards.grafana.queries import Json
from hypergauge.dashboards.grafana.states import colored_by_name

__all__ = ["ANY", "COLORED", "EVERY", "SPOOL", "collector", "database", "own"]

# The collector exposes its own metrics every 10 s.
EVERY = "10s"
ANY = thresholds((None, "green"), (1, "orange"))
COLORED: Json = {"custom__cellOptions": {"type": "color-text"}, "custom__width": 110}
SPOOL = "Size of the files. Written samples stay until their file of 8 MiB is full: more is a backlog."
_RESULT = values({"success": ("success", "green"), "failed": ("failed", "red")})
_NO_COLLECTOR = (
    "The collector's own metrics are missing. `bench up` starts one that scrapes itself; a targets file has to "
    "name the collector."
)


def collector() -> list[Json]:
    """Return charts of the collectors' work and errors."""
    return [_rates(), _failures(), _times(), _backlog(), _dropped(), _errors()]


def database() -> list[Json]:
    """Return tables of the database's sizes and jobs."""
    return [_sizes(), _jobs()]


def own(quantities: list[str], by: str = "host") -> str:
    """Return an SQL relation of the collectors' own metrics."""
    names = ", ".join(f"'collector_{name}'" for name in quantities)
    return f"series_chart(array[{names}], {parts.RANGE}, '{by}', {parts.MAX_SERIES})"


def _curves(
    title: str,
    rows: str,
    *,
    name: str,
    unit: str,
    stacked: bool = False,
    empty: str = _NO_COLLECTOR,
    description: str = "",
) -> Json:
    drawn: Json = {"spanNulls": 60_000}
    if stacked:
        drawn |= {"drawStyle": "bars", "fillOpacity": 70, "lineWidth": 0, "stacking": {"mode": "normal", "group": "A"}}
    return panels.timeseries(
        title,
        [colored_by_name(f"select time, {name} as metric, {rows}")],
        unit=unit,
        custom=drawn,
        empty=empty,
        description=description,
        overrides=by_label(),
        interval=EVERY,
        width=12,
        height=7,
    )


def _rates() -> Json:
    return _curves(
        "Samples a second",
        f"value from {own(['samples', 'sample_rate'])}",
        name="case quantity when 'collector_samples' then 'written' else 'exposed by targets' end",
        unit="short",
    )


def _failures() -> Json:
    return _curves(
        "Failed scrapes by reason",
        f"value from {own(['scrapes'], 'outcome')} where series <> 'ok'",
        name="series",
        unit="suffix: /s",
        stacked=True,
        empty="No failed scrapes.",
    )


def _times() -> Json:
    return _curves(
        "Mean durations",
        f"seconds as value from collector_times({parts.RANGE})",
        name="what",
        unit="s",
    )


def _backlog() -> Json:
    return _curves("Spool by host", f"value from {own(['spool_size'])}", name="series", unit="bytes", description=SPOOL)


def _errors() -> Json:
    return panels.table(
        "Errors",
        """
            select what as "Error", reason as "Reason", times as "Count"
            from collector_errors($__timeFrom(), $__timeTo())
        """,
        overrides=[parts.NO_PLACEHOLDER, for_name("Count", decimals=0)],
        empty="No errors.",
        width=12,
        height=7,
    )


def _dropped() -> Json:
    return _curves(
        "Dropped lines by reason",
        f"value from {own(['dropped_lines'], 'reason')}",
        name="series",
        unit="suffix: /s",
        stacked=True,
        empty="No dropped lines.",
    )


def _sizes() -> Json:
    return panels.table(
        "Sizes of relations",
        """
            select relation as "Relation", bytes as "Size", rows as "Rows (estimate)", bytes / nullif(rows, 0)::float8 as "Row size",
                   compressed as "Compressed"
            from storage_sizes order by bytes desc limit 12
        """,
        description="A row of samples is one sample. Uncompressed chunks take much more space.",
        overrides=[
            parts.NO_PLACEHOLDER,
            for_name("Size", unit="bytes", custom__width=100),
            for_name("Rows (estimate)", unit="short", custom__width=110),
            for_name("Row size", unit="bytes", decimals=1, custom__width=90),
            for_name("Compressed", unit="percentunit", custom__width=110),
        ],
        width=10,
        height=9,
    )


def _jobs() -> Json:
    return panels.table(
        "Jobs",
        """
            select concat_ws(' of ', job, nullif(relation, '')) as "Job", result as "Last result", state as "State",
                   last_run as "Last run", seconds as "Duration", next_run as "Next run", failures as "Failures"
            from storage_jobs order by failures desc nulls last, job, relation
        """,
        overrides=[
            parts.NO_PLACEHOLDER,
            for_name("Job", custom__width=220, custom__wrapText=True),
            for_name("Last result", mappings=_RESULT, custom__cellOptions={"type": "color-text"}),
            for_name("State", custom__width=80),
            *for_names("Last run", "Next run", unit="dateTimeFromNow", custom__width=150),
            for_name("Duration", unit="s", custom__width=90),
            for_name("Failures", **COLORED, thresholds=ANY),
        ],
        width=14,
        height=9,
    )
