"""Database schemas, and the search path for them.

``bench`` is the contract for users, dashboards and rules. ``bench_internal`` and ``bench_dashboard`` (functions and views
of Grafana's panels) may change with any release. ``bench_own`` has views of them for users who see only their own runs.
"""

from __future__ import annotations

__all__ = ["DASHBOARD", "INTERNAL", "OURS", "OWN", "PUBLIC", "SEARCH_PATH"]

PUBLIC = "bench"
INTERNAL = "bench_internal"
DASHBOARD = "bench_dashboard"
OWN = "bench_own"

OURS = (PUBLIC, INTERNAL, DASHBOARD)
SEARCH_PATH = ", ".join((*OURS, "public"))
