"""Commands of Slurm. No other module runs them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

from hypergauge.core.errors import BadRequest
from hypergauge.scheduler.executors.base import ExecutorAway

__all__ = ["SlurmRefused", "run_command"]

# Slurm's own commands give up after some tens of seconds when the controller does not answer.
_TIMEOUT_SECONDS = 120.0
# Their messages then, and while the controller starts or fails over.
_AWAY = (
    "Unable to contact slurm controller",
    "Socket timed out",
    "Connection refused",
    "Connection reset",
    "Connection timed out",
    "Zero Bytes were transmitted or received",
    "Transport endpoint is not connected",
    "standby mode",
    "temporarily unable",
    "Resource temporarily unavailable",
)
_NOT_CONFIGURED = ("Could not establish a configuration source", "Unable to process configuration file")


class SlurmRefused(BadRequest):
    """Slurm refuses the request."""


def run_command(*words: str, text: str | None = None, environment: Mapping[str, str] | None = None) -> str:
    """Run one of Slurm's commands and return its output; times in it are Unix seconds.

    Parameters
    ----------
    text
        Standard input.
    environment
        Variables besides those of this process.

    Raises
    ------
    ExecutorAway
        The controller does not answer.
    SlurmRefused
        Slurm refuses; the message has the reason.
    BadRequest
        Slurm is not installed or not configured on this host.
    """
    try:
        done = subprocess.run(
            words,
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_SECONDS,
            env={**os.environ, **(environment or {}), "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C.UTF-8"},
            check=False,
        )
    except FileNotFoundError as error:
        raise BadRequest(
            f"there is no {words[0]} on PATH: `--executor slurm` needs Slurm's commands on this host"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise ExecutorAway(f"{words[0]} has not answered for {_TIMEOUT_SECONDS:g} s") from error
    if done.returncode == 0:
        return done.stdout
    if done.returncode < 0:  # for example by SIGPIPE, if the controller ends during its response
        raise ExecutorAway(f"Slurm's controller does not answer: {words[0]} was killed by signal {-done.returncode}")
    lines = [_plain(line, words[0]) for line in done.stderr.splitlines() if line.strip()]
    why = next((line for line in lines if any(word in line for word in _AWAY)), None)
    if why is not None:
        raise ExecutorAway(f"Slurm's controller does not answer: {why}")
    if any(word in line for line in lines for word in _NOT_CONFIGURED):
        raise BadRequest(
            "Slurm is not configured on this host: it has neither slurm.conf nor a controller that provides it"
        )
    raise SlurmRefused("; ".join(lines) or f"{words[0]} ended with status {done.returncode}")


def _plain(line: str, program: str) -> str:
    """Return an error line without its prefixes."""
    for prefix in (f"{program}: ", "error: ", "fatal: ", "allocation failure: ", "Batch job submission failed: "):
        line = line.removeprefix(prefix)
    return line.strip()
