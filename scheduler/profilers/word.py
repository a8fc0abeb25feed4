"""Word of a profiler with its options: ``nsys(trace=cuda,nvtx)``."""

from __future__ import annotations

from hypergauge.core.errors import BadRequest

__all__ = ["split_word"]


def split_word(word: str) -> tuple[str, dict[str, str]]:
    """Return the name and the options of a word. A part without ``=`` continues the value before it.

    Raises
    ------
    BadRequest
        The parentheses do not match, or an option has no value.
    """
    name, opened, rest = word.partition("(")
    if not opened:
        return word, {}
    if not rest.endswith(")") or "(" in rest:
        raise BadRequest(f"{word!r} is no profiler with options: write NAME(OPTION=VALUE,OPTION=VALUE)")
    options: dict[str, str] = {}
    for part in rest[:-1].split(","):
        key, equals, value = (text.strip() for text in part.partition("="))
        if equals and key and value:
            options[key] = value
        elif key and not equals and options:
            options[list(options)[-1]] += f",{key}"
        else:
            raise BadRequest(f"{word!r} has the option {part.strip()!r}, which is not OPTION=VALUE")
    return name.strip(), options
