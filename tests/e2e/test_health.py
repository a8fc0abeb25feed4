"""Rules on the health of trainings, on real PyTorch trainings with one fault each, and on twenty without."""

from __future__ import annotations

import pytest

from tests.conftest import NewFolder
from tests.support.health import HEADER, SETTINGS, TRAININGS, environment, fired
from tests.support.home import Home, Sheet
from tests.support.interpreters import needs
from tests.support.waiting import HUNG_SECONDS

pytestmark = [pytest.mark.slow, needs("torch")]

# Rules by the name of the training that has the fault; the other trainings of `faults.py` have none.
FAULTS = (
    "VanishingGradient", "ExplodingTensor", "NonFinite", "LossNotDecreasing", "Overfit", "Overtraining", "StalledTraining",
    "AllZero", "DeadRelu", "SaturatedActivation", "PoorWeightInitialization", "TensorVariance", "UnchangedTensor",
    "WeightUpdateRatio", "ClassImbalance", "SimilarAcrossRuns", "DataBoundStep", "CheckpointStall",
)  # fmt: skip
# Rules on simulated GPUs, which are as busy as the run's processes are.
GPU_FAULTS = ("PowerWithoutProgress", "IdleInEvaluation")
HEALTHY = 20
# Faults of short trainings that the rules find as they are, without settings.
SHORT = {
    "LargeRate": {"ExplodingTensor", "LossNotDecreasing"},
    "AllAlike": {"PoorWeightInitialization"},
    "LeftOut": {"UnchangedTensor"},
    "RandomLabels": set(),  # it learns some of them by heart
    "TinyRate": {"LossNotDecreasing"},
    "DataBoundStep": {"DataBoundStep"},
    "Hanging": {"StalledTraining"},
    "NonFinite": {"NonFinite"},
}
# They have no good checkpoint.
NEVER_LEARNED = ("LargeRate", "AllAlike", "RandomLabels", "TinyRate")


def schedule(home: Home, sheet: Sheet) -> str:
    """Run dozens of trainings, which takes minutes on a busy machine; return the output."""
    return home.start("schedule", sheet.path).wait(timeout=4 * HUNG_SECONDS)


def test_each_fault_is_found_and_no_fault_is_not(home: Home) -> None:
    names = ["NoFault", *FAULTS]
    rows = [
        f"142,{number // 2},{name},{environment('torch')},{TRAININGS}/faults.py,{name}"
        for number, name in enumerate(names)
    ]
    # A parameter without an effect: the last of the two runs is like the first.
    rows.append(f"142,{len(names)},unused,{environment('torch')},{TRAININGS}/faults.py,SimilarAcrossRuns --unused 1")
    sheet = home.sheet("faults", HEADER, rows)
    settings = home.folder / "bench.toml"
    settings.write_text(SETTINGS)
    try:
        schedule(home, sheet)
        found = fired(home, 142)
    finally:
        settings.unlink()
    missed = {name: found[name] for name in FAULTS if name not in found[name] and name != "SimilarAcrossRuns"}
    assert missed == {}
    assert found["unused"] == {"SimilarAcrossRuns"}
    assert found["NoFault"] == set()


def test_faults_of_short_trainings_are_found_without_settings(home: Home) -> None:
    rows = [
        f"144,{number // 3},{name},{environment('torch')},{TRAININGS}/faults.py,{name}"
        for number, name in enumerate(SHORT)
    ]
    printed = " ".join(schedule(home, home.sheet("short", HEADER, rows)).split())
    every = fired(home, 144)
    assert {name: rules - every[name] for name, rules in SHORT.items() if rules - every[name]} == {}
    assert not {name for name in NEVER_LEARNED if every[name] & {"Overtraining", "Overfit"}}
    # The last lines tell which of the finished runs are lost.
    assert "LargeRate finished, but its weights exploded at step " in printed
    assert "NonFinite finished, but its loss became NaN or infinite at step " in printed
    assert "Hanging finished, but no step ended for " in printed
    assert "TinyRate finished, but" not in printed


@pytest.mark.quiet  # beside other work, a process keeps its simulated GPU less busy
def test_faults_across_hardware_and_training_are_found(new_folder: NewFolder) -> None:
    folder = new_folder()
    with Home(folder / "home", folder / "work", {"BENCH_SIMULATE": "1xH100"}).stack() as home:
        (home.folder / "bench.toml").write_text(SETTINGS)
        rows = [
            f"1,{number},{name},{environment('torch')},{TRAININGS}/faults.py,{name},0"
            for number, name in enumerate(("NoFault", *GPU_FAULTS))
        ]
        schedule(home, home.sheet("gpus", f"{HEADER},Devices", rows))
        found = fired(home, 1)
    assert {name for name in GPU_FAULTS if name in found[name]} == set(GPU_FAULTS)
    assert found["NoFault"] == set()


def test_healthy_trainings_cause_no_alarm(home: Home) -> None:
    rows = [
        f"143,{number // 2},{number},{environment('torch')},{TRAININGS}/healthy.py,{number}"
        for number in range(HEALTHY)
    ]
    schedule(home, home.sheet("healthy", HEADER, rows))
    assert fired(home, 143) == {str(number): set() for number in range(HEALTHY)}
