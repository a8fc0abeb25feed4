"""Facts without which a ledger would mislead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypergauge.insight.ledger.model import Lane
from hypergauge.sql.queries.neighbours import other_runs
from hypergauge.sql.queries.notices import Fact
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection

__all__ = ["facts"]


def facts(connection: Connection, runs: Sequence[RunInfo], lanes: Sequence[Lane]) -> Iterator[Fact]:
    """Yield the facts without which the ledger would mislead."""
    blocks = [block for lane in lanes for block in lane.blocks]
    drawn = {block.placed.run_id for block in blocks}
    if without := [run.full_label for run in runs if run.started_at is not None and run.run_id not in drawn]:
        yield Fact("without_gpu", without)
    for code, some in (
        ("divided_evenly", [block for block in blocks if not block.own]),
        ("without_own_values", [block for block in blocks if not block.quantity]),
    ):
        if some:
            yield Fact(code, list(dict.fromkeys(block.placed.run for block in some)))
    others = other_runs(connection, sorted(drawn))
    chosen = {run.full_label for run in runs}
    if beside := [run.full_label for run in runs if set(others.get(run.run_id, ())) - chosen]:
        yield Fact("shared_resource", beside)
    early: dict[tuple[str, str | None], list[str]] = {}
    for run in runs:
        if run.run_id in drawn and run.ended_early:
            early.setdefault((run.status, run.reason), []).append(run.full_label)
    yield from (
        Fact("ended_early", some, {"status": status, "cause": cause}) for (status, cause), some in early.items()
    )
    for code, labels in (
        ("simulated_gpu", [run.full_label for run in runs if run.run_id in drawn and run.simulated]),
        ("running", [run.full_label for run in runs if run.run_id in drawn and run.status == "running"]),
    ):
        if labels:
            yield Fact(code, labels)
    for profilers in dict.fromkeys(run.profilers for run in runs if run.run_id in drawn and run.profilers):
        labels = [run.full_label for run in runs if run.run_id in drawn and run.profilers == profilers]
        yield Fact("profiled", labels, {"profilers": profilers.split("+")})
