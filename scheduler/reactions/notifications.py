"""Notifications on rule firings, by webhook or command. Returned messages contain no secret of the settings."""

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
from hypergauge.core.system.backoff import pauses
from hypergauge.core.system.polling import readable

__all__ = ["NotificationFailed", "send"]

# A notification ends before the kill timeout of a service that was asked to stop.
_TRY_SECONDS = 3.0
_FIRST_PAUSE, _LONGEST_PAUSE, _PAUSES = 1.0, 2.0, 2.0
_COMMAND_SECONDS = 10.0
_MOST_OUTPUT = 4096
# Variables that a command does not inherit: passwords, and markers that would make it part of a run.
_NOT_INHERITED = ("BENCH_DSN", "BENCH_READ_DSN", "BENCH_RUN_ID", "BENCH_SUPERVISOR")


class NotificationFailed(Exception):
    """The notification was not delivered."""


def send(action: Action, facts: Mapping[str, Any]) -> str:
    """Send a notification with `facts`; return its result in readable form.

    Raises
    ------
    NotificationFailed
        The notification was not delivered.
    """
    return _run(action, facts) if action.webhook is None else _post(action.webhook, facts)


def _post(url: str, facts: Mapping[str, Any]) -> str:
    request = urllib.request.Request(  # noqa: S310 - the settings allow http and https alone
        url,
        data=json.dumps(facts).encode(),
        headers={"Content-Type": "application/json", "User-Agent": "hypergauge", "Idempotency-Key": facts["id"]},
    )
    problem = ""
    for pause in (0.0, *pauses(_FIRST_PAUSE, _LONGEST_PAUSE, within=_PAUSES)):
        time.sleep(pause)
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
    """Return the kind of an error, without an address that its message may quote."""
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
        text, in_time = _until_its_end(process, output.fileno())
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # including children that it left behind
        status = process.wait()
    words = f": {text}" if text else ""
    if not in_time:
        raise NotificationFailed(f"ended after {_COMMAND_SECONDS:g} s{words}")
    if status:
        raise NotificationFailed(f"exit status {status}{words}")
    return f"exit status 0{words}"


def _until_its_end(process: subprocess.Popen[bytes], output: int) -> tuple[str, bool]:
    """Return the first `_MOST_OUTPUT` bytes of a command's output, and whether it ended in time."""
    text = bytearray()
    deadline = time.monotonic() + _COMMAND_SECONDS
    while True:
        # Once the command has ended, a child that holds the pipe open does not count.
        ended = process.poll() is not None
        is_ready = readable([output], 0.05)
        chunk = os.read(output, 65536) if is_ready else b""
        text += chunk[: _MOST_OUTPUT - len(text)]
        if ended and not chunk:
            return _printable(bytes(text)), True
        if is_ready and not chunk:
            time.sleep(0.01)
        if time.monotonic() > deadline:
            return _printable(bytes(text)), False


def _printable(text: bytes) -> str:
    return " ".join("".join(one if one.isprintable() else " " for one in text.decode(errors="replace")).split())


def _variables(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the facts as variables: ``BENCH_RULE`` for the rule, else ``BENCH_RULE_…``, as ``BENCH_RULE_EVIDENCE``."""
    return {
        "BENCH_RULE" if name == "rule" else f"BENCH_RULE_{name.upper()}": value
        if isinstance(value, str)
        else json.dumps(value)
        for name, value in facts.items()
    }
