"""The dashboard bench-inter."""

from __future__ import annotations

from dashboards.grafana import choices, panels
from dashboards.grafana.layout import dashboard
from dashboards.grafana.queries import Json

__all__ = ["board"]


def board() -> Json:
    """Return the dashboard."""
    return dashboard(
        "bench-inter",
        "inter",
        [panels.text("In the making.", width=24, height=3)],
        variables=[choices.experiment(), choices.workload(), choices.run()],
    )
