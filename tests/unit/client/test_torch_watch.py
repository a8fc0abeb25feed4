"""Watches of real PyTorch trainings: their reductions against NumPy, their spans and their losses."""

from __future__ import annotations

import json

import numpy as np
import numpy.typing as npt
import pytest

from hypergauge.sql.ingest.software import SpanRecord
from tests.support.interpreters import needs
from tests.support.watched import Train

pytestmark = [needs("torch"), pytest.mark.slow]

ACTIVATION_BOUNDS = {"tanh": (-0.98, 0.98), "sigmoid": (0.01, 0.99)}


def test_every_reduction_is_that_of_numpy(train: Train) -> None:
    """The watch saves each tensor whole beside its reductions."""
    names = ["weights", "biases", "gradients", "relu", "sigmoid", "tanh", "optimizer", "inputs", "outputs"]
    done = train(
        "extra = torch.cat([torch.randn(100_000) * 1e-3 + 5, torch.zeros(70_000)])\n"
        "model.register_parameter('extra', nn.Parameter(extra))\n"
        "optimizer.add_param_group({'params': [model.extra]})\n"
        "for name in ('small', 'large', 'nan', 'infinite', 'precise'):\n"
        "    model.register_parameter(name, nn.Parameter(torch.randn(70_000)))\n"
        "with torch.no_grad():\n"
        "    model.small *= 1e-25; model.large *= 1e30; model.nan[66_000] = torch.nan; model.infinite[3] = -torch.inf\n"
        "model.precise.data = model.precise.data.half()\n"
        f"track.watch(model, every=3, collections={names}, save=['*'], quantiles=True, patterns={{'mine': '2*'}})\n"
        "epochs(1)\n"
    )
    assert (done.problems, done.errors) == ([], "")
    tensors = done.tensors()
    assert {collection for _, collection, _ in tensors} == {*names, "mine"}
    assert {step for step, _, _ in tensors} == {0, 3}
    checked = 0
    for (step, collection, name), values in tensors.items():
        whole = np.load(done.folder / "tensors" / f"{step}-{collection}-{name}.npy").astype(np.float64).ravel()
        assert values["size"] == whole.size
        expected = reductions(whole, ACTIVATION_BOUNDS.get(collection))
        for reduction, value in expected.items():
            # Quantiles are those of a part of a large tensor.
            tolerance = 0.05 if reduction.startswith("p") and whole.size > 65_536 else 2e-5
            scale = max(abs(expected["max"] - expected["min"]), 1e-30) if reduction.startswith("p") else abs(value)
            assert values[reduction] == pytest.approx(value, abs=tolerance * scale, nan_ok=True), (name, reduction)
            checked += 1
    assert checked > 500
    shares = {name: tensors[0, "weights", name]["nonfinite"] for name in ("nan", "infinite")}
    assert shares == {name: pytest.approx(1 / 70_000, rel=1e-3) for name in ("nan", "infinite")}


def reductions(whole: npt.NDArray[np.float64], bounds: tuple[float, float] | None) -> dict[str, float]:
    with np.errstate(invalid="ignore"):
        found = {
            "min": whole.min(), "max": whole.max(), "mean": whole.mean(), "std": whole.std(),
            "l1": np.abs(whole).sum(), "l2": np.sqrt((whole * whole).sum()), "zeros": (whole == 0).mean(),
        }  # fmt: skip
        if np.isfinite(whole).all():
            quantiles = (0.05, 0.25, 0.5, 0.75, 0.95)
            found |= {f"p{100 * q:02.0f}": np.quantile(whole, q) for q in quantiles}
    if bounds:
        found["saturated"] = ((whole <= bounds[0]) | (whole >= bounds[1])).mean()
    return {name: float(value) for name, value in found.items()}


