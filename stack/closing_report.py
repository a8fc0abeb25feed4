"""Last lines of commands that run workloads: critical firings, and other programs on the hosts of runs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from hypergauge.core.errors import BenchError
from hypergauge.core.listing import counted
from hypergauge.scheduler.events import Event
from hypergauge.sql.queries.contention import contention_facts
from hypergauge.sql.queries.notices import notices

if TYPE_CHECKING:
    from hypergauge.scheduler.events import Outcome
    from hypergauge.scheduler.executors.base import Executor

__all__ = ["report_critical", "report_other_programs"]

# Runs that are named.
_MOST = 10


def report_critical(executor: Executor, outcomes: Sequence[Outcome]) -> None:
    """Report the runs on which a critical rule fires: a run that finished may have been lost long before."""
    # Late: rules are no part of what a run needs to start.
    from hypergauge.insight.rules.critical import critical_firings, firing_text

    texts: dict[tuple[str, str, str], list[str]] = {}
    # A run has ended well, whether or not the database answers now.
    with suppress(BenchError), executor.database.session() as connection:
        for run, firing in critical_firings(connection, [outcome.run_id for outcome in outcomes]):
            texts.setdefault((run.full_label, run.name, run.status), []).append(firing_text(firing))
    for (label, name, status), every in [*texts.items()][:_MOST]:
        link = ", but" if status == "finished" else ":"
        message = f"{name} {status}{link} {', '.join(dict.fromkeys(every))}"
        executor.report(Event("warning", label, message=message))
    if len(texts) > _MOST:
        message = f"{counted(len(texts) - _MOST, 'further run')} with critical firings: `bench rules replay` shows them"
        executor.report(Event("warning", "", message=message))


def report_other_programs(executor: Executor, outcomes: Sequence[Outcome]) -> None:
    """Report the runs that other programs disturbed."""
    with suppress(BenchError), executor.database.session() as connection:
        facts = contention_facts(connection, [outcome.run_id for outcome in outcomes])
        for notice in notices(connection, facts):
            executor.report(Event("warning", "", message=notice.text))
