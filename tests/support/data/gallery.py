"""Small laboratory in a database: trainings alone and collocated, for dashboards.

It resembles training: phases, epochs with a validation at their end, a falling loss, power that follows the load. It lasts
until now, so that panels of the present have data.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hypergauge.core.files.run_folder import RunEnd
from hypergauge.insight.highlights import store
from hypergauge.sql.ingest import samples
from hypergauge.sql.ingest.software import SoftwareMetric, SpanRecord, store_software_metrics, store_spans
from hypergauge.sql.runs import experiments, runs
from hypergauge.sql.server.database import Database
from tests.support.data.laboratory import Laboratory
from tests.support.data.trainings import health
from tests.support.world import World

_NAMES = uuid.UUID(int=0)
_EXPERIMENTS = {20: "collocation", 21: "tokens", 22: "sweep"}
_STEPS = 40  # of an epoch


@dataclass(frozen=True, slots=True)
class Training:
    """Load of a program: `share` of a GPU's multiprocessors, memory in GiB, seconds, epochs."""

    name: str
    cores: float
    memory: float
    seconds: float
    epochs: int
    share: float = 0.0
    gpu_memory: float = 0.0
    loss: float = 0.4


RESNET = Training("resnet50", cores=5.2, memory=9.0, seconds=540, epochs=9, share=0.82, gpu_memory=22.0, loss=0.31)
BERT = Training("bert-base", cores=1.4, memory=6.5, seconds=450, epochs=3, share=0.93, gpu_memory=31.0, loss=0.12)
LOADER = Training("tokenize", cores=7.1, memory=3.2, seconds=240, epochs=4)
SWEEP = Training("vit-small", cores=2.2, memory=5.0, seconds=420, epochs=6, share=0.7, gpu_memory=14.0, loss=0.52)
SMALL = Training("mlp", cores=0.9, memory=0.6, seconds=120, epochs=5, loss=0.08)


@dataclass(frozen=True, slots=True)
class Show:
    """Run of the gallery: its training, devices, start (Unix seconds) and outcome."""

    experiment: int
    workload: int
    position: int
    training: Training
    start: float
    host: str = "node1"
    gpu: int | None = None
    instance: int | None = None
    slowdown: float = 1.0
    status: str = "finished"
    profilers: str = ""
    learning_rate: float = 0.1

    @property
    def seconds(self) -> float:
        """Duration; a failing run fails after six tenths of it."""
        return self.training.seconds * self.slowdown * (0.6 if self.status == "failed" else 1.0)

    @property
    def run_id(self) -> str:
        """Id, equal in every gallery, so that a dashboard's URL stays valid."""
        return uuid.uuid5(_NAMES, f"{self.experiment}/{self.workload}/{self.position}").hex

    @property
    def gpu_uuid(self) -> str | None:
        """Name of its GPU."""
        return None if self.gpu is None else f"GPU-{uuid.uuid5(_NAMES, f'{self.host}/{self.gpu}')}"


def shows(count: int, now: float) -> list[Show]:
    """Return the runs of a gallery: 1 alone; 8 with sharing, MIG, a failure and a live one; more with a sweep."""
    few = [
        Show(20, 1, 1, RESNET, now - 4800, gpu=0),
        Show(20, 2, 1, BERT, now - 4200, gpu=0),
        Show(20, 3, 1, RESNET, now - 3700, gpu=0, slowdown=1.5),
        Show(20, 3, 2, BERT, now - 3700, gpu=0, slowdown=1.7),
        Show(20, 4, 1, RESNET, now - 2800, gpu=1, instance=1, slowdown=1.9),
        Show(20, 4, 2, BERT, now - 2800, gpu=1, instance=2, slowdown=1.8),
        Show(21, 1, 1, LOADER, now - 1500, status="failed", profilers="perf"),
        Show(21, 2, 1, BERT, now - 330, gpu=0, status="running"),
    ]
    sweep = [
        Show(22, 1, at + 1, SWEEP, now - 1700, "node2", at, slowdown=1 + 0.02 * at, learning_rate=0.4 / 2**at)
        for at in range(8)
    ]
    many = [
        Show(22, 2, at + 1, SMALL, now - 1100, "node3", slowdown=1 + at % 7 / 20, learning_rate=0.4 / (1 + at))
        for at in range(max(count - len(few) - len(sweep), 0))
    ]
    return [*few, *sweep, *many][:count]


def hang(database: Database, folder: Path, count: int, *, interval: float = 2.0) -> list[Show]:
    """Fill a database with `count` runs, scraped every `interval` seconds; `folder` is for a spool."""
    now = time.time()
    chosen = shows(count, now)
    with database.connect() as connection:
        world = World(database, folder, connection)
        laboratory = Laboratory(world, now, interval)
        noise = np.random.default_rng(0)
        for show in chosen:
            _enter(world, show)
        for host in sorted({show.host for show in chosen}):
            laboratory.measure(host, [show for show in chosen if show.host == host])
        for number, show in enumerate(chosen):
            lasted = min(show.seconds, now - show.start)
            store_spans(connection, show.run_id, _spans(show, lasted))
            if show.gpu is not None:
                health(connection, show.run_id, show.start, lasted, steps=40, seed=number)
            store_software_metrics(connection, show.run_id, list(_logged(show, lasted, noise)))
            if show.training is RESNET:
                _fire(world, show)
        connection.execute(
            "update spans set data_wait = (0.1 + 0.05 * (step % 3)) * extract(epoch from ended_at - started_at) where kind = 'step'"
        )
        laboratory.write()
        samples.summarise_ended_runs(connection, settled=0)
        world.refresh()
        for show in chosen:
            if show.training is RESNET and show.status == "finished":
                store(connection, show.run_id)
        # Last, because otherwise all days in between would be refreshed.
        laboratory.look_back({show.host for show in chosen})
        world.refresh()
    return chosen