def test_small_tensors_of_the_same_size_keep_their_own_reductions(train: Train) -> None:
    done = train(
        "kinds = {'usual': 1.0, 'small': 1e-25, 'large': 1e30, 'shifted': 1e-3, 'nan': 1.0, 'infinite': 1.0, 'zero': 0.0}\n"
        "tensors = {name: torch.randn(500) * factor for name, factor in kinds.items()}\n"
        "tensors['shifted'] += 5; tensors['nan'][7] = torch.nan; tensors['infinite'][3] = -torch.inf; tensors['zero'][0] = 1\n"
        "tensors.update({f'half{number}': torch.randn(500).half() for number in range(5)})\n"
        "for name, tensor in tensors.items():\n    model.register_parameter(name, nn.Parameter(tensor))\n"
        "track.watch(model, save=['weights/*'])\ncriterion(model(x), y).backward(); optimizer.step()\n"
    )
    found = {name: values for (_, collection, name), values in done.tensors().items() if collection == "weights"}
    assert {"usual", "zero", "half4", "0.weight"} < set(found)
    for name, values in found.items():
        whole = np.load(done.folder / "tensors" / f"0-weights-{name}.npy").astype(np.float64).ravel()
        for reduction, value in reductions(whole, None).items():
            if reduction in values:  # there are no quantiles
                assert values[reduction] == pytest.approx(value, rel=2e-5, abs=1e-35, nan_ok=True), (name, reduction)
    assert found["nan"]["nonfinite"] == found["infinite"]["nonfinite"] == pytest.approx(1 / 500)


def test_an_update_ratio_is_that_of_the_step(train: Train) -> None:
    done = train(
        "track.watch(model, every=2)\n"
        "before = model[0].weight.detach().clone()\n"
        "criterion(model(x), y).backward(); optimizer.step()\n"
        "print(float((model[0].weight - before).norm() / before.norm()))\n"
    )
    assert done.tensors()[0, "weights", "0.weight"]["update_ratio"] == pytest.approx(float(done.output), rel=1e-5)


def test_steps_epochs_and_phases_come_by_hooks(train: Train) -> None:
    done = train("track.watch(model, every=4)\nepochs(2, evaluate=True)\ntorch.save(model.state_dict(), 'model.pt')\n")
    by_kind: dict[str, list[SpanRecord]] = {}
    for span in done.spans:
        by_kind.setdefault(span.kind, []).append(span)
    assert [span.step for span in by_kind["step"]] == list(range(12))
    assert [span.step for span in by_kind["epoch"]] == [0, 1]
    assert [span.name for span in by_kind["phase"]] == ["train", "evaluate", "train", "evaluate", "checkpoint"]
    names = {span.span_id: span.name for span in done.spans}
    assert {names[span.parent_id or ""] for span in by_kind["step"]} == {"train"}
    assert [names.get(span.parent_id or "") for span in by_kind["phase"]] == ["epoch 0", None, "epoch 1", None, None]
    assert all(span.ended_at is not None for span in done.spans)
    ends = [span.ended_at for span in by_kind["step"]]
    starts = [span.started_at for span in by_kind["step"]]
    assert starts[1:6] == ends[:5]  # within a phase, steps follow each other


def test_steps_carry_waits_samples_and_operations(train: Train) -> None:
    slow = "class Slow(TensorDataset):\n    def __getitem__(self, i):\n        time.sleep(0.002)\n        return super().__getitem__(i)\n"
    done = train(f"import time\n{slow}TensorDataset = Slow\ntrack.watch(model)\nepochs(1)\n")
    steps = [
        json.loads(line) for line in (done.folder / "spans.jsonl").read_text().splitlines() if '"step", "kind"' in line
    ]
    steps = [step for step in steps if step["kind"] == "step"]
    assert [step["samples"] for step in steps] == [10.0] * 6
    assert all(0.02 <= step["data_wait"] <= step["end"] - step["start"] for step in steps)
    # Forward, and backward with respect to the weights and, beyond the first layer, the inputs; a product takes two.
    first, others = 6 * 16, 16 * 8 + 8 * 2
    flops = 10 * 2 * (2 * first + 3 * others)
    assert [step.get("flops") for step in steps] == [None, *([float(flops)] * 5)]


def test_losses_of_all_steps_are_in_the_rows(train: Train) -> None:
    """Once by `backward`, once by the module of the loss, which sees those of the evaluation too."""
    values = "seen = []\ncriterion.register_forward_hook(lambda *a: seen.append(a[2].item()))\n"
    for more in ("", ", loss=criterion"):
        done = train(f"{values}track.watch(model, every=4{more})\nepochs(1, evaluate=True)\nprint(seen)\n")
        tensors, seen = done.tensors(), json.loads(done.output)
        rows = {
            step: values
            for (step, collection, name), values in tensors.items()
            if (collection, name) == ("losses", "loss")
        }
        assert {step: values["size"] for step, values in rows.items()} == {0: 1, 4: 4, 5: 1}
        assert rows[4]["max"] == pytest.approx(max(seen[1:5]))
        assert rows[4]["mean"] == pytest.approx(sum(seen[1:5]) / 4)
        held_out = [values["mean"] for (_, _, name), values in tensors.items() if name == "val_loss"]
        assert held_out == ([pytest.approx(sum(seen[6:]) / 2)] if more else [])
        (done.folder / "tensors.jsonl").unlink()


