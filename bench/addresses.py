"""Which addresses a server may listen on without being asked twice, and how those of others are shown."""

from __future__ import annotations

import ipaddress
import re

from bench.errors import BadRequest

__all__ = ["require_loopback", "without_login"]

_LOGIN = re.compile(r"(?<=://)[^/?#\s]*@")


def require_loopback(bind: str, *, insecure: bool = False) -> None:
    """Refuse an address that other hosts can reach: our servers have neither TLS nor authentication.

    Raises
    ------
    BadRequest
        `bind` is no loopback address, and `insecure` is not set.
    """
    try:
        loopback = ipaddress.ip_address(bind).is_loopback
    except ValueError:
        loopback = bind == "localhost"
    if not (loopback or insecure):
        raise BadRequest(
            f"{bind!r} may be reached from other hosts, and there is neither TLS nor authentication: "
            "bind to 127.0.0.1, or say --insecure"
        )


def without_login(text: str) -> str:
    """Return a text, such as a URL or an error about one, without the user names and passwords in its URLs."""
    return _LOGIN.sub("", text)
