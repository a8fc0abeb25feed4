"""The pipeline itself: whether all is scraped, written and kept in order."""

from __future__ import annotations

from dashboards.grafana import panels, parts
from dashboards.grafana.fields import by_label, for_name, thresholds, values
from dashboards.grafana.layout import Row, board_link, dashboard
from dashboards.grafana.queries import Json, query
from dashboards.grafana.states import named

__all__ = ["board"]

_SAMPLES = "suffix: samples/s"
_NO_COLLECTOR = (
    "The collector's own figures are missing: `bench up` starts one that scrapes itself; with a targets file, "
    "let it name the collector as well."
)
_NO_TARGETS = (
    "No target was scraped within the chosen time: `bench up` starts a collector, `bench status` shows how it fares."
)
_LATE = thresholds((None, "green"), (5, "orange"), (30, "red"))
# One scrape of thirty may be a moment late, and be counted with the next step.
_LACK = thresholds((None, "red"), (0.5, "orange"), (0.95, "green"))
_LACK_EVERY = "30s"
_ANY = thresholds((None, "green"), (1, "orange"))
_COLORED: Json = {"custom__cellOptions": {"type": "color-text"}, "custom__width": 110}
_RESULT = values({"success": ("success", "green"), "failed": ("failed", "red")})
# What the collector says of itself, it says every 10 s.
_EVERY = "10s"


def board() -> Json:
    """Return the dashboard."""
    return dashboard(
        "bench-pipeline",
        "Pipeline",
        [
            _targets_up(),
            _lag(),
            _samples(),
            _missed(),
            _trouble("Scrapes failed", "scrapes failed"),
            _trouble("Samples lost", "samples lost"),
            _spool(),
            _targets(),
            _scrapes(),
            Row("The collector", [_rates(), _failures(), _times(), _backlog(), _dropped(), _troubles()]),
            Row("The database", [_sizes(), _jobs()]),
        ],
        description="Whether all is scraped, written and kept in order: lag, gaps, spool, failed scrapes, jobs, size.",
        links=[board_link("Hosts and GPUs", "bench-fleet", keep_time=True)],
        refresh="10s",
    )


def _health(what: str) -> Json:
    return query(f"select {what} from target_health($__timeFrom(), $__timeTo())")


def _own(quantities: list[str], by: str = "host") -> str:
    """Return the collectors' own figures as rows of SQL."""
    names = ", ".join(f"'collector_{name}'" for name in quantities)
    return f"series_chart(array[{names}], {parts.RANGE}, '{by}', {parts.MAX_SERIES})"


def _together(quantity: str) -> Json:
    return query(f"select time, sum(value) as value from {_own([quantity])} group by time order by time", series=True)


def _targets_up() -> Json:
    return panels.stat(
        "Targets up",
        [_health("count(*) filter (where up) || ' of ' || count(*) as up")],
        text=True,
        width=3,
        height=4,
    )


def _lag() -> Json:
    return panels.stat(
        "Longest lag",
        [_health("max(greatest(lag - interval_seconds, 0)) filter (where up) as lag")],
        unit="s",
        defaults={"color": {"mode": "thresholds"}, "thresholds": _LATE, "decimals": 1},
        description="Of the targets that are up: how long the next sample that can be read is overdue.",
        empty="—",
        width=3,
        height=4,
    )


def _samples() -> Json:
    return panels.stat(
        "Written",
        [_together("samples")],
        unit=_SAMPLES,
        sparkline=True,
        options={"colorMode": "none"},
        interval=_EVERY,
        empty="—",
        width=5,
        height=4,
    )


def _missed() -> Json:
    return panels.stat(
        "Scrapes missing",
        [_health("sum(missed) as missed")],
        defaults={"color": {"mode": "thresholds"}, "thresholds": _ANY, "decimals": 0},
        empty="—",
        width=3,
        height=4,
    )


def _trouble(title: str, what: str) -> Json:
    return panels.stat(
        title,
        [
            query(
                f"""
                select coalesce(sum(times), 0) as times from collector_troubles($__timeFrom(), $__timeTo())
                where what = '{what}'
                """
            )
        ],
        defaults={"color": {"mode": "thresholds"}, "thresholds": _ANY, "decimals": 0},
        width=3,
        height=4,
    )


def _spool() -> Json:
    return panels.stat(
        "Spool",
        [_together("spool_size")],
        unit="bytes",
        sparkline=True,
        options={"colorMode": "none"},
        interval=_EVERY,
        empty="—",
        width=4,
        height=4,
    )


def _targets() -> Json:
    return panels.table(
        "Targets",
        [
            query(
                """
                select target as "Target", host as "Host", case when up then 'up' else 'down' end as "State", lag as "Lag",
                       interval_seconds as "Every", greatest(lag - interval_seconds, 0) as "Overdue", series as "Series", came as "Scrapes", missed as "Did not come",
                       clock_offset as "Clock ahead by", url as "Address"
                from target_health($__timeFrom(), $__timeTo())
                """
            )
        ],
        description="Lag: now, less the time of the newest sample that can be read.",
        overrides=[
            parts.NO_WORDS,
            for_name(
                "State",
                mappings=values({"up": ("up", "green"), "down": ("down", "red")}),
                custom__cellOptions={"type": "color-text"},
                custom__width=80,
            ),
            for_name("Lag", unit="s", decimals=1, noValue="over an hour", custom__width=110),
            for_name("Overdue", unit="s", decimals=1, **_COLORED, thresholds=_LATE),
            for_name("Every", unit="s", custom__width=80),
            for_name("Did not come", decimals=0, **_COLORED, thresholds=_ANY),
            for_name("Clock ahead by", unit="s", decimals=3),
            for_name("Address", custom__width=330),
        ],
        empty=_NO_TARGETS,
        width=24,
        height=7,
    )


def _scrapes() -> Json:
    return panels.state_timeline(
        "Scrapes that came, of those that should have",
        [
            query(
                f"""
                select time, target as metric, share
                from target_scrapes({parts.RANGE}, {parts.MAX_SERIES})
                """,
                series=True,
            )
        ],
        defaults={"color": {"mode": "thresholds"}, "thresholds": _LACK, "unit": "percentunit"},
        options={"showValue": "never"},
        description=(
            "Nothing stands where nobody asked: before a target's first scrape, or while no collector ran. "
            f"Of more than {parts.MAX_SERIES} targets, the first in the table above."
        ),
        empty=_NO_TARGETS,
        points=200,
        interval=_LACK_EVERY,
        width=24,
        height=7,
    )


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
        interval=_EVERY,
        width=12,
        height=7,
    )


def _rates() -> Json:
    return _curves(
        "Samples a second",
        f"value from {_own(['samples', 'sample_rate'])}",
        name="case quantity when 'collector_samples' then 'written' else 'shown by targets' end",
        unit="short",
    )


def _failures() -> Json:
    return _curves(
        "Failed scrapes by reason",
        f"value from {_own(['scrapes'], 'outcome')} where series <> 'ok'",
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
    return _curves("Spool by host", f"value from {_own(['spool_size'])}", name="series", unit="bytes")


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
        f"value from {_own(['dropped_lines'], 'reason')}",
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
            for_name("Failures", **_COLORED, thresholds=_ANY),
        ],
        width=14,
        height=9,
    )
