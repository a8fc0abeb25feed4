"""Network addresses: hosts, loopback, and URLs without logins."""

from __future__ import annotations

import contextlib
import ipaddress
import re

__all__ = ["host_in", "is_loopback", "without_login"]

_AUTHORITY = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[\w.-]+))(?::[^:]*)?")
_LOGIN = re.compile(r"(?<=://)[^/?#\s]*@")


def host_in(text: str) -> str | None:
    """Return the host in an address, with or without a port, or in a URL; ``None`` if there is none."""
    authority = re.split(r"[/?#]", text.partition("://")[2] if "://" in text else text, maxsplit=1)[0].rpartition("@")[
        2
    ]
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(authority))  # IPv6 without brackets has no port
    match = _AUTHORITY.fullmatch(authority)
    return (match["six"] or match["name"]) if match else None


def is_loopback(host: str) -> bool:
    """Return whether a name or an address always means the local host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def without_login(text: str) -> str:
    """Return a text, such as a URL or an error about one, without the user names and passwords in its URLs."""
    return _LOGIN.sub("", text)
