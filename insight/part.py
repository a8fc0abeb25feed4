"""Part of runs: a range of the time since their start, a phase, or both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from hypergauge.core import durations
from hypergauge.core.errors import BadRequest, NoData, did_you_mean
from hypergauge.sql.queries.charts.axes import phase_names
from hypergauge.sql.queries.notices import Fact
from hypergauge.sql.queries.parts import RunPart, parts_of
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection

__all__ = ["Part"]


@dataclass(frozen=True, slots=True)
class Part:
    """Part of runs.

    Attributes
    ----------
    first, last
        Range in seconds since each run's start; ``None`` for an open end.
    phase
        Name of a phase, all spans of which count; ``None`` for the whole run.
    """

    first: float | None = None
    last: float | None = None
    phase: str | None = None

    @classmethod
    def of(cls, start: str | None, end: str | None, phase: str | None) -> Part | None:
        """Return the part of ``--from``, ``--to`` and ``--phase``; ``None`` if all are missing, for whole runs.

        Raises
        ------
        BadRequest
            A text is no duration, or the range is empty.
        """
        if start is None and end is None and phase is None:
            return None
        first, last = _seconds("--from", start), _seconds("--to", end)
        if last is not None and last <= (first or 0):
            if first:
                raise BadRequest(f"--from {_text(first)} is not before --to {_text(last)}: exchange them")
            raise BadRequest("--to 0 s leaves nothing of a run: give a longer time, or leave it out")
        return cls(first, last, phase)

    @property
    def words(self) -> str:
        """Part as text: ``phase train, from 60 s to 2 min``."""
        return ", ".join(filter(None, (self.phase and f"phase {self.phase}", self._range)))

    @property
    def is_range(self) -> bool:
        """Whether it has a bound in time."""
        return self.first is not None or self.last is not None

    @property
    def _range(self) -> str:
        bounds = (("from", self.first), ("to", self.last))
        return " ".join(f"{word} {_text(bound)}" for word, bound in bounds if bound is not None)

    @property
    def fact(self) -> Fact:
        """Fact that values are those of this part."""
        return Fact("part", values={"phase": self.phase, "from_seconds": self.first, "to_seconds": self.last})

    def find(self, connection: Connection, runs: Sequence[RunInfo]) -> Mapping[str, RunPart]:
        """Return the part of each run by id; runs without it are missing.

        Raises
        ------
        BadRequest
            No run has the part; the message names the nearest that one has.
        NoData
            No run has started.
        """
        started = [run for run in runs if run.started_at is not None]
        if not started:
            raise NoData("none of the selected runs has started yet")
        ids = [run.run_id for run in started]
        if found := parts_of(connection, ids, self.first, self.last, self.phase):
            return found
        if self.phase is not None:
            self._refuse_phase(connection, ids)
        longest = max(started, key=lambda run: run.duration or 0.0)
        raise BadRequest(
            f"--from {_text(self.first or 0.0)} is after the end of all selected runs: the longest, {longest.full_label}, "
            f"took {longest.duration or 0.0:.4g} s"
        )

    def _refuse_phase(self, connection: Connection, run_ids: Sequence[str]) -> None:
        """Raise the error of a phase that no run has, or none in the range."""
        name = self.phase or ""
        whole = parts_of(connection, run_ids, None, None, name)
        if whole:
            first, last = min(one.starts[0] for one in whole.values()), max(one.ends[-1] for one in whole.values())
            raise BadRequest(
                f"phase {name!r} of the selected runs has no time {self._range}: it lasts from {first:.4g} s to {last:.4g} s"
            )
        phases = phase_names(connection, run_ids)
        hint = did_you_mean(name, phases) if phases else "s; scripts track them with `from hypergauge import track`"
        raise BadRequest(
            f"the selected runs have no phase {name!r}{hint}" if phases else f"the selected runs have no phase{hint}"
        )


def _seconds(option: str, text: str | None) -> float | None:
    try:
        return None if text is None else durations.parse(text, unit="s").total_seconds()
    except BadRequest as error:
        raise BadRequest(f"{option}: {error}") from None


def _text(seconds: float) -> str:
    return durations.words(timedelta(seconds=seconds))
