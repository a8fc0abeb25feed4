"""Replay of all rules over a hundred watched trainings, and over one with ten thousand tensors."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta

from benchmarks.support.servers import Kind, own_database, server_seconds
from hypergauge.core.files.run_folder import RunEnd
from hypergauge.insight import rules
from hypergauge.insight.rules.replay import replay
from hypergauge.insight.rules.rule import Rule
from hypergauge.sql.runs import experiments, runs
from hypergauge.sql.runs.selection import RunInfo, select_runs
from hypergauge.sql.server.database import Connection

__all__ = ["measure", "write_training"]

RUNS, TENSORS, STEPS = 100, 60, 100
MANY_TENSORS, MANY_STEPS = 10_000, 1000
LIMIT = timedelta(seconds=60)

# A set of normally distributed tensors at each step; `varied` differs from step to step. Arrays of equal values are as they are in
# reality: shares of zeros and of elements that are not finite. In an ill training, all elements are zero, every other tensor is
# unchanged, and the others change too much.
_STEPS = """
insert into tensor_steps (run_id, tensor_set, step, time, pid, min, max, mean, std, l1, l2, zeros, nonfinite, saturated, update_ratio)
select %(run)s, %(set)s, n, to_timestamp(%(start)s + n * %(every)s), 1, a.varied, a.varied, a.varied, a.varied, a.varied, a.varied,
       a.zeros, array_fill(case when %(ill)s and n >= 10 then 1 else 0 end::real, array[%(tensors)s]),
       case when %(set)s = 'tanh' then a.zeros end, case when %(set)s = 'weights' then a.ratios end
from generate_series(0, %(steps)s - 1) n
cross join lateral (
    select array_agg((%(scale)s * case when %(ill)s and i %% 2 = 0 then 1 else 1 + random() end)::real) as varied,
           array_agg((%(zeros)s * case when %(ill)s then 1 else random() end)::real) as zeros,
           array_agg((case when not %(ill)s then 1 + random() when i %% 2 = 0 then 0 else 100 end)::real) as ratios
    from generate_series(1, %(tensors)s) i where n is not null) a
"""


def measure(server: Kind | None = None) -> dict[str, float | str]:
    """Return seconds of a replay of all rules over all runs, and of each rule over large ones.

    Each of the runs has `TENSORS` weights, gradients and ReLUs at `STEPS` watched steps, the steps' spans, and logged losses.
    Of the large runs, one is sound, and one has a finding in every tensor at every step.
    """
    with own_database("rules", server) as database, database.connect() as connection:
        for number in range(RUNS):
            write_training(connection, number + 1, TENSORS, STEPS)
        connection.execute("analyze")
        found = select_runs(connection, [])
        every = list(rules.load().values())
        began, client, on_server = time.perf_counter(), time.process_time(), server_seconds(database)
        by_rule, fired = _replay(connection, every, found)
        results: dict[str, float | str] = {
            "runs": len(found),
            "rules": len(every),
            "replay_s": time.perf_counter() - began,
            "replay_client_cpu_s": time.process_time() - client,
            "replay_server_cpu_s": server_seconds(database) - on_server,
            "firings": fired,
        }
        results |= {f"replay_{name}_ms": 1000 * each / len(found) for name, each in by_rule.items()}
        for at, (name, ill) in enumerate({"large": False, "ill": True}.items(), 1):
            write_training(connection, RUNS + at, MANY_TENSORS, MANY_STEPS, ill=ill)
            connection.execute("analyze")
            [large] = select_runs(connection, [f"20/{RUNS + at}"])
            client, on_server = time.process_time(), server_seconds(database)
            by_rule, fired = _replay(connection, every, [large])
            results |= {
                f"{name}_slowest_s": max(by_rule.values()),
                f"{name}_s": sum(by_rule.values()),
                f"{name}_cpu_s": time.process_time() - client + server_seconds(database) - on_server,
                f"{name}_firings": fired,
            }
            results |= {f"{name}_{rule}_s": each for rule, each in by_rule.items()}
        return results


def write_training(
    connection: Connection, number: int, tensors: int, steps: int, every: float = 10.0, *, ill: bool = False
) -> str:
    """Store a run of its own workload with its tensors, steps and losses, and return its id; see `_STEPS` for an ill one."""
    experiments.claim_experiment(connection, 20, name="rules", source="rules.csv", into=True)
    workload_id = experiments.open_workload(connection, 20, number)
    run_id, start = uuid.uuid4().hex, time.time() // 1 - 1_000_000
    stop = start + every * (steps + 1)
    run = runs.NewRun(
        run_id=run_id, mlflow_run_id=None, workload_id=workload_id, position=1, attempt=1, name="train", owner="me",
        command="train.py", environment="-", collocation="-", devices="", params={"lr": str(number)}, host="node1",
        fingerprint=uuid.uuid4().hex,
    )  # fmt: skip
    runs.create_runs(connection, [run])
    runs.start_runs(connection, workload_id, [runs.Placement(run_id, "node1", gpu_uuid=None)], start)
    runs.end_run(connection, run_id, RunEnd("finished", start, stop, 0, None, 0.0, 0, 0, 0))
    names = [f"layer{at}.weight" for at in range(tensors)]
    sound = {"weights": (1.0, 0.0), "gradients": (1.0, 0.1), "relu": (1.0, 0.8)}
    faults = {"weights": (100.0, 1.0), "gradients": (1.0, 1.0), "relu": (1.0, 1.0), "tanh": (1.0, 1.0)}
    for collection, (scale, zeros) in (faults if ill else sound).items():
        connection.execute(
            "insert into tensor_sets (run_id, tensor_set, collection, names, sizes) values (%s, %s, %s, %s, array_fill(4096, array[%s]))",
            (run_id, collection, collection, names, tensors),
        )
        connection.execute(
            _STEPS,
            {"run": run_id, "set": collection, "start": start, "every": every, "tensors": tensors, "steps": steps, "scale": scale,
             "zeros": zeros, "ill": ill},
        )  # fmt: skip
    connection.execute(
        "insert into software_metrics (run_id, key, step, time, elapsed, value)"
        " select %s, key, n, to_timestamp(%s + n * %s), n, 0.3 + 2 * exp(%s * n / %s) * (0.95 + 0.1 * random())"
        " from unnest(array['train_loss', 'val_loss', 'lr', 'accuracy']) key, generate_series(0, %s - 1) n",
        (run_id, start, every, 0.0 if ill else -3.0, steps, steps),
    )
    connection.execute(
        "insert into spans (run_id, span_id, name, kind, step, started_at, ended_at, pid, data_wait)"
        " select %s, n::text, 'step', 'step', n, to_timestamp(%s + (n - 1) * %s), to_timestamp(%s + n * %s), 1, 0.1"
        " from generate_series(1, %s) n",
        (run_id, start, every, start, every, steps),
    )
    return run_id


def _replay(connection: Connection, every: Sequence[Rule], found: Sequence[RunInfo]) -> tuple[dict[str, float], int]:
    """Return the seconds of a replay by rule, and the number of firings."""
    by_rule: dict[str, float] = defaultdict(float)
    fired = 0
    for one in replay(connection, [(rule, rule.values()) for rule in every], found, LIMIT):
        by_rule[one.rule.name] += one.seconds
        fired += len(one.firings)
        if one.failure is not None:
            raise RuntimeError(f"{one.rule.name}: {one.failure}")
    return dict(by_rule), fired
