"""Selectors of experiments, workloads and runs: ``20``, ``20/1``, ``20/1/3``, ``20/1/3@1``, ``4f1c9a``."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass

from hypergauge.core.errors import BadRequest

__all__ = ["Selector", "new_run_id"]

_PATH = re.compile(r"(\d{1,9})(?:/(\d{1,9})(?:/(\d{1,9})(?:@(\d{1,9}))?)?)?")
# At least one letter: digits alone are always an experiment. Six characters: fewer are rarely unique.
_PREFIX = re.compile(r"(?=[0-9]*[a-f])[0-9a-f]{6,32}")


def new_run_id() -> str:
    """Return a random id of 32 hexadecimal digits, of which the first six, and so any that are shown, select it."""
    while not _PREFIX.fullmatch((run_id := uuid.uuid4().hex)[:6]):
        pass
    return run_id


@dataclass(frozen=True, slots=True)
class Selector:
    """Parsed selector: a path down to a run, or the prefix of a run's id (ours or MLflow's).

    `attempt` is ``None`` for the latest one.
    """

    experiment: int | None = None
    workload: int | None = None
    position: int | None = None
    attempt: int | None = None
    prefix: str | None = None

    @classmethod
    def parse(cls, text: str) -> Selector:
        """Parse `text`.

        Raises
        ------
        BadRequest
            The text has neither form.
        """
        word = text.strip().lower()
        if path := _PATH.fullmatch(word):
            numbers = [None if part is None else int(part) for part in path.groups()]
            return cls(experiment=numbers[0], workload=numbers[1], position=numbers[2], attempt=numbers[3])
        if _PREFIX.fullmatch(word):
            return cls(prefix=word)
        raise BadRequest(
            f"{text!r} selects nothing: write EXPERIMENT, EXPERIMENT/WORKLOAD, EXPERIMENT/WORKLOAD/RUN "
            "(such as 20/1/3), or 6 or more characters of a run's id"
        )

    def __str__(self) -> str:
        if self.prefix:
            return self.prefix
        path = "/".join(str(part) for part in (self.experiment, self.workload, self.position) if part is not None)
        return path if self.attempt is None else f"{path}@{self.attempt}"
