"""Creation of MLflow runs in the background. If MLflow is slow, runs start without it and creation is postponed."""

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

__all__ = ["RunCreation", "RunRequest", "create_late"]

_FILE = "mlflow.json"
_TIMEOUT_SECONDS = 6.0


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Request to create an MLflow run. It stays in the run's folder until MLflow answers."""

    run_id: str
    experiment: str
    name: str
    params: dict[str, str]
    tags: dict[str, str]

    def write(self, folder: RunFolder) -> None:
        """Store the request in the run's folder."""
        write_atomically(folder.path / _FILE, json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: RunFolder) -> RunRequest | None:
        """Return the request in a run's folder; ``None`` if there is no valid one."""
        try:
            return cls(**json.loads((folder.path / _FILE).read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError, TypeError):
            return None


class RunCreation:
    """Creation of MLflow runs in background threads.

    Attributes
    ----------
    created
        MLflow's ids of the runs created so far, by run id.
    problem
        Reason why runs were not created; ``None`` if there is none.
    """

    def __init__(self, tracking: Tracking | None, timeout: float = _TIMEOUT_SECONDS) -> None:
        self._tracking, self._timeout = tracking, timeout
        self._threads: list[threading.Thread] = []
        self.created: dict[str, str] = {}
        self.problem: str | None = None

    def create(self, requests: Sequence[RunRequest]) -> bool:
        """Create runs, and wait for them up to the time limit; return whether all are created."""
        thread = threading.Thread(target=self._work, args=(requests,), name="mlflow-run-creation", daemon=True)
        thread.start()
        self._threads.append(thread)
        thread.join(self._timeout)
        return all(request.run_id in self.created for request in requests)

    def settled(self, timeout: float = 0.0) -> bool:
        """Wait up to `timeout` seconds for creation in progress; return whether it has ended."""
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self, requests: Sequence[RunRequest]) -> None:
        assert self._tracking is not None
        if self._tracking.answers(self._timeout):
            each(self._create, requests)
        else:
            self.problem = "MLflow does not answer"

    def _create(self, request: RunRequest) -> None:
        if self._tracking is None or self.problem is not None:
            return
        try:
            self.created[request.run_id] = self._tracking.create_run(
                request.run_id, request.experiment, request.name, request.params, request.tags
            )
        except TrackingUnavailable as error:
            self.problem = str(error)


def create_late(tracking: Tracking, request: RunRequest, started_at: float) -> str:
    """Create the MLflow run of a run that began without it, at `started_at` (Unix seconds); return MLflow's id.

    An earlier attempt may have created the run without receiving the response, or without its parameters. That run is
    used and gets the parameters.

    Raises
    ------
    TrackingUnavailable
        The server does not answer, or refuses the request.
    """
    if (known := tracking.find_run(request.run_id)) is not None:
        tracking.log_params(known, request.params)
        return known
    return tracking.create_run(
        request.run_id, request.experiment, request.name, request.params, request.tags, started_at
    )
