"""Callbacks for frameworks: real trainings, and what the files of a run have of them."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hypergauge.scheduler.launch.launch import client_folder
from hypergauge.scheduler.tracking.spans import read_spans
from tests.support.interpreters import needs, python_with
from tests.support.recorded import Recorded, read_rows
from tests.support.trainings import MODULES, SCRIPTS
from tests.support.waiting import HUNG_SECONDS

# Those that import PyTorch take seconds to start.
SLOW = {"keras", "lightning", "pytorch_lightning", "transformers"}
EACH = [
    pytest.param(name, marks=[needs(*MODULES[name]), *([pytest.mark.slow] if name in SLOW else [])]) for name in SCRIPTS
]


Train = Callable[..., Recorded]


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a script of a framework in an empty folder, in a run or outside."""

    def run(name: str, before: str = "", *, in_run: bool = True, **variables: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "work").mkdir()
        (tmp_path / "script.py").write_text(before + SCRIPTS[name])
        client = client_folder(tmp_path / "home")
        files = {"BENCH_SPANS": str(tmp_path / "spans"), "BENCH_TENSORS": str(tmp_path / "tensors")}
        python = python_with(*MODULES[name])
        assert python is not None
        return subprocess.run(
            [python, "-W", "ignore", str(tmp_path / "script.py")],
            cwd=tmp_path / "work",
            env={**os.environ, "PYTHONPATH": str(client), "KERAS_BACKEND": "torch", **(files if in_run else {}), **variables},
            capture_output=True, text=True, check=False, timeout=HUNG_SECONDS,
        )  # fmt: skip

    return run


@pytest.fixture
def train(run: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path) -> Train:
    """Run a script of a framework in a run, with a row for each step, and read its files."""

    def train(name: str) -> Recorded:
        done = run(name, EVERY="1")
        assert done.returncode == 0, done.stderr
        spans = {span.span_id: span for span in read_spans(tmp_path / "spans")}
        assert all(span.ended_at is not None for span in spans.values())
        lines = [json.loads(line) for line in (tmp_path / "spans").read_text().splitlines()]
        rows, problems = read_rows(tmp_path / "tensors")
        assert problems == []
        work = [line for line in lines if line["kind"] == "step"]
        return Recorded(list(spans.values()), work, rows, problems, json.loads(done.stdout.splitlines()[-1]))

    return train


def parts(values: list[float], size: int) -> list[float]:
    """Return the means of parts of a list."""
    return [math.fsum(values[begin : begin + size]) / size for begin in range(0, len(values), size)]


@pytest.mark.slow
@needs(*MODULES["keras"])
def test_keras(train: Train) -> None:
    found = train("keras")
    assert [step.step for step in found.named("step")] == list(range(8))
    assert [step["samples"] for step in found.work] == [32, 32, 32, 4] * 2
    assert all(step["data_wait"] > 0 for step in found.work)
    assert [epoch.step for epoch in found.named("epoch")] == [0, 1]
    assert found.phases() == {"train": 2, "evaluate": 2, "checkpoint": 2}
    assert all(str(found.parent(phase)).startswith("epoch") for phase in found.named("phase"))
    assert {found.parent(step) for step in found.named("step")} == {"train"}
    losses = found.losses("loss")
    for epoch, mean in enumerate(found.printed["loss"]):
        samples = (32, 32, 32, 4)
        own = sum(loss * size for loss, size in zip(losses[4 * epoch : 4 * epoch + 4], samples, strict=True)) / 100
        assert own == pytest.approx(mean, rel=1e-4)
    assert found.losses("val_loss") == pytest.approx(found.printed["val_loss"])
    rows = found.rows["weights", found.printed["name"]]
    assert [row.step for row in rows] == list(range(8))
    assert rows[-1].values["l2"] == pytest.approx(found.printed["l2"], rel=1e-5)
    assert {collection for collection, _ in found.rows} == {"losses", "weights", "biases", "gradients"}
    assert found.rows["gradients", found.printed["name"]][0].values["nonfinite"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needs(*MODULES[name])) for name in ("lightning", "pytorch_lightning")]
)
def test_lightning_with_gradients_of_two_batches(train: Train, name: str) -> None:
    found = train(name)
    assert [step.step for step in found.named("step")] == [0, 1, 2, 3]
    assert [step["samples"] for step in found.work] == [50] * 4
    assert all(step["data_wait"] > 0 for step in found.work)
    assert [epoch.step for epoch in found.named("epoch")] == [0, 1]
    assert found.phases() == {"train": 2, "evaluate": 2, "checkpoint": 2}
    assert found.losses("loss") == pytest.approx(parts(found.printed["loss"], 2), rel=1e-5)
    assert found.losses("val_loss") == pytest.approx(parts(found.printed["val_loss"], 4), rel=1e-5)
    assert {name for collection, name in found.rows if collection == "gradients"} == {"layer.weight", "layer.bias"}
    assert [row.step for row in found.rows["weights", "layer.weight"]] == [0, 1, 2, 3]


