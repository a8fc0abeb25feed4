"""How the addresses of others are shown."""

from __future__ import annotations

import re

__all__ = ["without_login"]

_LOGIN = re.compile(r"(?<=://)[^/?#\s]*@")


def without_login(text: str) -> str:
    """Return a text, such as a URL or an error about one, without the user names and passwords in its URLs."""
    return _LOGIN.sub("", text)
