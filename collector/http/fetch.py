"""HTTP requests to targets, with limits on time, size, and memory for all targets together."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import aiohttp

from hypergauge.collector.http.access import Access, SecretUnreadable
from hypergauge.collector.http.authentication import AuthCache
from hypergauge.collector.http.resolver import Resolver
from hypergauge.core.errors import BenchError

__all__ = ["Body", "FetchFailed", "Fetcher"]

_ACCEPT = "text/plain;version=0.0.4;q=1,*/*;q=0.1"
_REDIRECTS = 10  # as in Go's client and in Prometheus
_BODIES_BYTES = 256 << 20
_NOT_TLS = b"HTTP request to an HTTPS server"  # the response of Go's servers and of ours
# OpenSSL's messages, by release, for a response without TLS.
_NO_TLS = ("wrong version number", "record layer failure", "unknown protocol", "packet length too long", "http request")
# A timeout that fires this much too late was delayed by its event loop. The request then gets this extension, for
# responses that have arrived unread.
_HELD_UP_SECONDS, _UNREAD_SECONDS = 0.05, 0.25
_LAST_LINE = re.compile(rb"# EOF\s*\Z")


class FetchFailed(BenchError):
    """A target returned no response. `reason` is one word, for counters."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)


@dataclass(slots=True)
class Body:
    """Whole response, with the times of its request and of its begin, in Unix seconds.

    Its memory counts until the end of its ``with`` block, which empties it.
    """

    data: bytes
    requested: float
    answered: float
    _give_back: Callable[[int], None]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._give_back(len(self.data))
        self.data = b""


class Fetcher:
    """HTTP client for responses; for one event loop.

    Requests accept uncompressed responses only. At one scrape a second, compression costs the exporters more than the bytes
    cost the network. It also rules out small responses that expand to large ones.

    Parameters
    ----------
    bodies_bytes
        Limit on the memory of all pending responses together.
    """

    def __init__(self, bodies_bytes: int = _BODIES_BYTES) -> None:
        self._left = self._bodies_bytes = bodies_bytes
        self._auth_cache = AuthCache()
        self._session: aiohttp.ClientSession | None = None

    @property
    def has_room(self) -> bool:
        """Return whether responses may continue to wait for the parser."""
        return self._left > self._bodies_bytes / 2

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=75, resolver=Resolver(), use_dns_cache=False)
        headers = {"Accept": _ACCEPT, "Accept-Encoding": "identity", "User-Agent": "hypergauge"}
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=headers,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),  # asyncio's timeout covers everything, credentials included
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def body(
        self, url: str, access: Access, *, limit: int, seconds: float, headers: dict[str, str] | None = None
    ) -> Body:
        """Return the response of `url`.

        Parameters
        ----------
        limit
            Limit on its size in bytes.
        seconds
            Timeout for the whole request.

        Raises
        ------
        FetchFailed
            There is no response, or an incomplete one.
        """
        chunks: list[bytes] = []
        try:
            async with asyncio.timeout(seconds) as waiting:
                with _extended_if_late(waiting):
                    return await self._body(url, access, limit, headers or {}, chunks)
        except BaseException as error:
            self._give_back(sum(map(len, chunks)))
            if isinstance(error, TimeoutError | aiohttp.ClientError | OSError | SecretUnreadable):
                raise _failed(error, seconds) from None
            raise

    async def _body(self, url: str, access: Access, limit: int, headers: dict[str, str], chunks: list[bytes]) -> Body:
        assert self._session is not None
        auth = await self._auth_cache.opened(access)
        requested = time.time()
        async with self._session.get(
            url,
            headers={**auth.headers, **headers},
            ssl=auth.context,
            server_hostname=access.tls.server_name if access.tls else None,
            allow_redirects=access.follow_redirects,
            max_redirects=_REDIRECTS,
        ) as response:
            answered = time.time()
            if response.status != 200:
                raise await _refused(response)
            if response.headers.get("Content-Encoding", "identity").lower() not in ("identity", ""):
                raise FetchFailed("encoding", "it compressed the response, which was not requested")
            data = await self._read(response, limit, chunks)
        if _is_cut(response, data):
            raise FetchFailed("cut_short", "the body has no end")
        return Body(data, requested, answered, self._give_back)

    async def _read(self, response: aiohttp.ClientResponse, limit: int, chunks: list[bytes]) -> bytes:
        if (response.content_length or 0) > limit:
            raise FetchFailed("body_size_limit", f"the body is larger than {limit} bytes")
        length = 0
        async for chunk in response.content.iter_any():
            chunks.append(chunk)
            length += len(chunk)
            self._left -= len(chunk)
            if length > limit:
                raise FetchFailed("body_size_limit", f"the body is larger than {limit} bytes")
            if self._left < 0:
                raise FetchFailed("memory", "all pending responses together are too large")
        return b"".join(chunks)

    def _give_back(self, size: int) -> None:
        self._left += size


