"""Long lists as text."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["listed"]


def listed(words: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first `most` words, and how many more there are: ``a, b and 3 more``."""
    more = len(words) - most
    return separator.join(words[:most]) + (f" and {more} more" if more > 0 else "")
