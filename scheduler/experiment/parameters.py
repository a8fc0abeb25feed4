"""Parameters of a run as recorded, with secrets masked."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

__all__ = ["HIDDEN", "SECRET", "looks_secret", "named", "shown"]

HIDDEN = "***"
# Regular expression that matches inside the name of a secret.
SECRET = "pass(?:w|phrase)|secret|token(?!i[sz])|api[-_]?key|credential|private[-_]?key"  # noqa: S105
_SECRET = re.compile(SECRET, re.IGNORECASE)
# A count of tokens (`--max-tokens 4096`) is not a secret.
_COUNT, _NUMBER = re.compile(r"tokens", re.IGNORECASE), re.compile(r"[\d.,_]+([kmgb]|e\d+)?", re.IGNORECASE)
# As argparse distinguishes them: no option begins with a single hyphen and a digit (a negative number), or has a blank
# before its value (a text). Names may be of any language.
_OPTION = re.compile(r"(?:-[^\W\d]|--[^\s=-])[^\s=]*+(?:=.*|$)", re.DOTALL)


def named(words: Sequence[str]) -> dict[str, str]:
    """Return the parameters in `words` by name: ``--fast --lr 0.1 data`` gives ``fast`` (true), ``lr`` and ``arg1``."""
    found: dict[str, str] = {}
    positional = 0
    for name, _, value in _parts(words):
        if name is None:
            positional += 1
            found[f"arg{positional}"] = _shown_word(value or "")
        else:
            found[name.lstrip("-")] = "true" if value is None else _shown_value(name, value)
    return found


def shown(words: Sequence[str]) -> str:
    """Return a command line with secrets masked; without secrets it has the same words."""
    line: list[str] = []
    for name, joined, value in _parts(words):
        if name is None:
            line.append(_shown_word(value or ""))
        elif value is None:
            line.append(name)
        elif joined:
            line.append(f"{name}={_shown_value(name, value)}")
        else:
            line += [name, _shown_value(name, value)]
    return shlex.join(line)


def looks_secret(name: str) -> bool:
    """Return whether a name looks like that of a secret."""
    return _SECRET.search(name) is not None


def _parts(words: Sequence[str]) -> Iterator[tuple[str | None, bool, str | None]]:
    """Yield option, presence of an equals sign, and value; a flag has no value, a positional word no option."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        option, equals, value = word.partition("=")
        if not _OPTION.match(word):
            yield None, False, word
        elif equals:
            yield option, True, value
        elif rest and not _OPTION.match(rest[0]):
            yield word, False, rest.pop(0)
        else:
            yield word, False, None


def _shown_value(name: str, value: str) -> str:
    return HIDDEN if _is_secret(name, value) else _shown_word(value)


def _shown_word(word: str) -> str:
    """Mask the secret in an assignment, as in `env API_KEY=… python train.py` or a value of ``--env``."""
    parts = word.split("=")
    secret = next((number for number, name in enumerate(parts[:-1], 1) if _is_secret(name, parts[number])), None)
    return word if secret is None else "=".join([*parts[:secret], HIDDEN])


def _is_secret(name: str, value: str) -> bool:
    return looks_secret(name) and not (_COUNT.search(name) and _NUMBER.fullmatch(value))
