"""Rules on the health of trainings by frameworks: real trainings with one fault each, and healthy ones."""

from __future__ import annotations

import pytest

from tests.support.health import HEADER, SETTINGS, TRAININGS, environment, fired
from tests.support.home import Home
from tests.support.interpreters import needs
from tests.support.trainings import MODULES
from tests.support.waiting import HUNG_SECONDS

pytestmark = pytest.mark.slow

FRAMEWORKS = ("lightning", "transformers", "keras", "sklearn", "xgboost", "lightgbm")
# Runs at the same time.
TOGETHER = 4
# Rules by the framework whose callback records what they need: a training of the rule's name has the fault.
COVERAGE = """
rule                        lightning  transformers  keras  sklearn  xgboost  lightgbm
LossNotDecreasing           yes        yes           yes    yes      yes      yes
NonFinite                   yes        yes           yes    yes      yes      yes
StalledTraining             yes        yes           yes    yes      yes      yes
SimilarAcrossRuns           yes        yes           yes    yes      yes      yes
Overfit                     yes        yes           yes    -        yes      yes
Overtraining                yes        yes           yes    -        yes      yes
ExplodingTensor             yes        yes           yes    yes      -        -
VanishingGradient           yes        yes           yes    -        -        -
AllZero                     yes        yes           yes    -        -        -
UnchangedTensor             yes        yes           yes    -        -        -
TensorVariance              yes        yes           yes    -        -        -
PoorWeightInitialization    yes        yes           yes    -        -        -
DataBoundStep               yes        yes           yes    -        -        -
CheckpointStall             yes        yes           yes    -        -        -
WeightUpdateRatio           yes        yes           -      -        -        -
DeadRelu                    yes        yes           -      -        -        -
SaturatedActivation         yes        yes           -      -        -        -
ClassImbalance              yes        yes           -      -        -        -
"""
# Further trainings with the fault of a rule.
MORE = {
    "transformers": {
        "BertDeadRelu": "DeadRelu",
        "BertSaturatedActivation": "SaturatedActivation",
        "BertUnchangedTensor": "UnchangedTensor",
    }
}
HEALTHY = {
    "lightning": ("NoFault", "Accumulated", "Normalized", "Adaptive", "Folds"),
    "transformers": ("NoFault", "Adaptive", "Bert", "Gpt2"),
    "keras": ("NoFault", "Saved", "Convolutional", "Recurrent", "Folds"),
    "sklearn": ("NoFault", "Linear", "Boosted", "Perceptron", "Regressor", "LinearRegressor", "Clusters", "Folds"),
    "xgboost": ("NoFault", "Regression", "Stopped", "Estimator", "Folds", "CrossValidation"),
    "lightgbm": ("NoFault", "Regression", "Stopped", "Estimator", "Folds", "CrossValidation"),
}


def rules_of(framework: str) -> list[str]:
    head, *lines = (line.split() for line in COVERAGE.split("\n") if line)
    return [words[0] for words in lines if words[head.index(framework)] == "yes"]


@pytest.mark.parametrize("framework", [pytest.param(name, marks=needs(*MODULES[name])) for name in FRAMEWORKS])
def test_each_fault_is_found_and_no_fault_is_not(home: Home, framework: str) -> None:
    faulty, healthy = (150 + 2 * FRAMEWORKS.index(framework) + n for n in range(2))
    faults = {rule: rule for rule in rules_of(framework)} | MORE.get(framework, {})
    script = f"{environment(*MODULES[framework])},{TRAININGS}/frameworks/of_{framework}.py"
    rows = [f"{faulty},{number // TOGETHER},{name},{script},{name}" for number, name in enumerate(faults)]
    # A parameter without an effect: the last of the two runs is like the first.
    rows.append(f"{faulty},{len(faults)},unused,{script},SimilarAcrossRuns --unused 1")
    rows += [f"{healthy},{number // TOGETHER},{name},{script},{name}" for number, name in enumerate(HEALTHY[framework])]
    settings = home.folder / "bench.toml"
    settings.write_text(SETTINGS)
    try:
        home.start("schedule", home.sheet(framework, HEADER, rows).path).wait(timeout=4 * HUNG_SECONDS)
        found, alarms = fired(home, faulty), fired(home, healthy)
    finally:
        settings.unlink()
    missed = {name: found[name] for name, rule in faults.items() if rule not in found[name]}
    missed.pop("SimilarAcrossRuns")  # the earlier run of the two
    false = {name: rules for name, rules in alarms.items() if rules}
    assert (missed, found["unused"], false) == ({}, {"SimilarAcrossRuns"}, {})
