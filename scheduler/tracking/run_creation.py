"""Creation of MLflow runs, without delaying ours: after a few seconds it is postponed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from hypergauge.core.errors import TrackingUnavailable
from hypergauge.core.files.run_folder import RunFolder, write_atomically
from hypergauge.scheduler.parallel import each
from hypergauge.scheduler.tracking.tracking import Tracking

__all__ = ["RunCreation", "RunRequest", "open_late"]

_FILE = "mlflow.json"
_PATIENCE_SECONDS = 6.0


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The run that MLflow is to open for ours; it stays in the run's folder until MLflow answers."""

    run_id: str
    experiment: str
    name: str
    params: dict[str, str]
    tags: dict[str, str]

    def write(self, folder: RunFolder) -> None:
        """Keep it with the run."""
        write_atomically(folder.path / _FILE, json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: RunFolder) -> RunRequest | None:
        """Return what was kept, ``None`` where nothing was asked for."""
        try:
            return cls(**json.loads((folder.path / _FILE).read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None


class RunCreation:
    """Opens runs in threads of its own.

    Attributes
    ----------
    opened
        MLflow's ids of the runs that are open by now, by ours.
    problem
        Why some are not; ``None`` where nothing is known.
    """

    def __init__(self, tracking: Tracking | None, patience: float = _PATIENCE_SECONDS) -> None:
        self._tracking, self._patience = tracking, patience
        self._threads: list[threading.Thread] = []
        self.opened: dict[str, str] = {}
        self.problem: str | None = None

    def open(self, requests: Sequence[RunRequest]) -> bool:
        """Open runs, and wait for that as long as it holds nobody up; return whether all are open."""
        thread = threading.Thread(target=self._work, args=(requests,), name="mlflow-openings", daemon=True)
        thread.start()
        self._threads.append(thread)
        thread.join(self._patience)
        return all(request.run_id in self.opened for request in requests)

    def settled(self, patience: float = 0.0) -> bool:
        """Return whether nothing is being opened any more, within `patience` (seconds)."""
        deadline = time.monotonic() + patience
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self, requests: Sequence[RunRequest]) -> None:
        assert self._tracking is not None
        if self._tracking.answers(self._patience):
            each(self._open, requests)
        else:
            self.problem = "MLflow does not answer"

    def _open(self, request: RunRequest) -> None:
        if self._tracking is None or self.problem is not None:
            return
        try:
            self.opened[request.run_id] = self._tracking.create_run(
                request.run_id, request.experiment, request.name, request.params, request.tags
            )
        except TrackingUnavailable as error:
            self.problem = str(error)


def open_late(tracking: Tracking, request: RunRequest, started_at: float) -> str:
    """Return MLflow's id of a run that could not be opened before it began, at `started_at` (Unix seconds).

    An earlier attempt may have opened it without hearing of that, or without its parameters.

    Raises
    ------
    TrackingUnavailable
        The server still does not answer, or refuses.
    """
    if (known := tracking.find_run(request.run_id)) is not None:
        tracking.log_params(known, request.params)
        return known
    return tracking.create_run(
        request.run_id, request.experiment, request.name, request.params, request.tags, started_at
    )
