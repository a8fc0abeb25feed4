"""Cost of measuring: CPU time of exporters, collector and other tools, and the slow-down of trainings.

`shares` has the CPU time, and `slowdown` the trainings. Exporters and collector run as on any host, with the exporters
``host`` and ``process``. On a host with a GPU those of GPUs run too, else an exposition of simulated GPUs is scraped.
"""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.measurement.shares import shares
from benchmarks.measurement.slowdown import HALF_WIDTH, LEASE_SECONDS, slow_down
from benchmarks.support import telemetry
from benchmarks.support.recording import EXPORTERS
from benchmarks.support.servers import Kind, exporter, own_database
from benchmarks.support.stack import RunningStack, running
from benchmarks.training.stepping import TrainingKind, of_this_host
from hypergauge.core.config.settings import Settings
from hypergauge.gpu.inventory import inventory
from hypergauge.gpu.vendors import NVIDIA
from hypergauge.sql.schema.flavour import inspect
from hypergauge.sql.server.database import Database
from hypergauge.stack.services.local_stack import availability

__all__ = ["measure"]

# Largest upper end of the slow-down's interval, by scrapes per second.
_GOALS = {1: 0.005, 10: 0.01}
_EXPOSITIONS = 60
_GPU_EXPORTERS = ("nvml", "dcgm")


def measure(
    minutes: float = 20.0,
    server: Kind | None = None,
    kind: TrainingKind | None = None,
    hz: int = 1,
    seed: int = 1,
) -> dict[str, float | str]:
    """Return CPU shares, and the slow-down of each kind of training, or of one.

    Parameters
    ----------
    minutes
        Limit for each kind; a kind ends when its interval is narrow enough.
    hz
        Scrapes per second, 1 to 10.
    seed
        Seed of the order in which measuring is switched.
    """
    with (
        own_database("overhead", server) as database,
        tempfile.TemporaryDirectory(prefix="bench-") as name,
        _stack(database, Path(name), hz) as stack,
    ):
        with database.session() as connection:
            results: dict[str, float | str] = {"flavour": inspect(connection).flavour.value}
        results |= {"hz": float(hz), "seed": float(seed), "half_width_wanted": HALF_WIDTH, **shares(stack)}
        unresolved, above = list[str](), list[str]()
        for one in [kind] if kind else of_this_host():
            found = slow_down(stack, Path(name), one, seconds=minutes * 60, seed=seed)
            results |= {f"{one}_{key}": value for key, value in found.items()}
            if found["resolved"] == "not resolved":
                unresolved.append(one)
            if hz in _GOALS and not float(found["slow_down_high"]) <= _GOALS[hz]:
                above.append(one)
    goal: dict[str, float | str] = (
        {"goal": _GOALS[hz], "goal_not_shown": ", ".join(above) or "none"} if hz in _GOALS else {}
    )
    return {
        **results,
        **goal,
        "unresolved": ", ".join(unresolved) or "none",
        "resolved": "not resolved" if unresolved else "resolved",
    }


@contextlib.contextmanager
def _stack(database: Database, home: Path, hz: int) -> Iterator[RunningStack]:
    """Start exporters and a collector: those of real GPUs where there are some."""
    exporters, others = list(EXPORTERS), dict[str, str]()
    with contextlib.ExitStack() as started:
        if NVIDIA in inventory().vendors:
            problems = availability(Settings(home=home))
            exporters += [name for name in _GPU_EXPORTERS if problems[name] is None]
        else:
            others["gpus"] = started.enter_context(exporter(_gpus()))
        yield started.enter_context(running(database, home, exporters, others=others, hz=hz, lease=LEASE_SECONDS))


def _gpus() -> Callable[[], bytes]:
    """Return a function that gives the exposition of simulated GPUs, a second later at each call.

    They are simulated beforehand, since that takes longer than an exporter of real GPUs does.
    """
    host = telemetry.Host()

    def exposition() -> bytes:
        host.tick(100.0)
        return host.dcgm()

    expositions = itertools.cycle([exposition() for _ in range(_EXPOSITIONS)])
    return lambda: next(expositions)
