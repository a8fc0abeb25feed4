"""Charts of the collectors' and the database's own metrics."""

from __future__ import annotations

from hypergauge.dashboards.grafana import parts
from hypergauge.dashboards.grafana.model import panels
from hypergauge.dashboards.grafana.model.fields import by_label, for_name, thresholds, values
from hypergauge.dashboards.grafana.queries import Json, query
from hypergauge.dashboards.grafana.states import named

__all__ = ["ANY", "COLORED", "EVERY", "collector", "database", "own"]

# What the collector says of itself, it says every 10 s.
EVERY = "10s"
ANY = thresholds((None, "green"), (1, "orange"))
COLORED: Json = {"custom__cellOptions": {"type": "color-text"}, "custom__width": 110}
_RESULT = values({"success": ("success", "green"), "failed": ("failed", "red")})
_NO_COLLECTOR = (
    "The collector's own figures are missing: `bench up` starts one that scrapes itself; with a targets file, "
    "let it name the collector as well."
)


def collector() -> list[Json]:
    """Return charts of what the collectors do, and of what went wrong there."""
    return [_rates(), _failures(), _times(), _backlog(), _dropped(), _troubles()]


def database() -> list[Json]:
    """Return what is stored, and how the database's jobs fare."""
    return [_sizes(), _jobs()]


def own(quantities: list[str], by: str = "host") -> str:
    """Return the collectors' own figures as rows of SQL."""
    names = ", ".join(f"'collector_{name}'" for name in quantities)
    return f"series_chart(array[{names}], {parts.RANGE}, '{by}', {parts.MAX_SERIES})"


def _curves(title: str, rows: str, *, name: str, unit: str, stacked: bool = False, empty: str = _NO_COLLECTOR) -> Json:
    drawn: Json = {"spanNulls": 60_000}
    if stacked:
        drawn |= {"drawStyle": "bars", "fillOpacity": 70, "lineWidth": 0, "stacking": {"mode": "normal", "group": "A"}}
    return panels.timeseries(
        title,
        [named(f"select time, {name} as metric, {rows}")],
        unit=unit,
        custom=drawn,
        empty=empty,
        overrides=by_label(),
        interval=EVERY,
        width=12,
        height=7,
    )


def _rates() -> Json:
    return _curves(
        "Samples a second",
        f"value from {own(['samples', 'sample_rate'])}",
        name="case quantity when 'collector_samples' then 'written' else 'shown by targets' end",
        unit="short",
    )


def _failures() -> Json:
    return _curves(
        "Failed scrapes by reason",
        f"value from {own(['scrapes'], 'outcome')} where series <> 'ok'",
        name="series",
        unit="suffix: /s",
        stacked=True,
        empty="No scrape has failed, as far as the collector says.",
    )


def _times() -> Json:
    return _curves(
        "What takes how long, on average",
        f"seconds as value from collector_times({parts.RANGE})",
        name="what",
        unit="s",
    )


def _backlog() -> Json:
    return _curves("Spool by host", f"value from {own(['spool_size'])}", name="series", unit="bytes")


def _troubles() -> Json:
    return panels.table(
        "What went wrong within the chosen time",
        [
            query(
                """
                select what as "What", reason as "Reason", times as "How often"
                from collector_troubles($__timeFrom(), $__timeTo())
                """
            )
        ],
        overrides=[parts.NO_WORDS, for_name("How often", decimals=0)],
        empty="Nothing, as far as the collector says.",
        width=12,
        height=7,
    )


def _dropped() -> Json:
    return _curves(
        "Lines that gave no sample, by reason",
        f"value from {own(['dropped_lines'], 'reason')}",
        name="series",
        unit="suffix: /s",
        stacked=True,
        empty="No line was dropped, as far as the collector says.",
    )


def _sizes() -> Json:
    return panels.table(
        "Sizes of relations",
        [
            query(
                """
                select relation as "Relation", bytes as "Size", rows as "Rows, about", bytes / nullif(rows, 0)::float8 as "A row",
                       compressed as "Compressed"
                from storage_sizes order by bytes desc limit 12
                """
            )
        ],
        description="A row of samples is a sample. Chunks that are not compressed yet take much more room for each.",
        overrides=[
            parts.NO_WORDS,
            for_name("Size", unit="bytes", custom__width=100),
            for_name("Rows, about", unit="short", custom__width=110),
            for_name("A row", unit="bytes", decimals=1, custom__width=90),
            for_name("Compressed", unit="percentunit", custom__width=110),
        ],
        width=10,
        height=9,
    )


def _jobs() -> Json:
    return panels.table(
        "Jobs",
        [
            query(
                """
                select concat_ws(' of ', job, nullif(relation, '')) as "Job", result as "Last result", state as "State",
                       last_run as "Last run", seconds as "Took", next_run as "Next run", failures as "Failures"
                from storage_jobs order by failures desc nulls last, job, relation
                """
            )
        ],
        overrides=[
            parts.NO_WORDS,
            for_name("Job", custom__width=220, custom__wrapText=True),
            for_name("Last result", mappings=_RESULT, custom__cellOptions={"type": "color-text"}),
            for_name("State", custom__width=80),
            *(for_name(name, unit="dateTimeFromNow", custom__width=150) for name in ("Last run", "Next run")),
            for_name("Took", unit="s", custom__width=90),
            for_name("Failures", **COLORED, thresholds=ANY),
        ],
        width=14,
        height=9,
    )
