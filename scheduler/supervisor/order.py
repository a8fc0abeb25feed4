"""Order from the scheduler to a supervisor."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from hypergauge.core.config.settings import Settings
from hypergauge.scheduler.plan.policy import Policy

__all__ = ["Order"]


@dataclass(frozen=True, slots=True)
class Order:
    """Order from the scheduler to a supervisor. The scheduler sends it through a pipe, because it may contain secrets.

    With `delivers`, the supervisor delivers the run's files, because the scheduler does not wait for the run's end.
    `experiment` is the id of the run's experiment. `stdin` is the inherited descriptor of its standard input.
    """

    words: list[str]
    directory: str
    environment: dict[str, str]
    settings: dict[str, Any]
    policy: dict[str, Any]
    workload_began: float | None
    tracking_uri: str | None
    mlflow_run_id: str | None
    profilers: str = ""
    experiment: int | None = None
    delivers: bool = False
    stdin: int | None = None

    def encode(self) -> bytes:
        """Return one line of JSON."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Order:
        """Parse one line of JSON."""
        return cls(**json.loads(line))

    def load_settings(self) -> Settings:
        """Return the settings of the scheduler that sent the order."""
        return Settings.received(self.settings)

    def deadline(self, started_at: float) -> tuple[float, str]:
        """Return the deadline of the run in Unix seconds, and the reason for the timeout."""
        return Policy(**self.policy).deadline(started_at, self.workload_began)
