"""Dashboard *Mixed*: four charts, each with its own metric and runs."""

from __future__ import annotations

from collections.abc import Sequence

from hypergauge.dashboards.grafana import choices, curves, parts, results
from hypergauge.dashboards.grafana.model import panels
from hypergauge.dashboards.grafana.model.layout import Row, aligned_dashboard, board_link, fit_link
from hypergauge.dashboards.grafana.queries import Json, texts

__all__ = ["board"]

_UID = "bench-mixed"
# The initial metric of each chart: the first one that the runs have, so that no two charts show the same.
_SLOTS = {
    "1": ("gpu_sm_active", "gpu_utilization", "disk_read"),
    "2": ("gpu_power", "disk_write"),
    "3": ("cpu_usage",),
    "4": ("memory_used",),
}
_RUNS = "(" + " || ".join(texts(f"run_{slot}") for slot in _SLOTS) + ")"
_METRICS = "(" + " || ".join(texts(f"metric_{slot}") for slot in _SLOTS) + ")"
_KEY = "${result:sqlstring}"


def board() -> Json:
    """Return the dashboard."""
    return aligned_dashboard(
        _UID,
        "Mixed: any runs, four charts",
        [
            results.verdict(
                f"run_verdict({_RUNS}, {_KEY}, ${{baseline:sqlstring}})",
                parts.run_notices(_RUNS, _METRICS),
                best="Best ${result}",
            ),
            Row(
                "Notices and provenance",
                [
                    parts.notices(
                        {slot: parts.run_notices(texts(f"run_{slot}"), texts(f"metric_{slot}")) for slot in _SLOTS},
                        width=24,
                        height=8,
                    ),
                    parts.run_table(_RUNS, chosen={slot: texts(f"run_{slot}") for slot in _SLOTS}, width=24, height=9),
                ],
                collapsed=True,
            ),
            results.run_results(
                _RUNS, baseline="${baseline:sqlstring}", key=_KEY, name="Last ${result}", width=24, height=6
            ),
            *(_curves(slot) for slot in _SLOTS),
        ],
        description="Four charts, each with its own metric and runs. All runs start at 00:00.",
        variables=[
            choices.experiment(),
            choices.workload(),
            *(variable for slot, metrics in _SLOTS.items() for variable in _choices(slot, metrics)),
            choices.baseline_run(_RUNS),
            choices.align() | {"hide": 2},
            choices.result(_RUNS),
            choices.ranking(),
            choices.fit(_RUNS),
            choices.cut(_RUNS),
            choices.mlflow(),
        ],
        annotations=[parts.failures(_RUNS)],
        links=[
            fit_link(_UID),
            board_link("Intra", "bench-intra", keep_time=True),
            board_link("Inter", "bench-inter", keep_time=True),
        ],
    )


def _choices(slot: str, metrics: Sequence[str]) -> tuple[Json, Json, Json]:
    name = f"run_{slot}"
    return (
        choices.run(name, slot),
        choices.metric(
            metrics, name=f"metric_{slot}", label=f"Metric {slot}", runs=texts(name), several=False, labelled=False
        ),
        choices.drawn(curves.MAX_SERIES, texts(name), name=f"drawn_{slot}"),
    )


def _curves(slot: str) -> Json:
    metric = texts(f"metric_{slot}")
    return panels.timeseries(
        f"{slot}: $metric_{slot}$drawn_{slot}$cut",
        **parts.drawn(*curves.run_curves(texts(f"run_{slot}"), metric), metric=metric),
        custom={"lineWidth": 2},
        overrides=curves.by_run(),
        description=curves.SHARED,
        empty=curves.CHOOSE,
        width=12,
        height=10,
    )
