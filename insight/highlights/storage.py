"""Storage of the highlights of ended runs: ``python -m hypergauge.insight.highlights.storage RUN_ID…``.

A separate process, because its libraries take more memory than the rule engine.
"""

from __future__ import annotations

import sys

from hypergauge.core.config.settings import Settings
from hypergauge.insight.highlights import store
from hypergauge.sql.server.database import Database


def main(run_ids: list[str]) -> None:
    """Store the highlights of some runs."""
    with Database(Settings.load()) as database, database.session() as connection:
        for run_id in run_ids:
            store(connection, run_id)


if __name__ == "__main__":
    main(sys.argv[1:])
