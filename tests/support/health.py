"""Rules on the health of trainings that fired on the runs of an experiment."""

from __future__ import annotations

from pathlib import Path

from hypergauge.insight.rules.rule import load
from tests.support.home import SCRIPTS, Home
from tests.support.interpreters import python_with
from tests.support.waiting import wait_for

__all__ = ["HEADER", "SETTINGS", "TRAININGS", "environment", "fired"]

TRAININGS = SCRIPTS.parent / "trainings"
HEADER = "Experiment,Workload,Name,Environment,File,Params"
# Shorter times, so that faults show within seconds.
SETTINGS = """
[rules.StalledTraining]
threshold = "15 s"
[rules.DataBoundStep]
minimum_duration = "4 s"
window = "2 s"
[rules.CheckpointStall]
minimum_duration = "5 s"
[rules.PowerWithoutProgress]
duration = "10 s"
point = "1 s"
power_share = 0.3
[rules.IdleInEvaluation]
minimum_duration = "4 s"
train_threshold = 0.4
"""


def environment(*modules: str) -> str:
    """Return the environment that has these modules, as a sheet names it."""
    return f"venv:{Path(python_with(*modules) or '').parents[1]}"


def fired(home: Home, experiment: int) -> dict[str, set[str]]:
    """Return the health rules that fired, by the name of the run, after the last evaluation of all runs."""
    health = {rule.name for rule in load().values() if rule.path.parent.name == "health"}

    def is_evaluated() -> bool:
        return all(
            run["evaluated"]
            for run in home.query("select r.evaluated from runs r join workloads using (workload_id) where experiment_id = %s", experiment)
        )  # fmt: skip

    wait_for(is_evaluated, "the last evaluation of the rules")
    rows = home.query(
        "select r.name, f.rule from runs r join workloads using (workload_id) left join rule_firings f using (run_id)"
        " where experiment_id = %s",
        experiment,
    )
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(row["name"], set()).update({row["rule"]} & health)
    return found
