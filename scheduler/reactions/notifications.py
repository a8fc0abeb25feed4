"""Notifications when a rule fires: a webhook or a command. No answer contains a secret of the settings."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from hypergauge.core.config.rule_settings import Action
from hypergauge.core.system.polling import readable

__all__ = ["NotificationFailed", "send"]

# The whole of a webhook or a command ends before a service that is told to stop is killed.
_TRIES, _TRY_SECONDS, _PAUSE_SECONDS = 3, 3.0, 0.5
_COMMAND_SECONDS = 10.0
_MOST_OUTPUT = 4096
# What a command need not know: a password, and what would make it a part of a run.
_NOT_INHERITED = ("BENCH_DSN", "BENCH_READ_DSN", "BENCH_RUN_ID", "BENCH_SUPERVISOR")


class NotificationFailed(Exception):
    """Nobody was told."""


def send(action: Action, facts: Mapping[str, Any]) -> str:
    """Tell others what `facts` say, and return how that went, in words.

    Raises
    ------
    MessageFailed
        It could not be done.
    """
    return _run(action, facts) if action.webhook is None else _post(action.webhook, facts)


def _post(url: str, facts: Mapping[str, Any]) -> str:
    request = urllib.request.Request(  # noqa: S310 - the settings allow http and https alone
        url,
        data=json.dumps(facts).encode(),
        headers={"Content-Type": "application/json", "User-Agent": "hypergauge", "Idempotency-Key": facts["id"]},
    )
    problem = ""
    for number in range(_TRIES):
        if number:
            time.sleep(_PAUSE_SECONDS * 2**number)
        try:
            with urllib.request.urlopen(request, timeout=_TRY_SECONDS) as answer:  # noqa: S310
                return f"status {answer.status}"
        except urllib.error.HTTPError as error:
            error.close()
            problem = f"status {error.code}"
            if error.code < 500 and error.code != http.HTTPStatus.TOO_MANY_REQUESTS:
                break
        except urllib.error.URLError as error:
            problem = f"no answer: {_kind(error.reason)}"
        except (OSError, http.client.HTTPException, ValueError) as error:
            problem = f"no answer: {_kind(error)}"
    raise NotificationFailed(problem)


def _kind(error: object) -> str:
    """Return what went wrong, without an address that it may quote."""
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__


def _run(action: Action, facts: Mapping[str, Any]) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED} | _variables(facts)
    try:
        process = subprocess.Popen(
            action.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=action.folder,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        raise NotificationFailed(f"it cannot be started: {error.strerror}") from error
    assert process.stdout is not None
    with process, process.stdout as output:
        said, in_time = _until_its_end(process, output.fileno())
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what it may have left behind as well
        status = process.wait()
    words = f": {said}" if said else ""
    if not in_time:
        raise NotificationFailed(f"ended after {_COMMAND_SECONDS:g} s{words}")
    if status:
        raise NotificationFailed(f"exit status {status}{words}")
    return f"exit status 0{words}"


def _until_its_end(process: subprocess.Popen[bytes], output: int) -> tuple[str, bool]:
    """Return what a command says, as far as it is kept, and whether it ended by itself in time."""
    said = bytearray()
    deadline = time.monotonic() + _COMMAND_SECONDS
    while True:
        # What a child of it holds open does not count once it has ended itself.
        ended = process.poll() is not None
        heard = readable([output], 0.05)
        chunk = os.read(output, 65536) if heard else b""
        said += chunk[: _MOST_OUTPUT - len(said)]
        if ended and not chunk:
            return _printable(bytes(said)), True
        if heard and not chunk:
            time.sleep(0.01)
        if time.monotonic() > deadline:
            return _printable(bytes(said)), False


def _printable(said: bytes) -> str:
    return " ".join("".join(one if one.isprintable() else " " for one in said.decode(errors="replace")).split())


def _variables(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the facts as variables: ``BENCH_RULE``, and ``BENCH_RULE_EVIDENCE`` and the like for the others."""
    return {
        "BENCH_RULE" if name == "rule" else f"BENCH_RULE_{name.upper()}": value
        if isinstance(value, str)
        else json.dumps(value)
        for name, value in facts.items()
    }
