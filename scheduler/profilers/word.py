"""Word of a profiler with its options: ``nsys(trace=cuda,nvtx)``."""

from __future__ import annotations

from collections.abc import Mapping

from hypergauge.core.errors import BadRequest

__all__ = ["joined_word", "split_options", "split_word"]


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
        raise BadRequest(f"{word!r} is no profiler with options: write NAME(OPTION=VALUE,OPTION=VALUE), without a +")
    return name.strip(), split_options(rest[:-1], word)


def split_options(text: str, where: str) -> dict[str, str]:
    """Return the options of ``trace=cuda,nvtx``; `where` is named by errors. See `split_word`."""
    options: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = (text.strip() for text in part.partition("="))
        if equals and key and value:
            options[key] = value
        elif key and not equals and options:
            options[list(options)[-1]] += f",{key}"
        else:
            raise BadRequest(f"{where!r} has the option {part.strip()!r}, which is not OPTION=VALUE")
    return options


def joined_word(name: str, options: Mapping[str, str]) -> str:
    """Return the word of a profiler with options, as `split_word` reads it."""
    return f"{name}({','.join(f'{key}={value}' for key, value in options.items())})" if options else name
