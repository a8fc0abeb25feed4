"""Audit of the database after a campaign, against the logs of runs and exporters."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.campaign.answers import SERIES, Answers
from benchmarks.campaign.sheets import Sheet
from benchmarks.campaign.site import Site
from hypergauge.core.system.uptime import uptime

__all__ = ["audit"]

_LONGEST_DIFFERENCE = 0.05
_LONGEST_GAP = 20.0
_DRAIN_SECONDS = 90.0
# Counters across a step of the clock overlap with later ones, and both are split at starts and ends of runs.
_DOUBLE = "select count(*)::int from (select from samples group by series_id, time, value, dt having count(*) > 1) x"


def audit(site: Site, excused: Callable[[float, float], bool]) -> dict[str, float | str]:
    """Check everything, report findings, and return the counts; `excused` are gaps without an answer."""
    for server in site.servers:
        server.hold()
    results: dict[str, float | str] = _runs(site)
    _drain(site)
    return {
        **results,
        **_answers(site, excused),
        "processes_left": float(site.left),
        "schedules": float(len(site.sheets)),
        "schedules_begun_again": float(sum(sheet.lives - 1 for sheet in site.sheets)),
    }


@dataclass(frozen=True)
class _Attempt:
    """Recorded state of one attempt."""

    label: str
    row: tuple[int, int]
    run_id: str
    status: str
    code: int | None
    reason: str
    seconds: float | None


def _runs(site: Site) -> dict[str, float | str]:
    count = wrong = 0
    longest = 0.0
    for sheet in site.sheets:
        attempts = _attempts(site, sheet.experiment)
        accounts = sheet.accounts()
        for unknown in accounts.keys() - {attempt.run_id for attempt in attempts}:
            site.report(f"run {unknown[:8]} of experiment {sheet.experiment} ran and is not recorded")
        for attempt in attempts:
            count += 1
            account = {line["what"]: line for line in accounts.get(attempt.run_id, [])}
            killed = site.killed.get(attempt.run_id)
            expected = _expected(account, killed is not None)
            if (attempt.status, attempt.code) not in expected:
                wrong += 1
                at = account.get("end", account.get("begin", {"at": killed or uptime()}))["at"]
                recorded = f"{attempt.status}, {attempt.code}, {attempt.reason!r}"
                site.report(f"run {attempt.label} is recorded as {recorded} and not as {expected}", at)
            elif "end" in account and attempt.code is not None and attempt.seconds is not None:
                off = attempt.seconds - (account["end"]["at"] - account["begin"]["started"])
                longest = max(longest, abs(off), key=abs)
                if abs(off) > _LONGEST_DIFFERENCE:
                    what = f"run {attempt.label} lasted {attempt.seconds:.3f} s as recorded, {off:+.3f} s more than inside it"
                    site.report(what, account["end"]["at"])
        wrong += _rows(site, sheet, attempts)
    return {"runs": float(count), "wrong_runs": float(wrong), "longest_difference_ms": 1000 * longest}


def _attempts(site: Site, experiment: int) -> list[_Attempt]:
    rows = site.server.query(
        """
        select format('%%s/%%s/%%s@%%s', experiment_id, workload, position, attempt), workload, position, run_id, r.status,
               exit_code, coalesce(reason, ''), extract(epoch from r.ended_at - r.started_at)::float8
        from runs r join workloads using (workload_id) where experiment_id = %s order by workload, position, attempt
        """,
        experiment,
    )
    return [_Attempt(label, (workload, position), *rest) for label, workload, position, *rest in rows]  # type: ignore


def _expected(account: dict[str, dict[str, Any]], killed: bool) -> list[tuple[str, int | None]]:
    """Return the possible recorded ends: status and exit code."""
    expected: list[tuple[str, int | None]] = [("failed", None)] if killed else []
    if "begin" not in account:
        return [*expected, ("stopped", None)]  # not released by a killed scheduler
    if "end" in account:
        code = account["end"]["code"]
        waits = account["begin"]["planned"] == "wait"
        if not killed or "signaled" not in account:
            expected.append(("timeout" if waits else "finished" if code == 0 else "failed", code))
    return expected


def _rows(site: Site, sheet: Sheet, attempts: list[_Attempt]) -> int:
    """Check each row of the file against its attempts; return the number of wrong rows."""
    wrong = 0
    by_row: dict[tuple[int, int], list[_Attempt]] = {}
    for attempt in attempts:
        by_row.setdefault(attempt.row, []).append(attempt)
    last = {tries[-1].run_id: tries for tries in by_row.values()}
    for number, row in enumerate(sheet.rows, 1):
        where = f"row {number} of experiment {sheet.experiment}"
        if (tries := last.get(row.get("Run", ""))) is None:
            problem = f"names the run {row.get('Run')!r}, which is no last attempt"
        elif row["Status"] != tries[-1].status:
            problem = f"has the status {row['Status']}, and its run {tries[-1].label} {tries[-1].status}"
        elif any(attempt.status == "finished" for attempt in tries[:-1]):
            problem = "was repeated after it had finished"
        # A killed scheduler loses its counts of retries, and does not retry runs that had failed.
        elif not sheet.kills and tries[-1].status != "finished" and len(tries) != 1 + sheet.RETRIES:
            problem = f"was tried {len(tries)} times"
        else:
            continue
        wrong += 1
        site.report(f"{where} {problem}")
    return wrong


def _drain(site: Site) -> None:
    """Wait until the collector has written all scrapes, and stop it."""
    deadline = time.monotonic() + _DRAIN_SECONDS
    while (site.metric("bench_collector_spool_records") or 0) > 5 and time.monotonic() < deadline:
        time.sleep(0.5)
    site.stop_collector()


def _answers(site: Site, excused: Callable[[float, float], bool]) -> dict[str, float | str]:
    found = [_Kept.of(site, job, excused) for job in site.logs]
    given, stored, lost = (sum(getattr(one, name) for one in found) for name in ("given", "stored", "lost"))
    if not lost * SERIES <= site.lost <= (given - stored) * SERIES:
        site.report(f"{lost} to {given - stored} answers are lost, and {site.lost / SERIES:g} counted as lost")
    double = sum(int(str(server.query(_DOUBLE)[0][0])) for server in site.servers)
    if double:
        site.report(f"{double} samples are duplicate")
    return {
        "answers_given": float(given),
        "answers_stored": float(stored),
        "answers_lost": float(lost),
        "answers_counted_as_lost": site.lost / SERIES,
        "answers_twice": float(sum(one.twice for one in found)),
        "samples_twice": float(double),
        "longest_gap_seconds": max(one.gap for one in found),
    }


@dataclass(frozen=True)
class _Kept:
    """State of one exporter's answers; the collector had certainly read the `lost` ones."""

    given: int
    stored: int
    lost: int
    twice: int
    gap: float

    @classmethod
    def of(cls, site: Site, job: str, excused: Callable[[float, float], bool]) -> _Kept:
        """Compare an exporter's log with the database."""
        answers, counts = Answers.read(site.logs[job]), _stored(site, job)
        lost = answers.sure - counts.keys()
        for number in sorted(lost if not site.lost else ()):
            site.report(f"answer {number} of {job} is missing", answers.given[number])
        for number in sorted(counts.keys() - answers.given.keys()):
            site.report(f"answer {number} of {job} was never sent")
        for number, count in counts.items():
            if count != SERIES:
                what = f"answer {number} of {job} has {count} samples instead of {SERIES}"
                site.report(what, answers.given.get(number))
        gaps = [pair for pair in itertools.pairwise(answers.given.values()) if not excused(*pair)]
        for before, after in gaps:
            if after - before > _LONGEST_GAP:
                site.report(f"{job} was not scraped for {after - before:.0f} s", before)
        longest = max((after - before for before, after in gaps), default=0.0)
        return cls(len(answers.given), len(counts), len(lost), sum(n > SERIES for n in counts.values()), longest)


def _stored(site: Site, job: str) -> dict[int, int]:
    """Return the number of samples of each answer of an exporter."""
    rows = site.samples.query(
        "select value::int, count(*)::int from samples join series using (series_id) join targets using (target_id)"
        " where listener = %s and metric = 'truth' group by 1",
        job,
    )
    return {int(str(number)): int(str(count)) for number, count in rows}
