"""Credentials and TLS contexts of requests, from files that may change. A slow file delays its own targets only."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
import time
from dataclasses import dataclass, field, replace

from hypergauge.collector.http.access import Access, SecretUnreadable
from hypergauge.core.files.stamps import stamp_of

__all__ = ["AuthCache", "RequestAuth"]

_CREDENTIALS_SECONDS = 5.0
# Timeout for the files of one `Access`; an unreachable file server can block forever.
_LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class RequestAuth:
    """Headers and TLS context of one `Access`."""

    headers: dict[str, str] = field(default_factory=dict)
    context: ssl.SSLContext | bool = True
    stamp: tuple[object, ...] = ()


@dataclass(slots=True)
class _Known:
    """Cached result for one `Access`, and a pending one."""

    auth: RequestAuth | None = None
    looked: float = float("-inf")
    looking: asyncio.Future[RequestAuth] | None = None
    began: float = 0.0


class AuthCache:
    """Credentials and TLS contexts of each `Access`, reloaded every few seconds; for one event loop."""

    def __init__(self) -> None:
        self._known: dict[Access, _Known] = {}

    async def opened(self, access: Access) -> RequestAuth:
        """Return headers and TLS; while the files block, their last content.

        Raises
        ------
        SecretUnreadable
            A file is unusable, or it blocks and was never read.
        """
        if access.tls is None and access.credentials is None and access.username is None and access.password is None:
            return _PLAIN
        known = self._known.setdefault(access, _Known())
        if known.looking is None and time.monotonic() - known.looked >= _CREDENTIALS_SECONDS:
            known.looking, known.began = _look(known.auth or _PLAIN, access), time.monotonic()
        if (looking := known.looking) is not None:
            # Later callers wait only for the rest of the timeout, so that scrapes are not late for each target.
            await asyncio.wait([looking], timeout=max(known.began + _LOOK_SECONDS - time.monotonic(), 0))
            if looking.done():
                if known.looking is looking:
                    known.looking = None
                known.auth, known.looked = looking.result(), time.monotonic()
        if known.auth is None:
            files = " or ".join(map(str, access.files()))
            raise SecretUnreadable(f"{files} cannot be read within {_LOOK_SECONDS:g} s: its file system hangs")
        return known.auth


_PLAIN = RequestAuth()


def _look(before: RequestAuth, access: Access) -> asyncio.Future[RequestAuth]:
    """Read the files in a separate daemon thread, which does not delay the end of the process."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[RequestAuth] = loop.create_future()

    def settle(auth: RequestAuth | None, error: Exception | None) -> None:
        if future.done():
            return
        if auth is not None:
            future.set_result(auth)
        else:
            future.set_exception(error or SecretUnreadable("it cannot be read"))

    def look() -> None:
        auth, error = None, None
        try:
            auth = _read(before, access)
        except Exception as problem:  # noqa: BLE001 - raised again in the waiting request
            error = problem
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, auth, error)

    threading.Thread(target=look, name="credentials", daemon=True).start()
    return future


def _read(before: RequestAuth, access: Access) -> RequestAuth:
    auth = replace(before, headers=access.headers())
    if access.tls is None:
        return auth
    stamp = tuple(stamp_of(path) for path in access.tls.files())
    if auth.context is True or stamp != auth.stamp:
        auth = replace(auth, context=access.tls.context(), stamp=stamp)
    return auth
