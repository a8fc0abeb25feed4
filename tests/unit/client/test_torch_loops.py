"""Watches of trainings with other loops: closures, accumulation, several models, no optimizer, other axes."""

from __future__ import annotations

import json

import pytest

from tests.support.interpreters import needs
from tests.support.watched import Train

pytestmark = [needs("torch"), pytest.mark.slow]

LINEAR = "model = nn.Linear(6, 1); optimizer = torch.optim.SGD(model.parameters(), 1e-6)\n"
LOADER = "loader = DataLoader(TensorDataset(x), 20)\n"


@pytest.mark.parametrize(
    ("loop", "evaluations"),
    [
        ("closure(); optimizer.step()", 1),
        ("optimizer.step(closure)", 1),
        ("optimizer.step(closure=closure)", 1),
        ("lbfgs.step(closure)", 3),
    ],
)
def test_a_step_has_the_operations_that_it_runs(train: Train, loop: str, evaluations: int) -> None:
    """A product of matrices takes two operations for each pair; the backward pass of the first layer is as much."""
    done = train(
        f"{LINEAR}lbfgs = torch.optim.LBFGS(model.parameters(), 1e-6, max_iter=3, tolerance_grad=0, tolerance_change=0)\n"
        "track.watch(model, every=1)\nseen = []\n"
        "def closure():\n"
        "    model.zero_grad(); loss = model(x).pow(2).mean(); loss.backward()\n"
        "    seen.append(model.weight.grad.norm().item()); return loss\n"
        f"for _ in range(4):\n    {loop}\n"
        "print(seen)\n"
    )
    assert [step.get("flops") for step in done.steps] == [None, *[evaluations * 4.0 * 60 * 6] * 3]
    # The gradients of a step are those before its first update.
    norms = [values["l2"] for (_, collection, name), values in done.tensors().items() if (collection, name) == ("gradients", "weight")]  # fmt: skip
    assert norms == pytest.approx(json.loads(done.output)[::evaluations], rel=1e-5)
    assert (done.problems, done.gaps) == ([], [])


