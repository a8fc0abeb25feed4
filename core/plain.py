"""Plain text without terminal escape sequences, from files, databases and other hosts."""

from __future__ import annotations

import logging
import re

__all__ = ["PlainLines", "plain"]

# Control characters but for tabs and line feeds, those of eight bits too, and what has text shown in another order than it has.
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """Return a text without what a terminal takes for a command. None of it has a width, so the rest keeps its place."""
    return _COMMANDS.sub("", text)


class PlainLines(logging.Formatter):
    """Log lines as text: some quote what a target has said."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of `record`."""
        return plain(super().format(record))
