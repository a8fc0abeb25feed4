"""Rules on the health of trainings by frameworks: real trainings with one fault each, and healthy ones."""

from __future__ import annotations

import pytest

from tests.support.framework_rules import FRAMEWORKS, rules_of
from tests.support.health import HEADER, SETTINGS, TRAININGS, environment, fired
from tests.support.home import Home
from tests.support.interpreters import needs
from tests.support.trainings import MODULES
from tests.support.waiting import HUNG_SECONDS

pytestmark = pytest.mark.slow

# Runs at the same time.
TOGETHER = 4
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
