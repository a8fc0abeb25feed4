"""Process that serves one exporter."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.core.system.signals import stop_event
from hypergauge.exporters.serving.registry import ExporterOptions, Registry
from hypergauge.exporters.serving.server import ExporterServer
from hypergauge.stack.services.announcer import Announcer, announced_url

__all__ = ["serve_exporter"]


def serve_exporter(
    settings: Settings,
    name: str,
    bind: str,
    port: int,
    notify: Callable[[str], None],
    *,
    own_runs: bool,
    announce: str | None,
    insecure: bool,
) -> None:
    """Serve an exporter until SIGTERM or Ctrl-C, and announce it in the database of ``BENCH_DSN``.

    Parameters
    ----------
    notify
        Receiver of the message with the address.
    own_runs
        Whether to measure only the runs of this home, not all runs of the host.
    announce
        Address at which collectors reach the exporter; by default the address that it listens on.

    Raises
    ------
    BadRequest
        The exporter does not exist, or `announce` is not an address or lacks a ``BENCH_DSN``.
    """
    if announce is not None and settings.dsn is None:
        raise BadRequest("--announce needs a database that other hosts use too: set BENCH_DSN")
    exporter = Registry.load().create(name, ExporterOptions(settings.home, settings.simulate, own_runs))
    stopped = stop_event()
    with contextlib.ExitStack() as running:
        server = ExporterServer(exporter, bind, port, web=settings.web_config, insecure=insecure)
        announced_url(server.url, announce)  # a bad address is refused before anything starts
        running.enter_context(server)
        if settings.dsn is not None and (
            announce or not own_runs
        ):  # the local collector finds the stack's own exporters
            running.enter_context(Announcer(settings, server, announced_url(server.url, announce)))
        notify(f"listening on {server.url}")
        stopped.wait()
