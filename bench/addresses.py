"""How the addresses of others are shown, and which are a host's own."""

from __future__ import annotations

import ipaddress
import re

__all__ = ["is_loopback", "without_login"]

_LOGIN = re.compile(r"(?<=://)[^/?#\s]*@")


def is_loopback(host: str) -> bool:
    """Whether a name or an address is always the host's own."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def without_login(text: str) -> str:
    """Return a text, such as a URL or an error about one, without the user names and passwords in its URLs."""
    return _LOGIN.sub("", text)
