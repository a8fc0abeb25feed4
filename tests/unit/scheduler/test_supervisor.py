"""Start of a supervisor, of which each run has one."""

from __future__ import annotations

import subprocess
import sys


def test_it_starts_without_what_takes_long_to_load() -> None:
    """Each further run of a workload costs the start of a supervisor."""
    slow = {
        "numpy", "yaml", "sqlite3", "http.client", "hypergauge.gpu", "hypergauge.scheduler.environments",
        "hypergauge.scheduler.profilers.registry",
    }  # fmt: skip
    loaded = (
        "import sys; import hypergauge.scheduler.supervisor.supervisor; "
        f"found = {slow!r} & set(sys.modules); print(*sorted(found)); sys.exit(bool(found))"
    )
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, [])
