"""What a database holds of a scripted exporter, at every level, against what it must hold."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import psycopg

from tests.e2e.home import wait_for
from tests.e2e.scripted import ScriptedExporter
from tests.world import LEVELS

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

    def figures(self, metric: str) -> Counter[int]:
        """Return how often each figure of a gauge is there."""
        rows = self.ask("select value::int, count(*)::int from samples join series using (series_id) "
                        "where metric = %s group by 1", metric)  # fmt: skip
        return Counter({int(str(value)): int(str(count)) for value, count in rows})

    def wait_for_scrapes(self, numbers: set[int]) -> None:
        """Wait until these scrapes can be read."""
        wait_for(lambda: numbers <= set(self.figures("scripted_scrape")), f"{len(numbers)} scrapes", PATIENCE)

    def agrees(self, exporter: ScriptedExporter, lives: int, others: int = 0) -> int:
        """Assert that every scrape which was kept is there, whole and once, in each relation; return how many.

        Parameters
        ----------
        lives
            How many collectors there were one after the other: a counter's first scrape in each gives no sample.
        others
            Samples that are there besides.
        """
        sure, answered = exporter.sure, exporter.answered
        numbers = self.figures("scripted_scrape")
        found = set(numbers)
        assert (sure - found, found - answered) == (set(), set())
        assert numbers == Counter(found)
        assert self.figures("scripted_wide") == Counter(dict.fromkeys(found, exporter.width))
        [(increases, total)] = self.ask(
            "select count(*)::int, sum(value * dt)::float8 from samples join series using (series_id) "
            "where metric = 'scripted_scrapes_total'"
        )
        assert len(found) - lives <= int(str(increases)) <= len(found)
        assert float(str(total)) <= max(found)
        self.levels_agree(len(found) * exporter.gauges + int(str(increases)) + others)
        return len(found)

    def levels_agree(self, count: int) -> None:
        """Assert that each relation comes to have exactly `count` samples, and raw ones none twice."""
        assert self.count() == count
        wait_for(lambda: set(self.counts().values()) == {count}, f"{count} samples at each level", PATIENCE)
        assert self.ask("select series_id, time from samples group by 1, 2 having count(*) > 1") == []
