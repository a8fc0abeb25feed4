"""Numbered answers of an exporter that writes each one down: ``python -m benchmarks.campaign.answers LOG ADDRESS``.

A scraper sends its next request on a connection only after it has stored the previous answer. So all answers of a connection
except the last are stored.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["SERIES", "Answers"]

SERIES = 20
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: %d\r\n\r\n"


@dataclass(frozen=True)
class Answers:
    """Logged answers, by number.

    Attributes
    ----------
    given
        Seconds of CLOCK_BOOTTIME at which each answer was sent.
    sure
        Answers that the scraper has certainly stored.
    """

    given: dict[int, float]
    sure: frozenset[int]

    @classmethod
    def read(cls, log: Path) -> Answers:
        """Read a log."""
        given: dict[int, float] = {}
        last: dict[str, int] = {}
        for line in log.read_text().splitlines():
            connection, number, at = line.split()
            given[int(number)] = float(at)
            last[connection] = int(number)
        return cls(given, frozenset(given.keys() - last.values()))


class _Exporter(asyncio.Protocol):
    """One connection; the scraper sends only whole requests for the one page."""

    def __init__(self, log: int, connection: int, numbers: Iterator[int]) -> None:
        self._log, self._connection, self._numbers = log, connection, numbers

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if not data.endswith(b"\r\n\r\n"):
            return
        number = next(self._numbers)
        lines = ["# TYPE truth gauge", *(f'truth{{n="{n}"}} {number}' for n in range(SERIES)), ""]
        body = "\n".join(lines).encode()
        # Before sending: an answer without a log line could not be checked.
        os.write(self._log, f"{self._connection} {number} {time.clock_gettime(time.CLOCK_BOOTTIME)}\n".encode())
        self._transport.write(_HEAD % len(body) + body)


async def _serve(log: int, address: str) -> None:
    connections, numbers = itertools.count(1), itertools.count(1)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Exporter(log, next(connections), numbers), address, 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), sys.argv[2]))
