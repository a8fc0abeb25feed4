"""Plain text without terminal escape sequences, from files, databases and other hosts."""

from __future__ import annotations

import logging
import re

__all__ = ["PlainLines", "plain"]

# Control characters of 7 and 8 bits except tabs and line feeds, and characters that change the text direction.
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """Return a text without terminal control characters. These have no width, so the rest keeps its position."""
    return _COMMANDS.sub("", text)


class PlainLines(logging.Formatter):
    """Formatter of log lines as plain text, since some lines quote a target's response."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of `record`."""
        return plain(super().format(record))
