"""A run's parameters as recorded: by name, and without what looks secret."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

__all__ = ["HIDDEN", "SECRET", "named", "shown"]

HIDDEN = "***"
# What is in the name of something secret, as a regular expression.
SECRET = "passw|secret|token|api[-_]?key|credential|private[-_]?key"  # noqa: S105
_SECRET = re.compile(SECRET, re.IGNORECASE)


def named(words: Sequence[str]) -> dict[str, str]:
    """Return the parameters in `words` by name: ``--lr 0.1 --fast data`` is ``lr``, ``fast`` (true) and ``arg1``."""
    found: dict[str, str] = {}
    positional = 0
    for name, value in _pairs(words):
        if name is None:
            positional += 1
            found[f"arg{positional}"] = value or ""
        else:
            found[name.lstrip("-")] = "true" if value is None else _shown_value(name, value)
    return found


def shown(words: Sequence[str]) -> str:
    """Return a command line as it may be recorded and shown."""
    line: list[str] = []
    for name, value in _pairs(words):
        if name is None or value is None:
            line.append(name or value or "")
        else:
            line += [name, _shown_value(name, value)]
    return shlex.join(line)


def _pairs(words: Sequence[str]) -> list[tuple[str | None, str | None]]:
    """Return pairs of option and value; a flag has no value, a positional word no option."""
    pairs: list[tuple[str | None, str | None]] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        option, equals, value = word.partition("=")
        if not re.match(r"--?[A-Za-z]", word):
            # `env API_KEY=… python train.py`
            pairs.append((None, f"{option}={_shown_value(option, value)}" if equals else word))
        elif equals:
            pairs.append((option, value))
        elif rest and not re.match(r"--?[A-Za-z]", rest[0]):
            pairs.append((word, rest.pop(0)))
        else:
            pairs.append((word, None))
    return pairs


def _shown_value(name: str, value: str) -> str:
    return HIDDEN if _SECRET.search(name) else value
