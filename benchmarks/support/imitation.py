"""Many cheap exporters in one process, each on a port of its own with prepared responses.

Each answers like the exporter ``nvml`` with GPUs of its own and changing values.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence

from benchmarks.support.telemetry import Host

__all__ = ["SERIES", "imitated"]

SERIES = 50
_EXPOSITIONS = 8
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: %d\r\n\r\n"


@contextlib.contextmanager
def imitated(count: int) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Run a process that imitates `count` exporters, and yield it with their addresses, each ``host:port``."""
    words = [sys.executable, "-m", "benchmarks.support.imitation", str(count)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()


class _Exporter(asyncio.Protocol):
    """One connection of an exporter; the client sends only whole requests for the one page."""

    def __init__(self, answers: Iterator[bytes]) -> None:
        self._answers = answers

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if data.endswith(b"\r\n\r\n"):
            self._transport.write(next(self._answers))


def _expositions() -> list[bytes]:
    """Return expositions of two busy GPUs, one per second: all of the first one, and a part of the other."""
    host = Host()
    uuids = [gpu.uuid.encode() for gpu in host.gpus[:2]]
    expositions = []
    for second in range(60, 60 + _EXPOSITIONS):
        host.tick(float(second))
        lines = host.nvml().splitlines(keepends=True)
        shown = [line for uuid in uuids for line in lines if uuid in line][:SERIES]
        assert len(shown) == SERIES
        expositions.append(b"".join(line for line in lines if line.startswith(b"#") or line in shown))
    return expositions


def _answers(expositions: Sequence[bytes], number: int) -> Iterator[bytes]:
    """Return the successive answers of exporter `number`; exporters begin at different ones."""
    renamed = [one.replace(b"-5d2c-4c0e-", b"-%04x-%04x-" % (number >> 16, number & 0xFFFF)) for one in expositions]
    answers = [_HEAD % len(one) + one for one in renamed]
    return itertools.islice(itertools.cycle(answers), number % len(answers), None)


async def _serve(count: int) -> None:
    loop = asyncio.get_running_loop()
    expositions = _expositions()
    addresses = []
    for number in range(count):
        answers = _answers(expositions, number)
        server = await loop.create_server(lambda answers=answers: _Exporter(answers), "127.0.0.1", 0)  # type: ignore[misc]
        addresses.append("{}:{}".format(*server.sockets[0].getsockname()))
    print(json.dumps(addresses), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # two descriptors per exporter
    asyncio.run(_serve(int(sys.argv[1])))