@pytest.mark.slow
@needs(*MODULES["transformers"])
def test_transformers_with_gradients_of_two_batches(train: Train) -> None:
    found = train("transformers")
    assert [step.step for step in found.named("step")] == list(range(6))
    assert [(step["samples"], step["tokens"]) for step in found.work] == [(8, 128)] * 6
    assert [epoch.step for epoch in found.named("epoch")] == [0, 1]
    assert found.phases() == {"train": 2, "evaluate": 2, "checkpoint": 2}
    checkpoints = [phase for phase in found.named("phase") if phase.name == "checkpoint"]
    assert [found.parent(checkpoint) for checkpoint in checkpoints] == ["train", "train"]
    assert found.losses("loss") == pytest.approx(found.printed["loss"], rel=1e-3)
    assert found.losses("val_loss") == pytest.approx(found.printed["eval_loss"], rel=1e-3)
    assert ("gradients", "transformer.wte.weight") in found.rows


@needs(*MODULES["xgboost"])
def test_xgboost(train: Train) -> None:
    found = train("xgboost")
    assert [step.step for step in found.named("step")] == list(range(7))
    assert found.phases() == {"train": 2}
    assert found.losses("loss") == pytest.approx(found.printed["loss"])
    assert found.losses("val_loss") == pytest.approx(found.printed["val_loss"])


@needs(*MODULES["lightgbm"])
def test_lightgbm_with_early_stopping(train: Train) -> None:
    found = train("lightgbm")
    rounds = len(found.printed["loss"])
    assert 0 < rounds < 50
    assert [step.step for step in found.named("step")] == list(range(rounds))
    assert {step["samples"] for step in found.work} == {100}
    assert found.losses("loss") == pytest.approx(found.printed["loss"])
    assert found.losses("val_loss") == pytest.approx(found.printed["val_loss"])
    trained, after = found.named("phase")
    assert (trained.name, after.name) == ("train", "after")
    assert trained.ended_at is not None
    assert trained.ended_at <= after.started_at


@needs(*MODULES["sklearn"])
def test_sklearn(train: Train, tmp_path: Path) -> None:
    found = train("sklearn")
    assert [step.step for step in found.named("step")] == list(range(8))
    assert {step["samples"] for step in found.work} == {100}
    assert found.phases() == {"train": 3, "evaluate": 1}
    assert [row.step for row in found.rows["weights", "coef_"]] == [0, 1, 2]
    assert found.rows["weights", "coef_"][-1].values["l2"] == pytest.approx(found.printed["l2"])
    *boosted, network = found.rows["losses", "loss"]
    assert [row.values["mean"] for row in boosted] == pytest.approx(found.printed["boosted"])
    assert network.size == 3
    assert network.values["min"] == pytest.approx(min(found.printed["network"]))
    assert [row.size for row in found.rows["weights", "coefs_.0"]] == [20]
    python = python_with("sklearn")
    assert python is not None
    use = "import pickle, sys; model = pickle.load(open('model.pickle', 'rb')); model.fit([[0], [1]], [0, 1])"
    check = f"{use}; assert not any(name.startswith('hypergauge') for name in sys.modules)"
    subprocess.run([python, "-c", check], cwd=tmp_path / "work", check=True)


@pytest.mark.parametrize("name", EACH)
def test_an_error_in_a_callback_is_noted_and_the_training_ends_well(
    run: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path, name: str
) -> None:
    broken = """
from hypergauge.client.training import Training
def end_step(self, number=None): raise RuntimeError("injected")
Training.end_step = end_step
"""
    done = run(name, broken)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])
    callbacks = {"xgboost": 2, "sklearn": 3}.get(name, 1)
    assert done.stderr.count("is off: RuntimeError: injected") == callbacks
    _, problems = read_rows(tmp_path / "tensors")
    own = "watch" if name == "sklearn" else f"track.{name.removeprefix('pytorch_')}"
    assert problems == [f"{own} is off: RuntimeError: injected"] * callbacks


@pytest.mark.parametrize("name", EACH)
def test_outside_a_run_nothing_is_recorded(
    run: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path, name: str
) -> None:
    done = run(name, in_run=False)
    assert done.returncode == 0, done.stderr
    assert "hypergauge" not in done.stderr
    assert not {"spans", "tensors"} & {path.name for path in tmp_path.iterdir()}


def test_a_callback_of_a_missing_framework_is_an_import_error(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(client_folder(tmp_path))!r}); from hypergauge import track; track.keras()"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'keras'"