@contextmanager
def _extended_if_late(waiting: asyncio.Timeout) -> Iterator[None]:
    """Extend a timeout briefly if its event loop was delayed."""
    loop, end = asyncio.get_running_loop(), waiting.when()
    assert end is not None

    def look() -> None:
        if loop.time() > end + _HELD_UP_SECONDS:
            waiting.reschedule(loop.time() + _UNREAD_SECONDS)

    # Among timers due together, the earlier one runs first.
    looking = loop.call_at(end - _HELD_UP_SECONDS / 10, look)
    try:
        yield
    finally:
        looking.cancel()


def _is_cut(response: aiohttp.ClientResponse, data: bytes) -> bool:
    """Return whether `data` may be incomplete, as far as HTTP leaves that open."""
    if response.content_type == "application/openmetrics-text":
        return not _LAST_LINE.search(data[-16:])
    announced = (
        "Content-Length" in response.headers or "chunked" in response.headers.get("Transfer-Encoding", "").lower()
    )
    return not announced and not data.endswith(b"\n")  # the response ended with the connection, which may have broken


def _failed(error: Exception, seconds: float) -> FetchFailed:
    """Return the error in one word and in one line, without credentials."""
    # TLS 1.3 refuses a client after the handshake, with another class of error.
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError) or "[SSL:" in str(error):
        return FetchFailed("tls", _tls_words(str(error)))
    match error:
        case TimeoutError():
            return FetchFailed("timeout", f"no complete response within {seconds:g} s")
        case SecretUnreadable():
            return FetchFailed("credentials", str(error))
        case aiohttp.TooManyRedirects():
            return FetchFailed("redirects", f"more than {_REDIRECTS} redirects")
        case aiohttp.ClientConnectorDNSError() | socket.gaierror():
            return FetchFailed("name", f"its name cannot be resolved: {error}")
        case aiohttp.ClientConnectorError():
            return FetchFailed("connect", f"no connection: {error.os_error.strerror or error}")
        case aiohttp.ClientPayloadError():
            return FetchFailed("cut_short", "the connection broke within the body")
        case aiohttp.ServerDisconnectedError() | ConnectionError() | aiohttp.ClientOSError():
            return FetchFailed("disconnected", "the connection broke before the response")
        case aiohttp.InvalidURL() | aiohttp.ClientResponseError():
            return FetchFailed("protocol", f"no HTTP response: {_first_line(error)}")
    return FetchFailed("other", type(error).__name__)


async def _refused(response: aiohttp.ClientResponse) -> FetchFailed:
    problem = f"it answered {response.status} {response.reason or ''}".rstrip()
    if response.status == 401:
        problem += ": basic_auth, or authorization, is missing or wrong"
    if response.status == 400 and response.url.scheme == "http" and _NOT_TLS in await response.content.read(200):
        return FetchFailed("tls", f"{problem}: it speaks only HTTPS (scheme: https)")
    return FetchFailed("status", problem)


def _tls_words(text: str) -> str:
    """Return a message for an error of OpenSSL, with its remedy."""
    if found := re.search(r"certificate verify failed: (.*?)\.? \(_ssl", text):
        return f"its certificate is not trusted: {found[1]}"
    if found := re.search(r"\[SSL: (?:SSLV3|TLSV1|TLSV13)_ALERT_(\w+)\]", text):
        alert = found[1].replace("_", " ").lower()
        if "certificate" in alert or alert in ("unknown ca", "handshake failure"):
            return f"it refuses our certificate (cert_file and key_file of tls_config): {alert}"
        return f"it refused TLS: {alert}"
    found = re.search(r"\[SSL(?:: (\w+))?\]", text)
    reason = (found[1] or "" if found else "").replace("_", " ").lower()
    if reason in _NO_TLS:
        return "it speaks no TLS (scheme: http)"
    return f"no TLS: {reason or text.strip().partition(chr(10))[0][:200]}"


def _first_line(error: Exception) -> str:
    text = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)
    return text.strip().partition("\n")[0][:200]