def _enter(world: World, show: Show) -> None:
    name = _EXPERIMENTS[show.experiment]
    source = f"/home/ada/{name}.csv"
    experiments.claim_experiment(world.connection, show.experiment, name=name, source=source, into=True)
    workload_id = experiments.open_workload(world.connection, show.experiment, show.workload)
    run = runs.NewRun(
        run_id=show.run_id, mlflow_run_id=uuid.uuid5(_NAMES, show.run_id).hex, workload_id=workload_id,
        position=show.position, attempt=1, name=show.training.name, owner="ada",
        command=f"python {show.training.name}.py --lr {show.learning_rate:g}", environment="conda:torch",
        collocation="-" if show.instance is None else "3g.40gb", devices="" if show.gpu is None else str(show.gpu),
        params={"lr": f"{show.learning_rate:g}", "model": show.training.name, "batch-size": "128"}, host=show.host,
        fingerprint=show.run_id, simulated=show.gpu is not None, profilers=show.profilers,
    )  # fmt: skip
    runs.create_runs(world.connection, [run])
    placement = runs.Placement(show.run_id, show.host, show.gpu_uuid, show.instance)
    runs.start_runs(world.connection, workload_id, [placement], show.start)
    if show.status == "running":
        world.connection.execute(
            "update runs set lease_until = now() + interval '1 day' where run_id = %s", (show.run_id,)
        )
    else:
        code, reason = (-9, "the kernel ended it: out of memory") if show.status == "failed" else (0, None)
        end = RunEnd(show.status, show.start, show.start + show.seconds, code, reason, 0.0, 0, 0, 0)
        runs.end_run(world.connection, show.run_id, end)


def _epochs(show: Show, lasted: float) -> Iterator[tuple[int, float, float]]:
    """Yield the started epochs: number, start, and actual or planned end, in seconds of the run."""
    length = 0.9 * show.seconds / show.training.epochs
    for epoch in range(show.training.epochs):
        begin = 0.05 * show.seconds + epoch * length
        if begin < lasted:
            yield epoch, begin, begin + length


def _spans(show: Show, lasted: float) -> Iterator[SpanRecord]:
    def span(name: str, parent: str | None, kind: str, number: int | None, begin: float, end: float) -> SpanRecord:
        ended = show.start + end if end <= lasted else None
        return SpanRecord(name.replace(" ", ""), parent, name, kind, number, show.start + begin, ended, 1, None)

    load, evaluate = 0.05 * show.seconds, 0.95 * show.seconds
    yield span("load", None, "phase", None, 0, load)
    yield span("train", None, "phase", None, load, evaluate)
    if lasted > evaluate:
        yield span("evaluate", None, "phase", None, evaluate, show.seconds)
    for epoch, begin, end in _epochs(show, lasted):
        yield span(f"epoch {epoch}", "train", "epoch", epoch, begin, end)
        step = (end - begin) / _STEPS
        for at in range(_STEPS):
            if begin + (at + 1) * step <= lasted:
                number = epoch * _STEPS + at
                yield span(
                    f"step {number}", f"epoch{epoch}", "step", number, begin + at * step, begin + (at + 1) * step
                )


def _logged(show: Show, lasted: float, noise: np.random.Generator) -> Iterator[SoftwareMetric]:
    off = 0.2 * abs(np.log10(show.learning_rate / 0.1))  # an unsuitable learning rate ends higher
    for epoch, begin, end in _epochs(show, lasted):
        for at in range(1, _STEPS + 1):
            when = begin + (end - begin) * at / _STEPS
            if when > lasted:
                return
            step = epoch * _STEPS + at - 1
            progress = (step + 1) / (_STEPS * show.training.epochs)
            loss = show.training.loss + (2.3 - show.training.loss) * np.exp(-5 * progress)
            yield SoftwareMetric("loss", step, show.start + when, float(loss * (1 + off + noise.normal(0, 0.03))))
            if at == _STEPS:
                accuracy = 0.1 + (0.88 - show.training.loss / 3 - off / 3) * (1 - np.exp(-4 * progress))
                yield SoftwareMetric("accuracy", step, show.start + when, float(accuracy))


def _fire(world: World, show: Show) -> None:
    world.connection.execute(
        "insert into rule_firings (run_id, rule, started_at, ended_at, severity, evidence)"
        " values (%s, 'low_gpu_utilization', to_timestamp(%s), to_timestamp(%s), 'warning', '{\"p95\": 0.12}')",
        (show.run_id, show.start, show.start + 0.05 * show.seconds),
    )
