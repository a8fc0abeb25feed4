"""Names of metrics of tensors: what they mean, and what is said of the others."""

from __future__ import annotations

import pytest

from hypergauge.core.errors import BadRequest
from hypergauge.insight.charts.tensors import NAMED, TensorName, available, check_curves, parse, resolve
from hypergauge.sql.queries.charts.tensors import Selection, TensorCollection

WEIGHTS = ["fc1.weight", "fc2.weight", "encoder.10.weight", "block/dense"]
HAVING = [
    TensorCollection("r1", "gradients", WEIGHTS, ["l2", "norm", "zeros"]),
    TensorCollection("r2", "gradients", ["fc1.weight"], ["l2", "norm"]),
    TensorCollection("r1", "weights", WEIGHTS, ["std", "update_ratio"]),
    TensorCollection("r1", "losses", ["loss"], ["mean", "nonfinite"]),
]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("gradients/fc1.weight/l2", TensorName("gradients", "fc1.weight", "l2")),
        ("gradients/*/l2", TensorName("gradients", "*", "l2")),
        ("weights/encoder.*/std", TensorName("weights", "encoder.*", "std")),
        ("weights/block/dense/std", TensorName("weights", "block/dense", "std")),
        ("my own/x/p95", TensorName("my own", "x", "p95")),
        ("weights/norm", TensorName("weights", None, "norm")),
        ("nonfinite", NAMED["nonfinite"]),
        ("update_ratio", NAMED["update_ratio"]),
        ("cpu_usage", None),
        ("los", None),
    ],
)
def test_a_name_has_a_meaning(text: str, name: TensorName | None) -> None:
    assert parse(text) == name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gradients/*/l3", "'gradients/*/l3': there is no reduction 'l3' (did you mean 'l2'?)"),
        ("gradients/fc1/satured", "there is no reduction 'satured' (did you mean 'saturated'?)"),
        ("gradients/*", "is not COLLECTION/NAME/REDUCTION, such as gradients/fc1.weight/l2"),
        ("gradients//l2", "is not COLLECTION/NAME/REDUCTION"),
        ("/fc1/l2", "is not COLLECTION/NAME/REDUCTION"),
        ("gradients/", "is not COLLECTION/NAME/REDUCTION"),
        ("gradients/fc1.weight/norm", "norm is that of a whole collection, gradients/norm; l2 is the norm of a tensor"),
    ],
)
def test_other_names_are_refused(text: str, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        parse(text)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("text", "names", "runs"),
    [
        ("gradients/*/l2", tuple(WEIGHTS), {"r1", "r2"}),
        ("gradients/fc?.weight/zeros", ("fc1.weight", "fc2.weight"), {"r1"}),
        ("gradients/fc[2-9]*/l2", ("fc2.weight",), {"r1"}),
        ("gradients/block/*/l2", ("block/dense",), {"r1"}),
        ("gradient_norm", ("",), {"r1", "r2"}),
        ("update_ratio", ("",), {"r1"}),
        ("loss", ("loss",), {"r1"}),
        ("nonfinite", ("",), {"r1"}),
    ],
)
def test_a_metric_has_the_tensors_and_the_runs_that_have_it(text: str, names: tuple[str, ...], runs: set[str]) -> None:
    found = resolve(text, HAVING)
    assert found is not None
    assert (found.names, set(found.runs)) == (names, runs)


@pytest.mark.parametrize("text", ["cpu_usage", "train/loss/mean", "dead_relus", "gradient/*/l2", "loss2"])
def test_a_name_of_something_else_is_left_to_others(text: str) -> None:
    assert resolve(text, HAVING) is None


def test_runs_without_tensors_have_none_of_their_metrics() -> None:
    assert [resolve(text, []) for text in ("gradient_norm", "gradients/*/l2")] == [None, None]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gradients/fc3.weight/l2", "no tensor of gradients is named 'fc3.weight' (did you mean 'fc2.weight'?)"),
        (
            "gradients/zz/l2",
            "no tensor of gradients is named 'zz'; there are fc1.weight, fc2.weight, encoder.10.weight and 1 more",
        ),
        ("gradients/*/std", "these runs have no std of gradients; they have l2, norm, zeros"),
        ("weight_norm", "these runs have no norm of weights; they have std, update_ratio"),
    ],
)
def test_what_runs_do_not_have(text: str, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        resolve(text, HAVING)
    assert message in str(refused.value)


def test_too_many_curves_are_counted() -> None:
    many = resolve("gradients/*/l2", [TensorCollection("r", "gradients", [f"w{n}" for n in range(41)], ["l2"])])
    some = resolve("gradients/*/l2", HAVING)
    assert many is not None
    assert some is not None
    check_curves("gradients/*/l2", some, 10)
    with pytest.raises(BadRequest, match=r"is 41 tensors, and a plot has at most 40 curves.* such as gradients/w0/l2"):
        check_curves("gradients/*/l2", many, 1)
    with pytest.raises(BadRequest, match=r"is 4 tensors of 11 runs or workloads, 44 curves"):
        check_curves("gradients/*/l2", some, 11)


def test_the_list_has_the_named_metrics_and_one_for_each_collection() -> None:
    assert [(one.quantity, one.unit, one.series) for one in available(HAVING, ["loss"])] == [
        ("gradient_norm", "", 2), ("update_ratio", "", 1), ("nonfinite", "ratio", 1), ("gradients/*/l2", "", 4),
        ("weights/*/std", "", 4), ("losses/*/mean", "", 1),
    ]  # fmt: skip
    named = [one.quantity for one in available(HAVING)]
    assert ("loss" in named, "val_loss" in named) == (True, False)
    listed = {one.quantity: one.help for one in available(HAVING)}
    assert listed["gradients/*/l2"] == "l2 norm of fc1.weight, fc2.weight, encoder.10.weight and 1 more; also zeros"


@pytest.mark.parametrize(
    ("text", "selection"),
    [
        ("gradient_norm", Selection("gradients", "norm")),
        ("gradients/fc?.weight/l2", Selection("gradients", "l2", ("fc1.weight", "fc2.weight"))),
        ("nonfinite", Selection(None, "nonfinite", None, "max")),
    ],
)
def test_a_metric_selects_tensors(text: str, selection: Selection) -> None:
    found = resolve(text, HAVING)
    assert found is not None
    assert found.selection == selection
