"""Ratios measured here, from the answers of `bench` in JSON."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from examples.papers.paper import Comparison

__all__ = ["Measured", "Results", "bench"]

BENCH = [sys.executable, "-P", "-m", "hypergauge.cli"]
# A condition that nothing meets: the command tests it and shows the change with its interval.
_NEVER = "+100000%"


@dataclass(frozen=True, slots=True)
class Measured:
    """Ratio, and its interval where repetitions allow one; `note` names what it is of."""

    value: float
    low: float | None = None
    high: float | None = None
    note: str = ""


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    """Run `bench` without simulated GPUs, whose values are no measurements."""
    variables = {**os.environ, "BENCH_SIMULATE": ""}
    return subprocess.run([*BENCH, *words], env=variables, text=True, stdout=subprocess.PIPE)


class Results:
    """Results of one experiment.

    Parameters
    ----------
    workloads
        Workloads that this host can run; a comparison with another one has no result.
    """

    def __init__(self, experiment: int, workloads: Collection[int]) -> None:
        self._experiment = experiment
        self._workloads = workloads
        self._sets: Mapping[str, dict[str, Any]] | None = None

    def of(self, comparison: Comparison) -> Measured | None:
        """Return the measured ratio; ``None`` if its runs did not run here."""
        if comparison.new == "best":
            best = max(self._all_sets().values(), key=lambda one: _throughput(one) or 0, default=None)
            if best is None or (value := _throughput(best)) is None:
                return None
            return Measured(value, note=f"workload {best['workloads'][0].partition('/')[2]}")
        if not {_workload(one) for one in (comparison.new, comparison.old) if one} <= {*self._workloads}:
            return None
        if comparison.metric in ("slow-down", "throughput"):
            return self._of_set(comparison)
        return self._change(comparison)

    def _of_set(self, comparison: Comparison) -> Measured | None:
        found = self._all_sets().get(f"{self._experiment}/{comparison.new}")
        if found is None:
            return None
        # An instance's GPU has no run without instances; then a run on the other GPU counts.
        if not all(one["slowdown"] for one in found["members"]):
            change = self._change(comparison) if comparison.old else None
            if change is None or comparison.metric == "slow-down":
                return change
            runs = sum(map(_count, found["members"])) / found["repetitions"]
            return Measured(runs / change.value)
        if comparison.metric == "throughput":
            value = _throughput(found)
            return None if value is None else Measured(value)
        [member] = found["members"]
        slowdown = member["slowdown"]
        return Measured(slowdown["ratio"], slowdown["low"], slowdown["high"])

    def _change(self, comparison: Comparison) -> Measured | None:
        """Return the mean of the new runs divided by that of the old ones."""
        done = bench(
            "compare", f"{self._experiment}/{comparison.new}", "--baseline", f"{self._experiment}/{comparison.old}",
            "--fail-on", f"{comparison.metric}>{_NEVER}", "--json",
        )  # fmt: skip
        if done.returncode not in (0, 1) or not done.stdout.startswith("{"):
            return None
        verdicts = json.loads(done.stdout)["gate"]["verdicts"]
        found = [one for one in verdicts if one["new"]["n"] and one["old"]["n"]]
        if not found:
            return None
        ratios = [one["new"]["mean"] / one["old"]["mean"] for one in found]
        if len(found) == 1 and (statistic := found[0].get("statistics")):
            return Measured(ratios[0], _end(statistic["low"]), _end(statistic["high"]))
        return Measured(statistics.fmean(ratios))

    def _all_sets(self) -> Mapping[str, dict[str, Any]]:
        """Return the sets of runs side by side, by workload."""
        if self._sets is None:
            done = bench("interference", str(self._experiment), "--metric", "epoch_time", "--json")
            sets = json.loads(done.stdout)["sets"] if done.returncode == 0 else []
            self._sets = {workload: one for one in sets for workload in one["workloads"]}
        return self._sets


def _end(change: float | None) -> float | None:
    return 1 + change if change is not None and math.isfinite(change) else None


def _count(member: Mapping[str, Any]) -> int:
    return len(member["runs"])


def _throughput(found: Mapping[str, Any]) -> float | None:
    """Return the work of the set's runs in the time of one, each against its own pace alone."""
    if not all(one["slowdown"] for one in found["members"]):
        return None
    paces = [_count(one) / one["slowdown"]["ratio"] for one in found["members"]]
    return math.fsum(paces) / int(found["repetitions"])


def _workload(text: str) -> int:
    """Return the workload of a run by workload and position."""
    return int(text.partition("/")[0])