def test_a_loss_is_whole_where_it_is_scaled_or_the_sum_of_parts(train: Train) -> None:
    code = """
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
track.watch(model, every=1, partial_losses=True)
for _ in range(3):
    optimizer.zero_grad()
    parts = [criterion(model(x[part]), y[part]) / 2 for part in (slice(30), slice(30, 60))]
    for part in parts:
        scaler.scale(part).backward()
    scaler.step(optimizer)
    scaler.update()
    seen = (*globals().get("seen", ()), sum(part.item() for part in parts))
print(list(seen))
"""
    done = train(code)
    rows = [values for (_, _, name), values in done.tensors().items() if name == "loss"]
    assert [values["size"] for values in rows] == [1, 1, 1]
    assert [values["mean"] for values in rows] == pytest.approx(json.loads(done.output), rel=1e-5)


def test_classes_of_labels_and_predictions_come_with_the_loss(train: Train) -> None:
    done = train("y[:] = 0; y[:3] = 1\ntrack.watch(model, loss=criterion)\nepochs(1)\n")
    shares = {
        name: values["mean"] for (_, collection, name), values in done.tensors().items() if collection == "labels"
    }
    assert shares == {"0": pytest.approx(0.7), "1": pytest.approx(0.3)}


def test_wrapped_models_keep_the_names_of_their_parameters(train: Train) -> None:
    done = train("track.watch(nn.DataParallel(model))\nepochs(1)\n")
    assert (0, "weights", "0.weight") in done.tensors()


def test_steps_without_a_loader_are_written_at_the_end(train: Train) -> None:
    done = train("track.watch(model)\nfor _ in range(20):\n    criterion(model(x), y).backward(); optimizer.step()\n")
    assert sum(span.kind == "step" for span in done.spans) == 20
    assert all(span.ended_at is not None for span in done.spans)


def test_saturation_is_within_the_bounds_of_the_activation(train: Train) -> None:
    done = train(
        "model = nn.Sequential(nn.Linear(6, 6), nn.ReLU6(), nn.Hardtanh(0, 20), nn.Hardtanh())\n"
        "optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        "with torch.no_grad():\n    model[0].weight.zero_(); model[0].bias.copy_(torch.tensor([0.1, 1.0, 2.0, 3.0, 4.0, 5.0]))\n"
        "track.watch(model)\nmodel(x).sum().backward(); optimizer.step()\n"
    )
    found = {(collection, name): values.get("saturated") for (_, collection, name), values in done.tensors().items()}
    assert found["tanh", "2"] == pytest.approx(1 / 6)  # 0.1 of 0 to 20
    assert found["tanh", "3"] == pytest.approx(5 / 6)
    assert ("relu", "1") in found
    assert ("tanh", "1") not in found


def test_two_models_are_told_apart_by_their_prefixes(train: Train) -> None:
    """Each has a module for its loss: `backward` does not tell whose loss it is."""
    done = train(
        "other = nn.Linear(6, 2)\nlosses = nn.CrossEntropyLoss(), nn.CrossEntropyLoss()\n"
        "optimizers = [torch.optim.SGD(one.parameters(), 0.1) for one in (model, other)]\n"
        "track.watch(model, loss=losses[0], prefix='g.'); track.watch(other, loss=losses[1], prefix='d.', spans=False)\n"
        "for one, loss, its in zip((model, other), losses, optimizers):\n    loss(one(x), y).backward(); its.step()\n"
    )
    found = {name: values["size"] for (_, collection, name), values in done.tensors().items() if collection == "losses"}
    assert found == {"g.loss": 1, "d.loss": 1}


def test_gradients_of_a_fused_optimizer_are_those_before_the_scaler(train: Train) -> None:
    done = train(
        "optimizer = torch.optim.SGD(model.parameters(), 0.1, fused=True)\n"
        "scaler = torch.amp.GradScaler('cpu', init_scale=1024.0)\ntrack.watch(model)\n"
        "scaler.scale(criterion(model(x), y)).backward()\nprint(float(model[0].weight.grad.norm()) / 1024)\n"
        "scaler.step(optimizer); scaler.update()\n"
    )
    assert done.tensors()[0, "gradients", "0.weight"]["l2"] == pytest.approx(float(done.output), rel=1e-4)
