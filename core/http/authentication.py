"""Authentication of connections and requests by a ``web.yml``, which is reloaded when it changes."""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import secrets
import ssl
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import bcrypt

from hypergauge.core.errors import BadRequest
from hypergauge.core.files.stamps import stamp_of
from hypergauge.core.http.config import WebConfig

__all__ = ["Authentication"]

# Gives an unknown user name the response time of a wrong password.
_UNKNOWN_USERS = b"$2b$10$" + b"." * 53
_LONGEST_PASSWORD = 72  # bytes; bcrypt ignores the rest

_log = logging.getLogger(__name__)


class Authentication:
    """Authentication by a ``web.yml``, which is reloaded when it or one of its files changes.

    While the files are inconsistent, for instance a new certificate and an old key, the previous ones stay in use.

    Parameters
    ----------
    path
        The file; ``None`` for plain HTTP without logins.

    Raises
    ------
    BadRequest
        The file has an error, or one of its files is unusable.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._config = WebConfig()
        self._context: ssl.SSLContext | None = None
        self._stamp: object = None
        self._logged = ""
        self._logins = _Logins()
        if path is not None:
            self._read(path)

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context of new connections, ``None`` for plain HTTP."""
        self._look()
        return self._context

    def admits(self, certificate: Mapping[str, Any] | None) -> bool:
        """Return whether a client with this certificate of ``getpeercert`` may connect; TLS has verified it."""
        wanted = self._config.tls.allowed_sans if self._config.tls is not None else frozenset()
        return not wanted or any(value in wanted for _, value in (certificate or {}).get("subjectAltName", ()))

    def knows(self, authorization: str | None) -> bool:
        """Return whether a request with this ``Authorization`` header is allowed."""
        self._look()
        return not self._config.users or self._logins.known(authorization or "", self._config.users)

    def _look(self) -> None:
        if self._path is None or self._stamps(self._path, self._config) == self._stamp:
            return
        with self._lock:
            try:
                self._read(self._path)
                message = f"{self._path} or a file that it names has changed and was read again"
            except BadRequest as error:
                message = f"{error}; the previous files stay in use"
            if message != self._logged:
                _log.warning("%s", message)
            self._logged = message

    def _read(self, path: Path) -> None:
        from hypergauge.core.http.web_file import read_web_config  # most servers have none, and pydantic takes memory

        config = read_web_config(path)
        stamp = self._stamps(path, config)  # before the load: a change in between triggers another one
        context = config.tls.context() if config.tls is not None else None
        if self._stamp is not None and (lost := set(config.missing) - set(self._config.missing)):
            raise BadRequest(f"it no longer has {' and '.join(sorted(lost))}, which takes a restart", file=path)
        self._config, self._context, self._stamp = config, context, stamp

    @staticmethod
    def _stamps(path: Path, config: WebConfig) -> object:
        return tuple(stamp_of(one) for one in (path, *(config.tls.files if config.tls is not None else ())))


class _Logins:
    """Check of names and passwords. Correct ones are cached, since a hash takes as long as hundreds of scrapes."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._right: set[bytes] = set()
        self._lock = threading.Lock()

    def known(self, authorization: str, users: Mapping[str, bytes]) -> bool:
        """Return whether a header names one of `users` with the right password."""
        if (login := _login(authorization)) is None:
            return False
        name, password = login
        hashed = users.get(name, _UNKNOWN_USERS)
        mark = hashlib.blake2b(b"\0".join((name.encode(), hashed, password)), key=self._key).digest()
        if mark in self._right:
            return True
        with self._lock:  # one at a time: clients that guess must not use all cores
            right = bcrypt.checkpw(password[:_LONGEST_PASSWORD], hashed) and name in users
        if right:
            self._right.add(mark)
        return right


def _login(authorization: str) -> tuple[str, bytes] | None:
    kind, _, encoded = authorization.partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        return (name.decode(), password) if colon else None
    except (binascii.Error, UnicodeDecodeError):
        return None
