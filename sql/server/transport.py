"""Security of the connection to a server: encryption, and verification of its certificate."""

from __future__ import annotations

import ipaddress

import psycopg
from psycopg.conninfo import conninfo_to_dict

__all__ = ["transport"]

_FULL = "verify-full"
_TIMEOUT_SECONDS = 5


def transport(dsn: str) -> tuple[bool, str]:
    """Return whether the connection is secure, with a description of the connection."""
    try:
        given = conninfo_to_dict(dsn)
        with psycopg.connect(dsn, connect_timeout=_TIMEOUT_SECONDS) as connection:
            host, encrypted = connection.info.host, connection.pgconn.ssl_in_use
    except psycopg.Error as error:
        return False, str(error).strip().splitlines()[0]
    if host.startswith(("/", "@")) or _is_loopback(host):
        return True, f"on this host ({host})"
    mode = given.get("sslmode") or "prefer"
    if encrypted and mode == _FULL:
        return True, f"{host} over TLS, its certificate verified"
    how = "over TLS without verification of the certificate" if encrypted else "without TLS"
    return False, f"{host} {how} (sslmode={mode}): add sslmode={_FULL}&sslrootcert=…/ca.pem"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
