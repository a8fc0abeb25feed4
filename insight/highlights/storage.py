"""Storage of the highlights of ended runs: ``python -m hypergauge.insight.highlights.storage RUN_ID…``.

In a process of its own, for its libraries take more memory than all that judges runs while they go on.
"""

from __future__ import annotations

import sys

from hypergauge.core.config.settings import Settings
from hypergauge.insight.highlights import remember
from hypergauge.sql.server.database import Database


def main(run_ids: list[str]) -> None:
    """Keep the highlights of some runs."""
    with Database(Settings.load()) as database, database.session() as connection:
        for run_id in run_ids:
            remember(connection, run_id)


if __name__ == "__main__":
    main(sys.argv[1:])
