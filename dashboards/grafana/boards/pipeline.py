"""Dashboard *Pipeline*: health of scraping, writing and maintenance."""

from __future__ import annotations

from hypergauge.dashboards.grafana import parts
from hypergauge.dashboards.grafana.boards import pipeline_charts
from hypergauge.dashboards.grafana.boards.pipeline_charts import ANY, COLORED, EVERY, own
from hypergauge.dashboards.grafana.model import panels
from hypergauge.dashboards.grafana.model.fields import for_name, thresholds, values
from hypergauge.dashboards.grafana.model.layout import Row, board_link, dashboard
from hypergauge.dashboards.grafana.queries import Json, query

__all__ = ["board"]

_SAMPLES = "suffix: samples/s"
_NO_TARGETS = (
    "No target was scraped within the chosen time: `bench up` starts a collector, `bench status` shows how it fares."
)
_LATE = thresholds((None, "green"), (5, "orange"), (30, "red"))
# One scrape of thirty may be a moment late, and be counted with the next step.
_LACK = thresholds((None, "red"), (0.5, "orange"), (0.95, "green"))
_LACK_EVERY = "30s"


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
            Row("The collector", pipeline_charts.collector()),
            Row("The database", pipeline_charts.database()),
        ],
        description="Whether all is scraped, written and kept in order: lag, gaps, spool, failed scrapes, jobs, size.",
        links=[board_link("Hosts and GPUs", "bench-fleet", keep_time=True)],
        refresh="10s",
    )


def _health(what: str) -> Json:
    return query(f"select {what} from target_health($__timeFrom(), $__timeTo())")


def _together(quantity: str) -> Json:
    return query(f"select time, sum(value) as value from {own([quantity])} group by time order by time", series=True)


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
        interval=EVERY,
        empty="—",
        width=5,
        height=4,
    )


def _missed() -> Json:
    return panels.stat(
        "Scrapes missing",
        [_health("sum(missed) as missed")],
        defaults={"color": {"mode": "thresholds"}, "thresholds": ANY, "decimals": 0},
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
        defaults={"color": {"mode": "thresholds"}, "thresholds": ANY, "decimals": 0},
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
        interval=EVERY,
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
            for_name("Overdue", unit="s", decimals=1, **COLORED, thresholds=_LATE),
            for_name("Every", unit="s", custom__width=80),
            for_name("Did not come", decimals=0, **COLORED, thresholds=ANY),
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
