"""Policy: timeouts, failures and retries."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hypergauge.core.errors import BadRequest

__all__ = ["FAILURES", "Policy"]

# What counts as a failure; a run that somebody stopped has not failed.
FAILURES = frozenset({"failed", "timeout"})
_MOST_RETRIES = 1000
_MOST_REPETITIONS = 10_000


@dataclass(frozen=True, slots=True)
class Policy:
    """Policy of a schedule.

    Attributes
    ----------
    timeout
        Seconds after which a run is ended, with the status ``timeout``; ``None`` for never.
    workload_timeout
        The same for all runs of a workload, counted from its first release on, its repetitions included.
    retries
        How often the failed runs of a workload are repeated.
    fail_fast
        Whether the first failure ends the other runs of the workload, and no further workload begins.
    repeat
        How often each workload is run, one after the other in turn.
    cooldown
        Seconds to wait at most before each workload until the machine is as it was before the first; ``None`` for not.
    """

    timeout: float | None = None
    workload_timeout: float | None = None
    retries: int = 0
    fail_fast: bool = False
    repeat: int = 1
    cooldown: float | None = None

    def validate(self) -> Policy:
        """Refuse what makes no sense; return the policy itself.

        Raises
        ------
        BadRequest
            A timeout is not positive, or the retries or repetitions are not a number of times.
        """
        seconds = {
            "--timeout": self.timeout,
            "--workload-timeout": self.workload_timeout,
            "--cooldown-timeout": self.cooldown,
        }
        for name, value in seconds.items():
            if value is not None and not 0 < value < math.inf:
                raise BadRequest(f"{name} is a positive number of seconds, not {value:g}")
        if not 0 <= self.retries <= _MOST_RETRIES:
            raise BadRequest(f"--retries is a number from 0 to {_MOST_RETRIES}, not {self.retries}")
        if not 1 <= self.repeat <= _MOST_REPETITIONS:
            raise BadRequest(f"--repeat is a number from 1 to {_MOST_REPETITIONS}, not {self.repeat}")
        return self

    def deadline(self, started_at: float, workload_began: float | None) -> tuple[float, str]:
        """Return when a run is to be ended, in Unix seconds, and what is said of it then.

        Parameters
        ----------
        started_at
            When the run was released.
        workload_began
            When the first run of its workload was; ``None`` where that is this one.
        """
        ends = [(math.inf, "")]
        if self.timeout is not None:
            ends.append((started_at + self.timeout, f"ran longer than {self.timeout:g} s"))
        if self.workload_timeout is not None:
            began = started_at if workload_began is None else workload_began
            ends.append((began + self.workload_timeout, f"its workload ran longer than {self.workload_timeout:g} s"))
        return min(ends)
