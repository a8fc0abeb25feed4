"""Rules on the health of trainings by framework."""

from __future__ import annotations

__all__ = ["FRAMEWORKS", "rules_of"]

FRAMEWORKS = ("lightning", "transformers", "keras", "sklearn", "xgboost", "lightgbm")
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


def rules_of(framework: str) -> list[str]:
    """Return the rules that can fire on a training by a framework."""
    head, *lines = (line.split() for line in COVERAGE.split("\n") if line)
    return [words[0] for words in lines if words[head.index(framework)] == "yes"]
