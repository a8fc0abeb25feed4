"""What watches leave alone in real PyTorch trainings: results, models, errors, and what the script does itself."""

from __future__ import annotations

import json

import pytest

from tests.support.interpreters import needs
from tests.support.tuples import BUILD
from tests.support.watched import Train

pytestmark = [needs("torch"), pytest.mark.slow]


def test_outside_a_run_nothing_is_written_or_hooked(train: Train) -> None:
    done = train(
        "before = torch.Tensor.backward\ntrack.watch(model, loss=criterion)\nepochs(1)\n"
        "print(before is torch.Tensor.backward, len(model._forward_pre_hooks))\n",
        variables={},
    )
    assert (done.output, done.errors, done.tensors()) == ("True 0\n", "", {})


def test_a_closed_watch_leaves_no_hook(train: Train) -> None:
    done = train(
        "from torch.utils.data.dataloader import _BaseDataLoaderIter as Iter\n"
        "before = torch.Tensor.backward, torch.save, Iter.__next__\n"
        "watch = track.watch(model, every=2)\nepochs(1)\nwatch.close(); watch.close()\n"
        "print(before == (torch.Tensor.backward, torch.save, Iter.__next__))\n"
        "print([len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()].count(0), len(list(model.modules())))\n"
    )
    assert done.output == "True\n7 7\n"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("track.watch(3)\n", "TypeError: a model of builtins cannot be watched"),
        ("track.watch(model, collections=['wights'])\n", "ValueError: there is no collection 'wights'"),
        ("track.watch(model, samples=lambda *a: 1 / 0)\n", "ZeroDivisionError: division by zero"),
    ],
)
def test_an_error_ends_the_watch_and_not_the_training(train: Train, script: str, expected: str) -> None:
    done = train(f"{script}epochs(2)\nprint('trained')\n")
    assert done.output == "trained\n"
    assert [expected in problem for problem in done.problems] == [True]
    assert done.errors.count("hypergauge: watch is off") == 1


@pytest.mark.parametrize(
    "where",
    [
        "model.samples",  # in a hook
        "hypergauge.client.torch.loading._length",
        "hypergauge.client.torch.batch.Batch.write",
    ],
)
def test_an_error_of_a_signal_handler_reaches_the_script(train: Train, where: str) -> None:
    """The signal arrives while a function of the watch runs, in the second epoch."""
    owner, name = where.rsplit(".", 1)
    done = train(f"""
import signal, hypergauge
class TimedOut(Exception): pass
def late(*_): raise TimedOut
signal.signal(signal.SIGALRM, late)
model.samples = lambda a: len(a)
track.watch(model, every=2, samples=lambda *a: model.samples(*a))
epochs(1)
before = {owner}.{name}
def interrupted(*args):
    signal.raise_signal(signal.SIGALRM)
{owner}.{name} = interrupted
try: epochs(1)
except TimedOut: print("timed out")
{owner}.{name} = before
epochs(1)
""")
    assert (done.output, done.errors, done.problems) == ("timed out\n", "", [])
    assert len(done.steps) >= 12


def test_the_training_is_the_same_with_a_watch(train: Train) -> None:
    """Neither random numbers nor results depend on the watch."""
    weights = [train(f"{watch}\nepochs(3, evaluate=True)\nprint(model[0].weight.double().sum().item(), torch.rand(1).item())\n").output
               for watch in ("", "track.watch(model, every=2, loss=criterion, quantiles=True)")]  # fmt: skip
    assert weights[0] == weights[1]


def test_a_copied_and_a_saved_model_are_free_of_the_watch(train: Train) -> None:
    done = train(
        "import copy, subprocess\ntrack.watch(model, loss=criterion)\nepochs(1)\n"
        "torch.save(model, 'model.pt'); torch.save(optimizer.state_dict(), 'optimizer.pt')\n"
        "copied = copy.deepcopy(model)\n"
        "for one in (copied, torch.load('model.pt', weights_only=False)):\n"
        "    one(x).sum().backward(); torch.optim.SGD(one.parameters(), 0.1).step()\n"
        "load = \"import torch; torch.load('model.pt', weights_only=False)(torch.ones(1, 6))\"\n"
        "subprocess.run([sys.executable, '-E', '-c', load], check=True)  # without the client\n"
    )
    assert (done.problems, done.errors) == ([], "")
    assert sum(span.kind == "step" for span in done.spans) == 6


