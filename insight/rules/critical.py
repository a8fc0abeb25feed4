"""Critical firings of runs that have just ended, before the last evaluation of their rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from hypergauge.core.config.bench_toml import config_file
from hypergauge.core.errors import BenchError
from hypergauge.core.evidence import evidence_text
from hypergauge.core.listing import listed
from hypergauge.insight.rules.chosen import ChosenRules
from hypergauge.insight.rules.replay import replay
from hypergauge.insight.rules.rule import Firing
from hypergauge.sql.runs.selection import RunInfo, select_runs
from hypergauge.sql.server.database import Connection

__all__ = ["critical_firings", "firing_text"]

# A command does not wait longer for one rule.
_LIMIT = timedelta(seconds=5)
# The end of a training comes before its signs.
_FIRST = "NonFinite"


def critical_firings(connection: Connection, run_ids: Sequence[str]) -> Iterator[tuple[RunInfo, Firing]]:
    """Yield the critical firings of ended runs, of the enabled rules of the working directory; store nothing.

    What the script wrote is in the database at a run's end, but the service evaluates it later.
    """
    with suppress(BenchError):  # such as a bad bench.toml: the service says so
        chosen = [
            (one.rule, one.values) for one in ChosenRules.read(config_file()).enabled if one.rule.severity == "critical"
        ]
        runs = select_runs(connection, run_ids) if run_ids and chosen else []
        found = [(one.run, firing) for one in replay(connection, chosen, runs, _LIMIT) for firing in one.firings]
        yield from sorted(found, key=lambda one: one[1].rule != _FIRST)


def firing_text(firing: Firing) -> str:
    """Return a firing as the end of a sentence on its run: ``its loss became NaN or infinite at step 200 (NonFinite)``."""
    evidence = firing.evidence
    at = f" at step {step}" if (step := _first(evidence, "step")) is not None else ""
    match firing.rule:
        case "NonFinite":
            collections = _flat(evidence.get("collection"))
            what = "loss" if "losses" in collections else listed(sorted(set(collections)), 3, " and ") or "tensors"
            text = f"its {what} became NaN or infinite{at}"
        case "ExplodingTensor":
            text = f"its {listed(sorted(set(_flat(evidence.get('tensors')))), 3, ' and ') or 'tensors'} exploded{at}"
        case "StalledTraining":
            seconds = _first(evidence, "seconds")
            after = at.replace(" at ", " after ")
            text = f"no step ended for {seconds or 0:.0f} s{after}"
        case _:
            return f"{firing.rule} fired: {evidence_text(evidence)}"
    return f"{text} ({firing.rule})"


def _first(evidence: Mapping[str, Any], key: str) -> Any:
    """Return the value of the first of merged intervals."""
    return next(iter(_flat(evidence.get(key))), None)


def _flat(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [one for part in value for one in _flat(part)]
    return [] if value is None else [value]
