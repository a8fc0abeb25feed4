"""What is said about collocation is computed, whichever way it came out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from insight.collocation import verdict
from insight.comparison import Comparison, Entry
from sql.selection import RunInfo

MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)


def entry(workload: int, position: int, command: str, start: float, duration: float, status: str = "finished") -> Entry:
    run = RunInfo(
        run_id=f"{workload:016}{position:016}", mlflow_run_id=None, experiment_id=1, workload=workload,
        position=position, attempt=1, name=command, owner="me", status=status,
        started_at=MIDNIGHT + timedelta(seconds=start), ended_at=MIDNIGHT + timedelta(seconds=start + duration),
        duration=duration, exit_code=0, reason=None, command=command, environment="-", collocation="-", devices="",
        params={}, host="node1", keep=False, simulated=False,
    )  # fmt: skip
    return Entry(run.label, command, status, (run,), {"duration_seconds": duration}, {}, {})


ALONE = [entry(1, 1, "a", 0, 10), entry(2, 1, "b", 20, 10)]


@pytest.mark.parametrize(
    ("together", "lines"),
    [
        (
            [entry(3, 1, "a", 40, 12), entry(3, 2, "b", 40, 11)],
            [
                "1/3/1 a: 12.0 s beside others, 10.0 s alone (1/1/1): 20% longer",
                "1/3/2 b: 11.0 s beside others, 10.0 s alone (1/2/1): 10% longer",
                "Workload 1/3 took 12.0 s, its runs one after the other 20.0 s. Collocation paid: 40% shorter.",
            ],
        ),
        (
            [entry(3, 1, "a", 40, 25), entry(3, 2, "b", 40, 25)],
            [
                "1/3/1 a: 25.0 s beside others, 10.0 s alone (1/1/1): 150% longer",
                "1/3/2 b: 25.0 s beside others, 10.0 s alone (1/2/1): 150% longer",
                "Workload 1/3 took 25.0 s, its runs one after the other 20.0 s. Collocation did not pay: 25% longer.",
            ],
        ),
        (
            [entry(3, 1, "a", 40, 20), entry(3, 2, "a", 40, 20)],
            [
                "1/3/1 a: 20.0 s beside others, 10.0 s alone (1/1/1): 100% longer",
                "1/3/2 a: 20.0 s beside others, 10.0 s alone (1/1/1): 100% longer",
                "Workload 1/3 took 20.0 s, its runs one after the other 20.0 s. It was even: no difference.",
            ],
        ),
        ([entry(3, 1, "a", 40, 12), entry(3, 2, "c", 40, 11)], []),  # c was never alone
        ([entry(3, 1, "a", 40, 12), entry(3, 2, "b", 40, 1, "failed")], []),
    ],
    ids=["it paid", "it did not", "even", "not alone", "failed"],
)
def test_the_verdict_follows_the_measurement(together: list[Entry], lines: list[str]) -> None:
    assert list(verdict(Comparison("run", (*ALONE, *together), None))) == lines