def test_spans_of_the_script_are_not_written_twice(train: Train) -> None:
    done = train(
        "track.watch(model)\nmodel.train()\n"
        "with track.phase('mine'), track.epoch(7):\n"
        "    for step, (a, b) in enumerate(DataLoader(TensorDataset(x, y), batch_size=10)):\n"
        "        with track.step(step):\n"
        "            optimizer.zero_grad(); criterion(model(a), b).backward(); optimizer.step()\n"
    )
    kinds = [(span.kind, span.name) for span in done.spans if span.kind != "step"]
    assert sorted(kinds) == [("epoch", "epoch 7"), ("phase", "mine")]
    assert sum(span.kind == "step" for span in done.spans) == 6
    lines = [json.loads(line) for line in (done.folder / "spans.jsonl").read_text().splitlines()]
    assert [line["samples"] for line in lines if line["kind"] == "step"] == [10.0] * 6


def test_only_the_first_rank_records_tensors(train: Train) -> None:
    done = train("import os\nos.environ['RANK'] = '1'\ntrack.watch(model)\nepochs(1)\n")
    assert done.tensors() == {}
    assert sum(span.kind == "step" for span in done.spans) == 6


def test_after_an_error_nothing_stays(train: Train) -> None:
    """The error comes while operations are counted and activations are watched."""
    done = train(
        "from torch.utils._python_dispatch import _get_current_dispatch_mode_stack as modes\n"
        "calls = []\n"
        "def samples(*_):\n    calls.append(1)\n    return 1 / (3 - len(calls))\n"
        "track.watch(model, every=1, samples=samples)\n"
        "criterion(model(x), y).backward(); optimizer.step()\n"
        "criterion(model(x), y).backward(); criterion(model(x), y).backward(); optimizer.step()\n"
        "print(len(modes()), [len(one._forward_hooks) for one in model.modules()][1:])\n"
    )
    assert done.output == "0 [0, 0, 0, 0, 0, 0]\n"
    assert len(done.problems) == 1


@pytest.mark.parametrize(
    "script",
    [
        "track.watch(model); compiled = torch.compile(model, fullgraph=True, backend='eager')\n",
        "compiled = torch.compile(model, fullgraph=True, backend='eager'); track.watch(compiled)\n",
    ],
    ids=["watched first", "compiled first"],
)
def test_a_watched_model_can_be_compiled(train: Train, script: str) -> None:
    """The hooks are no part of the compiled graph."""
    done = train(script + 2 * "criterion(compiled(x), y).backward(); optimizer.step()\n")
    assert (done.problems, "watch is off" in done.errors) == ([], False)
    assert {name for _, collection, name in done.tensors() if collection == "weights"} >= {"0.weight"}


def test_other_threads_complete_their_tuples(train: Train) -> None:
    done = train(
        f"{BUILD}track.watch(model); compiled = torch.compile(model, backend='eager'); compiled(x); builder.start()\n"
        "for _ in range(3): criterion(compiled(x), y).backward(); optimizer.step()\n"
        "builder.join(); print(len(built))\n"
    )
    assert (done.output, done.problems) == ("100\n", [])


def test_other_threads_neither_wait_nor_checkpoint(train: Train) -> None:
    done = train(
        "import threading, time\nclass Slow(TensorDataset):\n    def __getitem__(self, i):\n        time.sleep(0.001)\n"
        "        return super().__getitem__(i)\n"
        "track.watch(model)\n"
        "def elsewhere():\n    list(DataLoader(Slow(x, y), batch_size=10)); torch.save(model.state_dict(), 'model.pt')\n"
        "thread = threading.Thread(target=elsewhere); thread.start(); thread.join()\n"
        "criterion(model(x), y).backward(); optimizer.step()\n"
    )
    assert [span.name for span in done.spans if span.kind == "phase"] == ["train"]
    assert [span.data_wait for span in done.spans if span.kind == "step"] == [None]
