"""Results of a report in a few lines: the best runs, failures, sharing, rules, and what qualifies the values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from hypergauge.core.listing import listed
from hypergauge.dashboards.terminal.formatting import SIMULATED, value_text
from hypergauge.dashboards.terminal.notes import distinct
from hypergauge.insight.comparison.columns import ENERGY_KEY
from hypergauge.insight.comparison.entry import Entry
from hypergauge.insight.comparison.ranking import extremes
from hypergauge.insight.comparison.software import better, relevance
from hypergauge.insight.report import Report
from hypergauge.insight.sharing.collocation import advice
from hypergauge.sql.runs.selection import with_sharing

__all__ = ["Result", "results"]

# Longest lists of runs and rules, of software metrics, and of works in a line.
_MOST_NAMED, _MOST_METRICS, _MOST_WORKS = 5, 2, 3
# Notices that another line has, or that explain a metric.
_ELSEWHERE = ("ended_early", "utilization_overstates")


@dataclass(frozen=True, slots=True)
class Result:
    """Line of the results; `section` is the part of the page with the details."""

    title: str
    text: str
    section: str


def results(found: Report) -> list[Result]:
    """Return the results of a report, without those for which there is no data."""
    return [*_best(found), *_failed(found), *_sharing(found), *_rules(found), *_trust(found)]


def _best(found: Report) -> Iterator[Result]:
    runs = found.comparisons[0].entries if found.comparisons else ()
    finished = [one for one in runs if one.status == "finished"]
    # In a range of time, the run that ended first would be the fastest.
    ranged = found.part is not None and found.part.is_range
    if not ranged:
        yield from _extremes(found, finished, "duration_seconds", "Fastest", "slowest")
    # Energy with and without idle energy is not comparable, and an equal part of several runs' energy with neither.
    own = [one for one in finished if not one.energy_divided]
    if not ranged and len({one.has_idle_energy for one in own if ENERGY_KEY in one.values}) == 1:
        yield from _extremes(found, own, ENERGY_KEY, "Least GPU energy", "most")
    software = sorted({key for one in finished for key in one.software}, key=lambda key: (relevance(key), key))
    for key in software[:_MOST_METRICS]:
        if (direction := better(key)) is not None:
            words = ("Lowest", "highest") if direction < 0 else ("Highest", "lowest")
            yield from _extremes(found, finished, key, f"{words[0]} {key}", words[1], direction, "program")


def _extremes(
    found: Report,
    entries: Sequence[Entry],
    key: str,
    best: str,
    worst: str,
    direction: int = -1,
    within: Literal["work", "program"] = "work",
) -> Iterator[Result]:
    """Yield the best and the worst entry of each work or program. `direction` is 1 where more is better, -1 where less is."""
    by_work: dict[str, list[Entry]] = {}
    for entry in entries:
        by_work.setdefault(getattr(found.works[entry.runs[-1].run_id], within), []).append(entry)
    compared = sorted(by_work.values(), key=len, reverse=True)
    texts = [text for some in compared if (text := _extreme(some, key, worst, direction)) is not None]
    if texts:
        apart = f" Each compares runs of the same {within}." if len(by_work) > 1 else ""
        yield Result(best, listed(texts, _MOST_WORKS, "; ") + ("." + apart) * bool(apart), "comparison")


def _extreme(entries: Sequence[Entry], key: str, worst: str, direction: int) -> str | None:
    values = [one.value(key) for one in entries]
    first, last = extremes(values, direction, [_order(one) for one in entries])
    if not first:
        return None
    (low, high), known = (values[first[0]], values[last[0]]), sum(value is not None for value in values)
    part = f", of the {known} runs with a value" if known < len(entries) else ""
    best, most = (listed([_name(entries[at]) for at in some], _MOST_NAMED) for some in (first, last))
    return f"{best}, {value_text(key, low)} ({worst}: {most}, {value_text(key, high)}{part})"


def _order(entry: Entry) -> tuple[int, ...]:
    """Return the sort key of a run by its label; a baseline comes first in a comparison, but not among equal runs."""
    return tuple(int(number) for number in re.findall(r"\d+", entry.label))


def _failed(found: Report) -> Iterator[Result]:
    if early := [run for run in found.runs if run.ended_early]:
        named = [f"{run.full_label} {run.name}".rstrip() + f" ({run.reason or run.status})" for run in early]
        yield Result(
            "Not finished", f"{listed(named, _MOST_NAMED, '; ')}: {len(early)} of {len(found.runs)} runs", "runs"
        )


def _sharing(found: Report) -> Iterator[Result]:
    if (text := advice(found.interference)) is not None:
        yield Result("Sharing", text, "interference")


def _rules(found: Report) -> Iterator[Result]:
    fired = Counter(rule for some in found.findings.values() for rule in {one.rule for one in some})
    if fired:
        named = [f"{rule} in {count} of {len(found.runs)} runs" for rule, count in fired.most_common()]
        yield Result("Rules", listed(named, _MOST_NAMED), "rules")


def _trust(found: Report) -> Iterator[Result]:
    warnings = [one for one in distinct(found.notices) if one.severity == "warning"]
    if warnings := sorted(warnings, key=lambda one: one.code in _ELSEWHERE):
        more = f" (and {len(warnings) - 1} more)" if len(warnings) > 1 else ""
        yield Result("Read with care", warnings[0].text + more, "comparison")


def _name(entry: Entry) -> str:
    return with_sharing(f"{entry.label} {entry.name}".rstrip(), entry.runs) + SIMULATED * entry.simulated
