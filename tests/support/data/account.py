"""Content of a database for a scripted exporter, checked at every level."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import psycopg

from tests.support.exporters.scripted import ScriptedExporter
from tests.support.waiting import wait_for
from tests.support.world import LEVELS

LIMIT_SECONDS = 90.0


@dataclass(frozen=True)
class Account:
    """Checks of a database, repeated until all samples have arrived."""

    dsn: str

    def query(self, query: str, *values: object) -> list[tuple[object, ...]]:
        """Return the rows of a query."""
        with psycopg.connect(
            self.dsn, options="-csearch_path=bench,bench_internal,bench_dashboard,public", autocommit=True
        ) as connection:
            return connection.execute(query.encode(), values).fetchall()

    def do(self, statement: str) -> None:
        """Execute a statement."""
        with psycopg.connect(
            self.dsn, options="-csearch_path=bench,bench_internal,bench_dashboard,public", autocommit=True
        ) as connection:
            connection.execute(statement.encode())

    def count(self) -> int:
        """Return the number of samples."""
        [(count,)] = self.query("select count(*) from samples")
        assert isinstance(count, int)
        return count

    def counts(self) -> dict[str, int]:
        """Return the number of samples in each relation, at one time, without those of no series."""
        rows = "union all ".join(f"select '{name}', coalesce(sum(n), 0)::int from {name} " for name in LEVELS)
        answer = self.query(
            f"select 'samples', count(*)::int from samples join series using (series_id) union all {rows}"
        )
        return {str(name): int(str(count)) for name, count in answer}

    def values(self, exporter: ScriptedExporter, metric: str) -> Counter[int]:
        """Return the count of each value of a gauge."""
        rows = self.query(
            "select value::int, count(*)::int from samples join series using (series_id) join targets using (target_id) "
            "where instance = %s and metric = %s group by 1", exporter.address, metric,
        )  # fmt: skip
        return Counter({int(str(value)): int(str(count)) for value, count in rows})

    def wait_for_scrapes(self, exporter: ScriptedExporter, numbers: set[int] | None = None) -> None:
        """Wait until these scrapes are readable, by default all stored so far."""
        wanted = exporter.sure if numbers is None else numbers
        wait_for(
            lambda: wanted <= self.values(exporter, "scripted_scrape").keys(), f"{len(wanted)} scrapes", LIMIT_SECONDS
        )

    def agrees(self, *lives: tuple[ScriptedExporter, int], others: int = 0) -> int:
        """Assert that every stored scrape is complete and once in each relation; return their number.

        Parameters
        ----------
        lives
            Exporters, and their number of successive collectors. Counters continue from one to the next, unless a collector
            was killed before it had saved its first scrape.
        others
            Number of other samples.
        """
        scrapes = count = 0
        for exporter, collectors in lives:
            sure, answered = exporter.sure, exporter.answered
            numbers = self.values(exporter, "scripted_scrape")
            found = set(numbers)
            assert (sure - found, found - answered) == (set(), set())
            assert numbers == Counter(found)
            assert self.values(exporter, "scripted_wide") == Counter(dict.fromkeys(found, exporter.width))
            [(increases, total)] = self.query(
                "select count(*)::int, coalesce(sum(value * dt), 0)::float8 from samples join series using (series_id) "
                "join targets using (target_id) where instance = %s and metric = 'scripted_scrapes_total'",
                exporter.address,
            )
            assert len(found) - collectors <= int(str(increases)) <= len(found)
            assert float(str(total)) <= max(found, default=0)
            if found:
                gained = max(found) - min(found)
                assert gained - 1 <= round(float(str(total)), 3) <= gained
            scrapes += len(found)
            count += len(found) * exporter.gauges + int(str(increases))
        self.levels_agree(count + others)
        return scrapes

    def levels_agree(self, count: int) -> None:
        """Wait until each relation has exactly `count` samples, with no duplicates among raw ones."""
        assert self.count() == count
        wait_for(lambda: set(self.counts().values()) == {count}, f"{count} samples at each level", LIMIT_SECONDS)
        assert self.query("select series_id, time from samples group by 1, 2 having count(*) > 1") == []
