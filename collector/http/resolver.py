"""DNS resolver. A name that does not resolve delays no other."""

from __future__ import annotations

import asyncio
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

__all__ = ["Resolver"]

# A blocked lookup occupies a thread for some seconds. Threads start on demand.
_THREADS = 128
_KNOWN_SECONDS = 60.0
_FAILED_SECONDS = 15.0

_Family = socket.AddressFamily


@dataclass(slots=True)
class _Lookup:
    future: asyncio.Future[list[ResolveResult]]
    ended: float = float("inf")

    def end(self, future: asyncio.Future[list[ResolveResult]]) -> None:
        """Record the end of the lookup, and retrieve its error, if any."""
        self.ended = time.monotonic()
        if not future.cancelled():
            future.exception()


class Resolver(AbstractResolver):
    """DNS resolver with the system's rules, in threads: one lookup per name at a time, with a cache.

    aiohttp's resolver shares some six threads with everything else, and looks up a dead name again at each scrape.
    Unresponsive DNS servers of some names would delay all others.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, "resolver")
        self._lookups: dict[tuple[str, int, _Family], _Lookup] = {}
        self._known: dict[tuple[str, int, _Family], list[ResolveResult]] = {}

    async def resolve(self, host: str, port: int = 0, family: _Family = socket.AF_INET) -> list[ResolveResult]:
        """Return the addresses; the last known ones if no server answers now.

        Raises
        ------
        OSError
            There are no addresses.
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
        """Stop without waiting for lookups."""
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
