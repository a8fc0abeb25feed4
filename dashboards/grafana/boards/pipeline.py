"""Dashboard *Pipeline*: health of scraping, writing and maintenance."""

from __future__ import annotations

from functools import partial

from hypergauge.dashboards.grafana import parts
from hypergauge.dashboards.grafana.boards import pipeline_charts
from hypergauge.dashboards.grafana.boards.pipeline_charts import ANY, COLORED, EVERY, SPOOL, own
from hypergauge.dashboards.grafana.model import panels
from hypergauge.dashboards.grafana.model.fields import for_name, thresholds, values
from hypergauge.dashboards.grafana.model.layout import Row, board_link, dashboard
from hypergauge.dashboards.grafana.queries import Json, query

__all__ = ["board"]

_SAMPLES = "suffix: samples/s"
_NO_TARGETS = "No target was scraped in this time range. `bench up` starts a collector, `bench status` shows its state."
_LATE = thresholds((None, "green"), (5, "orange"), (30, "red"))
# One scrape of thirty may be late and count with the next step.
_LACK = thresholds((None, "red"), (0.5, "orange"), (0.95, "green"))
_LACK_EVERY = "30s"

_stat = partial(panels.stat, width=3, height=4)


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
            _errors("Failed", "scrapes failed"),
            _errors("Lost", "samples lost"),
            _spool(),
            _targets(),
            _scrapes(),
            Row("Collector", pipeline_charts.collector()),
            Row("Database", pipeline_charts.database()),
        ],
        description="Health of scraping, writing and storage: lag, gaps, spool, failed scrapes, jobs, size.",
        links=[board_link("Hosts and GPUs", "bench-fleet", keep_time=True)],
        refresh="10s",
    )


def _health(what: str) -> Json:
    return query(f"select {what} from target_health($__timeFrom(), $__timeTo())")


def _together(quantity: str) -> Json:
    return query(f"select time, sum(value) as value from {own([quantity])} group by time order by time", series=True)


def _targets_up() -> Json:
    return _stat("Targets up", [_health("count(*) filter (where up) || ' of ' || count(*) as up")], text=True)


def _lag() -> Json:
    return _stat(
        "Lag",
        [_health("max(greatest(lag - interval_seconds, 0)) filter (where up) as lag")],
        unit="s",
        defaults={"color": {"mode": "thresholds"}, "thresholds": _LATE, "decimals": 1},
        description="Of targets that are up: how long the next readable sample is overdue.",
    )


def _samples() -> Json:
    return _stat(
        "Written",
        [_together("samples")],
        unit=_SAMPLES,
        sparkline=True,
        options={"colorMode": "none"},
        interval=EVERY,
        width=5,
    )


def _missed() -> Json:
    return _stat(
        "Missed",
        [_health("sum(missed) as missed")],
        defaults={"color": {"mode": "thresholds"}, "thresholds": ANY, "decimals": 0},
        description="Scrapes that were due and did not happen.",
    )


def _errors(title: str, what: str) -> Json:
    return _stat(
        title,
        f"""
            select coalesce(sum(times), 0) as times from collector_errors($__timeFrom(), $__timeTo())
            where what = '{what}'
        """,
        defaults={"color": {"mode": "thresholds"}, "thresholds": ANY, "decimals": 0},
        description=f"{what.capitalize()} in the time range.",
    )


def _spool() -> Json:
    return _stat(
        "Spool",
        [_together("spool_size")],
        unit="bytes",
        description=SPOOL,
        sparkline=True,
        options={"colorMode": "none"},
        interval=EVERY,
        width=4,
    )


def _targets() -> Json:
    return panels.table(
        "Targets",
        """
            select target as "Target", host as "Host", case when up then 'up' else 'down' end as "State", lag as "Lag",
                   interval_seconds as "Interval", greatest(lag - interval_seconds, 0) as "Overdue", series as "Series", came as "Scrapes", missed as "Missed",
                   clock_offset as "Clock offset", url as "Address"
            from target_health($__timeFrom(), $__timeTo())
        """,
        description="Lag: time since the newest readable sample.",
        overrides=[
            parts.NO_PLACEHOLDER,
            for_name(
                "State",
                mappings=values({"up": ("up", "green"), "down": ("down", "red")}),
                custom__cellOptions={"type": "color-text"},
                custom__width=80,
            ),
            for_name("Lag", unit="s", decimals=1, noValue="over an hour", custom__width=110),
            for_name("Overdue", unit="s", decimals=1, **COLORED, thresholds=_LATE),
            for_name("Interval", unit="s", custom__width=80),
            for_name("Missed", decimals=0, **COLORED, thresholds=ANY),
            for_name("Clock offset", unit="s", decimals=3),
            for_name("Address", custom__width=330),
        ],
        empty=_NO_TARGETS,
        width=24,
        height=7,
    )


def _scrapes() -> Json:
    return panels.state_timeline(
        "Successful scrapes",
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
            "Empty before a target's first scrape, and without a collector. "
            f"The first {parts.MAX_SERIES} targets of the table above."
        ),
        empty=_NO_TARGETS,
        points=200,
        interval=_LACK_EVERY,
        width=24,
        height=7,
    )
