"""Content of a database for a scripted exporter, checked at every level."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import psycopg

from tests.support.scripted import ScriptedExporter
from tests.support.waiting import wait_for
from tests.support.world import LEVELS

PATIENCE = 90.0


@dataclass(frozen=True)
class Account:
    """Asks a database, over and over as long as it takes to have all."""

    dsn: str

    def ask(self, query: str, *values: object) -> list[tuple[object, ...]]:
        """Return the answer's rows."""
        with psycopg.connect(self.dsn, options="-csearch_path=bench,public", autocommit=True) as connection:
            return connection.execute(query.encode(), values).fetchall()

    def do(self, statement: str) -> None:
        """Execute a statement."""
        with psycopg.connect(self.dsn, options="-csearch_path=bench,public", autocommit=True) as connection:
            connection.execute(statement.encode())

    def count(self) -> int:
        """Return how many samples there are."""
        [(count,)] = self.ask("select count(*) from samples")
        assert isinstance(count, int)
        return count

    def counts(self) -> dict[str, int]:
        """Return how many samples each relation says there are, at one moment; those of no series are no samples."""
        rows = "union all ".join(f"select '{name}', coalesce(sum(n), 0)::int from {name} " for name in LEVELS)
        answer = self.ask(
            f"select 'samples', count(*)::int from samples join series using (series_id) union all {rows}"
        )
        return {str(name): int(str(count)) for name, count in answer}

    def figures(self, exporter: ScriptedExporter, metric: str) -> Counter[int]:
        """Return how often each figure of a gauge is there."""
        rows = self.ask(
            "select value::int, count(*)::int from samples join series using (series_id) join targets using (target_id) "
            "where instance = %s and metric = %s group by 1", exporter.address, metric,
        )  # fmt: skip
        return Counter({int(str(value)): int(str(count)) for value, count in rows})

    def wait_for_scrapes(self, exporter: ScriptedExporter, numbers: set[int] | None = None) -> None:
        """Wait until these scrapes can be read, by default all that were kept by now."""
        wanted = exporter.sure if numbers is None else numbers
        wait_for(lambda: wanted <= self.figures(exporter, "scripted_scrape").keys(), f"{len(wanted)} scrapes", PATIENCE)

    def agrees(self, *lives: tuple[ScriptedExporter, int], others: int = 0) -> int:
        """Assert that every scrape which was kept is there, whole and once, in each relation; return how many.

        Parameters
        ----------
        lives
            Exporters, and how many collectors each had one after the other: a counter's first scrape in each life gives
            no sample.
        others
            Samples that are there besides.
        """
        scrapes = count = 0
        for exporter, collectors in lives:
            sure, answered = exporter.sure, exporter.answered
            numbers = self.figures(exporter, "scripted_scrape")
            found = set(numbers)
            assert (sure - found, found - answered) == (set(), set())
            assert numbers == Counter(found)
            assert self.figures(exporter, "scripted_wide") == Counter(dict.fromkeys(found, exporter.width))
            [(increases, total)] = self.ask(
                "select count(*)::int, coalesce(sum(value * dt), 0)::float8 from samples join series using (series_id) "
                "join targets using (target_id) where instance = %s and metric = 'scripted_scrapes_total'",
                exporter.address,
            )
            assert len(found) - collectors <= int(str(increases)) <= len(found)
            assert float(str(total)) <= max(found, default=0)
            scrapes += len(found)
            count += len(found) * exporter.gauges + int(str(increases))
        self.levels_agree(count + others)
        return scrapes

    def levels_agree(self, count: int) -> None:
        """Assert that each relation comes to have exactly `count` samples, and raw ones none twice."""
        assert self.count() == count
        wait_for(lambda: set(self.counts().values()) == {count}, f"{count} samples at each level", PATIENCE)
        assert self.ask("select series_id, time from samples group by 1, 2 having count(*) > 1") == []
