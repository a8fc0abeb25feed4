"""Relay from a port to a Unix socket or another port: ``python relay.py HOST PORT SOCKET|HOST:PORT``."""

from __future__ import annotations

import asyncio
import contextlib
import sys


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _main(host: str, port: str, there: str) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if "/" in there:
            other_reader, other_writer = await asyncio.open_unix_connection(there)
        else:
            other_reader, other_writer = await asyncio.open_connection(*there.split(":"))
        await asyncio.gather(_copy(reader, other_writer), _copy(other_reader, writer))

    server = await asyncio.start_server(connected, host, int(port))
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
