"""Policy of a schedule: timeouts, failures and retries."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hypergauge.core.errors import BadRequest

__all__ = ["FAILURES", "Policy"]

# Statuses that count as failures; a stopped run is not a failure.
FAILURES = frozenset({"failed", "timeout"})
_MOST_RETRIES = 1000
_MOST_REPETITIONS = 10_000


@dataclass(frozen=True, slots=True)
class Policy:
    """Policy of a schedule.

    Attributes
    ----------
    timeout
        Longest duration of a run in seconds; longer runs end with the status ``timeout``. ``None`` for no limit.
    workload_timeout
        Longest duration of a workload in seconds, from its first release on and including retries; ``None`` for no
        limit.
    retries
        Largest number of retries of a workload's failed runs.
    fail_fast
        Whether the first failure ends the other runs of the workload and the schedule.
    repeat
        Number of repetitions of all workloads.
    cooldown
        Longest wait for the cooldown before each workload, in seconds; ``None`` for no cooldown.
    quiet_host
        Longest wait for a quiet host before each workload, in seconds; ``None`` for no wait.
    """

    timeout: float | None = None
    workload_timeout: float | None = None
    retries: int = 0
    fail_fast: bool = False
    repeat: int = 1
    cooldown: float | None = None
    quiet_host: float | None = None

    def validate(self) -> Policy:
        """Validate the values; return the policy itself.

        Raises
        ------
        BadRequest
            A timeout is not positive and finite, or the retries or repetitions are out of range.
        """
        seconds = {
            "--timeout": self.timeout,
            "--workload-timeout": self.workload_timeout,
            "--cooldown-timeout": self.cooldown,
            "--quiet-host-timeout": self.quiet_host,
        }
        for name, value in seconds.items():
            if value is not None and not 0 < value < math.inf:
                raise BadRequest(f"{name} must be a positive number of seconds, not {value:g}")
        if not 0 <= self.retries <= _MOST_RETRIES:
            raise BadRequest(f"--retries must be a number from 0 to {_MOST_RETRIES}, not {self.retries}")
        if not 1 <= self.repeat <= _MOST_REPETITIONS:
            raise BadRequest(f"--repeat must be a number from 1 to {_MOST_REPETITIONS}, not {self.repeat}")
        return self

    def deadline(self, started_at: float, workload_began: float | None) -> tuple[float, str]:
        """Return the deadline of a run in Unix seconds, and the reason for the timeout.

        Parameters
        ----------
        started_at
            Release of the run, in Unix seconds.
        workload_began
            Release of the workload's first run, in Unix seconds; ``None`` if this run is the first.
        """
        ends = [(math.inf, "")]
        if self.timeout is not None:
            ends.append((started_at + self.timeout, f"ran longer than {self.timeout:g} s"))
        if self.workload_timeout is not None:
            began = started_at if workload_began is None else workload_began
            ends.append((began + self.workload_timeout, f"its workload ran longer than {self.workload_timeout:g} s"))
        return min(ends)