def test_attention_has_operations_on_a_cpu(train: Train) -> None:
    """Forward two products, backward five."""
    done = train(
        f"{LINEAR}class Attention(nn.Module):\n"
        "    def __init__(self):\n        super().__init__(); self.scale = nn.Parameter(torch.ones(()))\n"
        "    def forward(self, a):\n        return F.scaled_dot_product_attention(a * self.scale, a * self.scale, a)\n"
        "model = Attention(); optimizer = torch.optim.SGD(model.parameters(), 0.1); track.watch(model)\n"
        "a = torch.randn(2, 3, 8, 16)\n"
        "for _ in range(3):\n    model(a).sum().backward(); optimizer.step()\n"
    )
    forward = 2 * (2 * 3) * (2 * 8 * 16 * 8)
    assert done.steps[1]["flops"] in (forward + forward * 5 // 2, forward * 3)  # fused, or as single products


@pytest.mark.parametrize("loss", ["l", "l / 4", "l * 0.25", "l / K", "scaler.scale(l / 4)", "l.clone().mul_(1 / 4)"])
def test_the_loss_of_accumulated_gradients_is_the_undivided_one(train: Train, loss: str) -> None:
    done = train(
        f"{LINEAR}K = 4; scaler = torch.amp.GradScaler('cpu', init_scale=1.0); track.watch(model, every=5); seen = []\n"
        "for step in range(10):\n"
        "    for part in range(4 if step < 9 else 2):\n"
        f"        l = (model(x) - 3).pow(2).mean(); seen.append(l.item()); ({loss}).backward()\n"
        "    optimizer.step(); optimizer.zero_grad()\n"
        "print([seen[0:4], seen[4:24], seen[24:]])\n"
    )
    expected = [sum(losses) / len(losses) for losses in json.loads(done.output)]
    assert done.losses()[:2] == pytest.approx(expected[:2], rel=1e-5)
    assert done.losses()[2] == pytest.approx(expected[2], rel=0.02)  # the last step has fewer parts


@pytest.mark.parametrize("loss", ["(model(x) - 3).pow(2).sum() / 60", "(model(x) - 3).pow(2).mean() / 2"])
def test_a_quotient_that_is_no_accumulation_is_the_loss(train: Train, loss: str) -> None:
    done = train(
        f"{LINEAR}track.watch(model, every=1); seen = []\n"
        f"for _ in range(3):\n    l = {loss}; seen.append(l.item()); l.backward(); optimizer.step()\n"
        "print(seen)\n"
    )
    assert done.losses() == pytest.approx(json.loads(done.output), rel=1e-5)


def test_two_models_of_a_loop_share_its_steps_samples_and_waits(train: Train) -> None:
    done = train(
        "models = [nn.Linear(6, 1) for _ in range(2)]; optimizers = [torch.optim.SGD(m.parameters(), 0.01) for m in models]\n"
        f"{LOADER}seen = [[], []]\n"
        "for number, m in enumerate(models):\n    track.watch(m, every=1, prefix=f'{number}.')\n"
        "for _ in range(2):\n"
        "    for (a,) in loader:\n"
        "        for m, o, s in zip(models, optimizers, seen):\n"
        "            o.zero_grad(); l = m(a).pow(2).mean(); s.append(l.item()); l.backward(); o.step()\n"
        "print(seen)\n"
    )
    assert [step["samples"] for step in done.steps] == [20.0] * 6
    assert [step.get("flops") for step in done.steps] == [None, *[2.0 * 4 * 20 * 6] * 5]
    assert all(step["data_wait"] <= step["end"] - step["start"] for step in done.steps)
    assert [span.step for span in done.spans if span.kind == "epoch"] == [0, 1]
    # A loss belongs to the model whose optimizer steps next.
    for number, losses in enumerate(json.loads(done.output)):
        assert done.losses(f"{number}.loss")[:6] == pytest.approx(losses, rel=1e-5)


def test_the_batch_of_a_gan_counts_once_however_often_it_passes(train: Train) -> None:
    done = train(
        "generator, critic = nn.Linear(3, 6), nn.Linear(6, 1)\n"
        "optimizers = [torch.optim.SGD(m.parameters(), 0.01) for m in (critic, generator)]\n"
        f"track.watch(generator, prefix='g.'); track.watch(critic, prefix='d.')\n{LOADER}"
        "for _ in range(2):\n"
        "    for (a,) in loader:\n"
        "        critic.zero_grad(); fake = generator(torch.randn(20, 3))\n"
        "        (critic(a).mean() - critic(fake.detach()).mean()).backward(); optimizers[0].step()\n"
        "        generator.zero_grad(); critic(fake).mean().backward(); optimizers[1].step()\n"
    )
    assert [step["samples"] for step in done.steps] == [20.0] * 6


def test_models_one_after_the_other_each_have_their_steps(train: Train) -> None:
    done = train(
        f"{LOADER}for fold in range(3):\n"
        "    model = nn.Linear(6, 1); optimizer = torch.optim.SGD(model.parameters(), 0.01); track.watch(model)\n"
        "    for (a,) in loader:\n        optimizer.zero_grad(); model(a).pow(2).mean().backward(); optimizer.step()\n"
    )
    assert [step["samples"] for step in done.steps] == [20.0] * 9


RECURRENT = """
class Recurrent(nn.Module):
    def __init__(self):
        super().__init__(); self.cells = nn.LSTM(6, 3)
    def forward(self, a):
        return self.cells(a)[0]
model = Recurrent(); optimizer = torch.optim.SGD(model.parameters(), 0.01); track.watch(model)
"""


@pytest.mark.parametrize(
    ("script", "samples"),
    [
        (f"{RECURRENT}batches = [x.view(15, 4, 6)] * 3\n", 4.0),
        (f"{RECURRENT}batches = [a.transpose(0, 1) for (a,) in DataLoader(TensorDataset(x.view(12, 5, 6)), 4)]\n", 4.0),
        (f"{LINEAR}track.watch(model)\nbatches = [a.transpose(0, 1) for (a,) in DataLoader(TensorDataset(x.view(12, 5, 6)), 4)]\n", 4.0),
    ],
    ids=["by a layer", "by a layer and the loader", "by the loader"],
)  # fmt: skip
def test_the_batch_may_be_the_second_axis(train: Train, script: str, samples: float) -> None:
    loop = "for a in batches:\n    optimizer.zero_grad(); model(a).pow(2).mean().backward(); optimizer.step()\n"
    done = train(script + loop)
    assert [step["samples"] for step in done.steps] == [samples] * 3
    assert (done.problems, done.gaps) == ([], [])


def test_steps_without_an_optimizer_end_with_the_next_forward_pass(train: Train) -> None:
    done = train(
        f"{LINEAR}del optimizer; track.watch(model, every=2)\n"
        "for _ in range(12):\n    model(x).pow(2).mean().backward()\n"
        "    with torch.no_grad():\n        for p in model.parameters():\n            p -= 0.01 * p.grad; p.grad = None\n"
    )
    assert len(done.steps) >= 8
    assert {collection for _, collection, _ in done.tensors()} == {"weights", "biases", "gradients", "losses"}
    assert (done.problems, done.gaps) == ([], [])


@pytest.mark.parametrize(
    "script",
    [
        "track.watch(model); compiled = torch.compile(model, backend='eager')\n",
        "track.watch(model); model.compile(backend='eager'); compiled = model\n",
    ],
)
def test_a_model_that_is_compiled_after_the_watch_is_followed(train: Train, script: str) -> None:
    done = train(f"{script}for _ in range(5):\n    criterion(compiled(x), y).backward(); optimizer.step()\n")
    assert [step.get("samples") for step in done.steps][1:] == [None, 60.0, 60.0, 60.0][-4:] or [
        step.get("samples") for step in done.steps
    ][1:] == [60.0] * 4
    assert [gap.split(":")[0] for gap in done.gaps] == ["no FLOPs of Sequential"]


@pytest.mark.parametrize(
    ("loop", "gaps"),
    [
        ("out = model(x); out.backward(torch.ones_like(out)); optimizer.step()", ["no losses of Linear"]),
        ("model.weight.grad, model.bias.grad = torch.autograd.grad(model(x).sum(), [*model.parameters()]); optimizer.step()",
         ["no losses of Linear"]),
        ("model.forward(x).sum().backward(); optimizer.step()", ["no samples, FLOPs or activations of Linear"]),
        ("model(x).sum().backward()", ["no steps of Linear"]),
    ],
)  # fmt: skip
def test_what_cannot_be_recorded_is_reported_once_and_not_printed(train: Train, loop: str, gaps: list[str]) -> None:
    done = train(f"{LINEAR}track.watch(model)\nfor _ in range(8):\n    {loop}\n")
    assert [gap.split(":")[0] for gap in done.gaps] == gaps
    assert (done.output, done.errors, done.problems) == ("", "", [])


def test_a_loss_and_an_activation_may_be_in_a_tuple(train: Train) -> None:
    done = train(
        "class Pair(nn.Module):\n    def forward(self, a, b):\n        loss = F.cross_entropy(a, b); return loss, {'acc': a.mean()}\n"
        "class Two(nn.Module):\n"
        "    def __init__(self):\n        super().__init__(); self.cells = nn.LSTM(6, 2, batch_first=True)\n"
        "    def forward(self, a):\n        return self.cells(a)\n"
        "pair, model = Pair(), Two(); optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        "track.watch(model, loss=pair, patterns={'mine': 'cells'})\nloss = pair(model(x[:, None])[0][:, 0], y)[0]\n"
        "loss.backward(); optimizer.step(); print([loss.item()])\n"
    )
    assert done.losses() == pytest.approx(json.loads(done.output), rel=1e-5)
    assert [name for _, collection, name in done.tensors() if collection == "mine"] == [
        "cells.0",
        "cells.1.0",
        "cells.1.1",
    ]


def test_two_models_in_one_step_are_counted_one_after_the_other(train: Train) -> None:
    """The counter of one is no compiled function, nor a mode of the script, to the other."""
    done = train(
        "g, d = nn.Linear(6, 6), nn.Linear(6, 1)\nog, od = (torch.optim.SGD(one.parameters(), 0.1) for one in (g, d))\n"
        "track.watch(g, prefix='g.'); track.watch(d, prefix='d.')\n"
        "for a, b in DataLoader(TensorDataset(x, y), 10):\n"
        "    f = g(a); (d(a).mean() + d(f.detach()).mean()).backward(); od.step()\n"
        "    d(f).mean().backward(); og.step()\n"
    )
    assert (done.gaps, done.problems) == ([], [])
    assert any(line.get("flops") for line in done.steps)


def test_a_closure_that_is_an_object_is_a_gap(train: Train) -> None:
    done = train(
        "class Closure:\n    def __call__(self):\n"
        "        optimizer.zero_grad(); loss = criterion(model(x), y); loss.backward(); return loss\n"
        "track.watch(model)\nfor _ in range(3):\n    optimizer.step(Closure())\n"
    )
    assert [gap.partition(":")[0] for gap in done.gaps] == ["no gradients of Sequential"]
    assert {collection for _, collection, _ in done.tensors()} >= {"weights", "losses"}
    assert "gradients" not in {collection for _, collection, _ in done.tensors()}


def test_a_partial_as_a_closure_is_followed(train: Train) -> None:
    done = train(
        "import functools\ndef closure(part):\n"
        "    optimizer.zero_grad(); loss = criterion(model(x[part]), y[part]); loss.backward(); return loss\n"
        "track.watch(model)\nfor _ in range(3):\n    optimizer.step(functools.partial(closure, slice(30)))\n"
    )
    assert done.gaps == []
    assert "gradients" in {collection for _, collection, _ in done.tensors()}


def test_counts_and_steps_may_be_tensors(train: Train) -> None:
    done = train(
        "labels = torch.tensor([[1, 2, -100], [4, -100, -100]])\n"
        "for step in range(2):\n"
        "    with track.step(torch.tensor(step)):\n"
        "        track.count(tokens=(labels != -100).sum(), samples=torch.ones(2))\n"
        "        track.count(tokens=torch.tensor(1.5))\n"
    )
    assert [(step["step"], step["tokens"], "samples" in step) for step in done.steps] == [
        (0, 4.5, False),
        (1, 4.5, False),
    ]
    assert done.gaps == ["some samples: a count is of type Tensor, not a finite number"]
    assert done.errors == ""
