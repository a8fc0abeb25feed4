"""DNS resolver. A name that cannot be resolved delays no other."""

from __future__ import annotations

import asyncio
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

__all__ = ["Resolver"]

# A lookup that hangs has a thread for some seconds. They are made as they are needed.
_THREADS = 128
_KNOWN_SECONDS = 60.0
_FAILED_SECONDS = 15.0

_Family = socket.AddressFamily


@dataclass(slots=True)
class _Lookup:
    future: asyncio.Future[list[ResolveResult]]
    ended: float = float("inf")

    def end(self, future: asyncio.Future[list[ResolveResult]]) -> None:
        """Note when it ended, and that its error, if it has one, is known."""
        self.ended = time.monotonic()
        if not future.cancelled():
            future.exception()


class Resolver(AbstractResolver):
    """Looks names up by the system's own rules, in threads: each name once at a time, and not again at once.

    aiohttp's resolver shares some six threads with everything else, and asks for a dead name at each scrape anew: some
    names whose servers do not answer would hold up all others.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, "names")
        self._lookups: dict[tuple[str, int, _Family], _Lookup] = {}
        self._known: dict[tuple[str, int, _Family], list[ResolveResult]] = {}

    async def resolve(self, host: str, port: int = 0, family: _Family = socket.AF_INET) -> list[ResolveResult]:
        """Return the addresses; those that it last had, where nothing answers now.

        Raises
        ------
        OSError
            There are none.
        """
        key = host, port, family
        lookup = self._lookups.get(key)
        if lookup is not None and lookup.future.done():
            failed = lookup.future.exception() is not None
            if time.monotonic() - lookup.ended > (_FAILED_SECONDS if failed else _KNOWN_SECONDS):
                lookup = None
        if lookup is None:
            future = asyncio.get_running_loop().run_in_executor(self._threads, _lookup, host, port, family)
            lookup = self._lookups[key] = _Lookup(future)
            future.add_done_callback(lookup.end)
        if key in self._known and not lookup.future.done():
            return self._known[key]
        try:
            self._known[key] = await asyncio.shield(lookup.future)
        except OSError:
            if key not in self._known:
                raise
        return self._known[key]

    async def close(self) -> None:
        """Wait for none of the lookups."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _lookup(host: str, port: int, family: _Family) -> list[ResolveResult]:
    found = socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [
        ResolveResult(
            hostname=host,
            host=_numbers(address),
            port=int(address[1]),
            family=kind,
            proto=proto,
            flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
        )
        for kind, _, proto, _, address in found
    ]


def _numbers(address: tuple[Any, ...]) -> str:
    """Return the address as text, a link-local one with its interface."""
    return f"{address[0]}%{address[3]}" if len(address) > 3 and address[3] else str(address[0])
