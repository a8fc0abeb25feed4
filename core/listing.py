"""Numbers of things and long lists, as text."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["counted", "joined", "listed"]


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, such as ``1 run`` or ``2,000 samples``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(words: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first `most` words, and how many more there are: ``a, b and 3 more``."""
    more = len(words) - most
    return separator.join(words[:most]) + (f" and {more} more" if more > 0 else "")


def joined(words: Sequence[str]) -> str:
    """Return words as a part of a sentence: ``a, b and c``."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
