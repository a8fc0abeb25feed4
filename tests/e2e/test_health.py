"""Rules on the health of trainings, on real PyTorch trainings with one fault each, and on twenty without."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypergauge.insight.rules.rule import load
from tests.conftest import NewFolder
from tests.support.home import SCRIPTS, Home
from tests.support.interpreters import needs, python_with
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow, needs("torch")]

TRAININGS = SCRIPTS.parent / "trainings"
HEADER = "Experiment,Workload,Name,Environment,File,Params"
# Rules by the name of the training that has the fault; the other trainings of `faults.py` have none.
FAULTS = (
    "VanishingGradient", "ExplodingTensor", "NonFinite", "LossNotDecreasing", "Overfit", "Overtraining", "StalledTraining",
    "AllZero", "DeadRelu", "SaturatedActivation", "PoorWeightInitialization", "TensorVariance", "UnchangedTensor",
    "WeightUpdateRatio", "ClassImbalance", "SimilarAcrossRuns", "DataBoundStep", "CheckpointStall",
)  # fmt: skip
# Rules on simulated GPUs, which are as busy as the run's processes are.
GPU_FAULTS = ("PowerWithoutProgress", "IdleInEvaluation")
HEALTHY = 20
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


def environment() -> str:
    python = Path(python_with("torch") or "")
    return f"venv:{python.parents[1]}"


def test_each_fault_is_found_and_no_fault_is_not(home: Home) -> None:
    names = ["NoFault", *FAULTS]
    rows = [
        f"142,{number // 2},{name},{environment()},{TRAININGS}/faults.py,{name}" for number, name in enumerate(names)
    ]
    # A parameter without an effect: the last of the two runs is like the first.
    rows.append(f"142,{len(names)},unused,{environment()},{TRAININGS}/faults.py,SimilarAcrossRuns --unused 1")
    sheet = home.sheet("faults", HEADER, rows)
    settings = home.folder / "bench.toml"
    settings.write_text(SETTINGS)
    try:
        home.bench("schedule", sheet.path)
        found = fired(home, 142)
    finally:
        settings.unlink()
    missed = {name: found[name] for name in FAULTS if name not in found[name] and name != "SimilarAcrossRuns"}
    assert missed == {}
    assert found["unused"] == {"SimilarAcrossRuns"}
    assert found["NoFault"] == set()


@pytest.mark.quiet  # beside other work, a process keeps its simulated GPU less busy
def test_faults_across_hardware_and_training_are_found(new_folder: NewFolder) -> None:
    folder = new_folder()
    with Home(folder / "home", folder / "work", {"BENCH_SIMULATE": "1xH100"}).stack() as home:
        (home.folder / "bench.toml").write_text(SETTINGS)
        rows = [
            f"1,{number},{name},{environment()},{TRAININGS}/faults.py,{name},0"
            for number, name in enumerate(("NoFault", *GPU_FAULTS))
        ]
        home.bench("schedule", home.sheet("gpus", f"{HEADER},Devices", rows).path)
        found = fired(home, 1)
    assert {name for name in GPU_FAULTS if name in found[name]} == set(GPU_FAULTS)
    assert found["NoFault"] == set()


def test_healthy_trainings_cause_no_alarm(home: Home) -> None:
    rows = [f"143,{number // 2},{number},{environment()},{TRAININGS}/healthy.py,{number}" for number in range(HEALTHY)]
    home.bench("schedule", home.sheet("healthy", HEADER, rows).path)
    assert fired(home, 143) == {str(number): set() for number in range(HEALTHY)}
