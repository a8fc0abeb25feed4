"""Storage of the highlights of ended runs: ``python -m hypergauge.insight.highlights.storage RUN_ID…``.

A separate process, because its libraries take more memory than the rule engine. It prints the id of each stored run.
"""

from __future__ import annotations

import sys

from hypergauge.core.config.settings import Settings
from hypergauge.insight.highlights import store
from hypergauge.sql.server.database import Database


def main(run_ids: list[str]) -> int:
    """Store the highlights of some runs, and return the exit status; the failure of one does not stop the others."""
    status = 0
    with Database(Settings.load()) as database:
        for run_id in run_ids:
            try:
                with database.session() as connection:
                    store(connection, run_id)
            except Exception as error:  # noqa: BLE001 - whatever one run's data do, the others are stored
                sys.stderr.write(f"{run_id}: {type(error).__name__}: {' '.join(str(error).split())}\n")
                status = 1
            else:
                print(run_id, flush=True)  # noqa: T201 - read by the process that waits
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
