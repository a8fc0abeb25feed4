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
from tests.support.trainings import DATA, MODULES, SCRIPTS
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


SAVED = """
import copy, hashlib, io, pickle, warnings
import joblib
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.ensemble import GradientBoostingClassifier
warnings.simplefilter("ignore")

class Own(SGDClassifier):
    def fit(self, X, y):
        return super().fit(X, y)

def digest(content):
    return hashlib.sha256(content).hexdigest()[:12]

def dumped(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    return file.getvalue()

for model in (
    SGDClassifier(random_state=0), MLPClassifier((5,), max_iter=3, random_state=0),
    GradientBoostingClassifier(n_estimators=3, random_state=0), Own(random_state=0),
    GridSearchCV(SGDClassifier(random_state=0), {"alpha": [0.1, 0.01]}, refit=True),
    make_pipeline(StandardScaler(), LogisticRegression()),
):
    methods = {name: vars(type(model)).get(name) for name in ("fit", "partial_fit", "score", "predict")}
    watch = track.watch(model, every=every)
    state = [*vars(model)]
    fitted = model.fit(X, y)
    assert fitted is model
    timed = isinstance(model, GridSearchCV)  # it keeps times of its fits
    print(json.dumps([type(model).__name__, state, [*vars(model)], repr(model), None if timed else digest(pickle.dumps(model)),
                      None if timed else digest(dumped(model))]))
    model.score(X, y)
    for name, twin in {
        "pickle": pickle.loads(pickle.dumps(model)), "joblib": joblib.load(io.BytesIO(dumped(model))),
        "copy": copy.copy(model), "deepcopy": copy.deepcopy(model), "clone": clone(model),
        "method": pickle.loads(pickle.dumps(model.fit)).__self__, "copied method": copy.deepcopy(model.score).__self__,
        "by value": joblib.parallel.Parallel(n_jobs=2)([joblib.delayed(copy.copy)(model)] * 2)[0],
    }.items():
        assert type(twin).__name__ == type(model).__name__ and twin is not model
        own = str(vars(model))
        assert twin.fit(X, 1 - y) is twin, name
        assert str(vars(model)) == own, name
        print(json.dumps([name, [*vars(twin)], twin.score(X, 1 - y), hasattr(twin, "partial_fit")]))
    watch.close()
    if not isinstance(model, Own):  # whose class a worker process returns
        assert methods == {name: vars(type(model)).get(name) for name in methods}
"""


@needs(*MODULES["sklearn"])
def test_a_watched_estimator_is_saved_and_copied_as_any_other(tmp_path: Path) -> None:
    python = python_with(*MODULES["sklearn"])
    assert python is not None
    (tmp_path / "script.py").write_text(DATA + SAVED)
    client = client_folder(tmp_path / "home")
    files = {"BENCH_SPANS": str(tmp_path / "spans"), "BENCH_TENSORS": str(tmp_path / "tensors")}
    printed = []
    for variables in ({}, files):
        done = subprocess.run(
            [python, "-W", "ignore", str(tmp_path / "script.py")], cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(client), **variables, "EVERY": "1"},
            capture_output=True, text=True, check=False, timeout=HUNG_SECONDS,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        printed.append(done.stdout)
    assert printed[0] == printed[1]
    spans = {span.span_id: span for span in read_spans(tmp_path / "spans")}
    phases = [span.name for span in spans.values() if span.kind == "phase"]
    assert phases.count("train") == phases.count("evaluate") == 6  # not those of copies


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
