"""Process that serves one exporter."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.core.system.signals import stop_event
from hypergauge.exporters.serving.registry import ExporterOptions, Registry
from hypergauge.exporters.serving.server import ExporterServer
from hypergauge.stack.announcer import Announcer, announced_url

__all__ = ["serve_exporter"]


def serve_exporter(
    settings: Settings,
    name: str,
    bind: str,
    port: int,
    say: Callable[[str], None],
    *,
    own_runs: bool,
    announce: str | None,
    insecure: bool,
) -> None:
    """Serve an exporter until SIGTERM or Ctrl-C, announced in the database of ``BENCH_DSN``.

    Parameters
    ----------
    say
        Takes a line: the address.
    own_runs
        Measure the runs of this home alone, not all of the host's.
    announce
        The address at which collectors reach the exporter, by default the one that it listens on.

    Raises
    ------
    BadRequest
        There is no such exporter; `announce` is no address, or no ``BENCH_DSN`` is set for it.
    """
    if announce is not None and settings.dsn is None:
        raise BadRequest("--announce needs a database that other hosts use too: set BENCH_DSN")
    exporter = Registry.load().create(name, ExporterOptions(settings.home, settings.simulate, own_runs))
    stopped = stop_event()
    with contextlib.ExitStack() as running:
        server = ExporterServer(exporter, bind, port, web=settings.web_config, insecure=insecure)
        announced_url(server.url, announce)  # a bad address is refused before anything starts
        running.enter_context(server)
        if settings.dsn is not None and (announce or not own_runs):  # the local collector finds the stack's exporters
            running.enter_context(Announcer(settings, server, announced_url(server.url, announce)))
        say(f"listening on {server.url}")
        stopped.wait()
