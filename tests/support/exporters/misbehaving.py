"""Misbehaving targets over real sockets; the path selects the fault."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Self

from tests.support.waiting import HUNG_SECONDS

Answer = Callable[["BadExporters", str, asyncio.StreamWriter], Awaitable[None]]


def ok(body: bytes, *, length: int | None = None) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(body) if length is None else length}\r\n\r\n"
    return head.encode() + body


@dataclass
class BadExporters:
    """Server whose first part of a path selects its fault; use it as a context.

    Attributes
    ----------
    served
        Times of complete responses in Unix seconds, by path.
    requests
        Number of requests, by path.
    """

    served: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    requests: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    port: int = 0

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=[started])
        self._thread.start()
        assert started.wait(HUNG_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve(started))
        self._loop.close()

    async def _serve(self, started: threading.Event) -> None:
        self._ended = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=1000)
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        await self._ended.wait()
        server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ", 2)[1].decode().partition("?")[0]
                self.requests[path] += 1
                await ANSWERS[path.split("/")[1]](self, path, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, _Ended):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()


class _Ended(Exception):
    """Request to close the connection."""


async def _good(server: BadExporters, path: str, writer: asyncio.StreamWriter) -> None:
    count = len(server.served[path])
    writer.write(ok(f"# TYPE served gauge\nserved {count}\nwork_total {count}\n".encode()))
    await writer.drain()
    server.served[path].append(time.time())


async def _hang(server: BadExporters, path: str, writer: asyncio.StreamWriter) -> None:
    await server._ended.wait()


async def _trickle(server: BadExporters, path: str, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(1)


async def _trickled_head(server: BadExporters, path: str, writer: asyncio.StreamWriter) -> None:
    for byte in itertools.cycle(b"HTTP/1.1 200 OK"):
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(1)


async def _die(server: BadExporters, path: str, writer: asyncio.StreamWriter) -> None:
    raise _Ended


async def _redirect(server: BadExporters, path: str, writer: asyncio.StreamWriter) -> None:
    writer.write(
        f"HTTP/1.1 302 Found\r\nLocation: {path}?{server.requests[path]}\r\nContent-Length: 0\r\n\r\n".encode()
    )
    await writer.drain()


async def _huge(server: BadExporters, path: str, writer: asyncio.StreamWriter) -> None:
    """100 MB of series, all different, in chunks."""
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for part in range(1600):
        lines = b"".join(b'huge{part="%d",line="%04d"} 1\n' % (part, line) for line in range(2000))
        writer.write(b"%x\r\n%s\r\n" % (len(lines), lines))
        await writer.drain()
    writer.write(b"0\r\n\r\n")


async def _large(server: BadExporters, path: str, writer: asyncio.StreamWriter) -> None:
    """20,000 series: 1 MB that takes a second to register."""
    writer.write(ok(b"".join(b'large{some="label",line="%05d"} 1\n' % line for line in range(20_000))))
    await writer.drain()
    server.served[path].append(time.time())


async def _garbage(server: BadExporters, path: str, writer: asyncio.StreamWriter) -> None:
    writer.write(ok(bytes(range(256)) * 4000))
    await writer.drain()


async def _half(server: BadExporters, path: str, writer: asyncio.StreamWriter) -> None:
    writer.write(ok(b"half 1\nhalf_too 2\n", length=4000))
    await writer.drain()
    raise _Ended


async def _half_chunked(server: BadExporters, path: str, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\nhalf 1\n\r\n")
    await writer.drain()
    await asyncio.sleep(0.05)
    raise _Ended


async def _half_unframed(server: BadExporters, path: str, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.0 200 OK\r\n\r\nhalf 1\nhalf_too 123")
    await writer.drain()
    writer.write_eof()
    await asyncio.sleep(0.05)
    raise _Ended


async def _half_openmetrics(server: BadExporters, path: str, writer: asyncio.StreamWriter) -> None:
    body = b"half 1\nhalf_too 2\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0\r\nContent-Length: %d\r\n\r\n"
    writer.write(head % len(body) + body)
    await writer.drain()


async def _compressed(server: BadExporters, path: str, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00")
    await writer.drain()


async def _not_http(server: BadExporters, path: str, writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n\r\n")
    await writer.drain()
    raise _Ended


async def _error(server: BadExporters, path: str, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 7\r\n\r\nhalf 1\n")
    await writer.drain()


async def _repeat(server: BadExporters, path: str, writer: asyncio.StreamWriter) -> None:
    count = len(server.served[path])
    writer.write(ok(f"served {count}\nserved 1000\nserved{{}} 2000\n".encode()))
    await writer.drain()
    server.served[path].append(time.time())


async def _jump(server: BadExporters, path: str, writer: asyncio.StreamWriter) -> None:
    """Lines with times of a clock that is 5 minutes ahead, correct, and 5 minutes behind."""
    count = len(server.served[path])
    shown = time.time() + (0, 300, 0, -300)[count % 4]
    writer.write(ok(f"served {count} {round(shown * 1000)}\n".encode()))
    await writer.drain()
    server.served[path].append(time.time())


ANSWERS: dict[str, Answer] = {
    "good": _good, "hang": _hang, "trickle": _trickle, "trickled_head": _trickled_head, "die": _die,
    "redirect": _redirect, "huge": _huge, "large": _large, "garbage": _garbage, "half": _half,
    "half_chunked": _half_chunked, "half_unframed": _half_unframed, "half_openmetrics": _half_openmetrics,
    "compressed": _compressed, "not_http": _not_http, "error": _error, "repeat": _repeat, "jump": _jump,
}  # fmt: skip


@contextlib.contextmanager
def black_hole() -> Iterator[int]:
    """Yield a port without answers: its queue of connections is full, so the kernel drops packets."""
    with socket.socket() as listening, contextlib.ExitStack() as held:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        port: int = listening.getsockname()[1]
        for _ in range(4):
            waiting = held.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        yield port
