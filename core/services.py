"""Services of the local stack, each a process: exporters, collector, rules, tracking server, Grafana.

The first command that needs them starts them, and the last one stops them; ``bench up`` keeps them until
``bench down``. ``BENCH_HOME/stack`` has a file for each running service.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import psutil

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import ServiceFailed
from hypergauge.core.files import private
from hypergauge.core.files.run_folder import write_atomically
from hypergauge.core.files.shared_resource import SharedResource
from hypergauge.core.system.processes import identity, is_alive, service_environment, world_id

__all__ = ["Service", "Stack", "free_port"]

# The collector first, so that it scrapes the exporters a last time.
_STOP_FIRST = ("collector",)
_STOP_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Service:
    """Running service. `created` and `world` distinguish its process from a later one with the same pid.

    `settings` are those of its start, ready to be shown; ``None`` if an earlier version started it. `digest` covers
    their secrets too.
    """

    name: str
    pid: int
    created: float
    url: str
    health: str
    settings: Mapping[str, str] | None = None
    world: str | None = None
    digest: str = ""

    @classmethod
    def read(cls, path: Path) -> Service | None:
        """Read the known keys of a file; return ``None`` if they do not describe a service."""
        try:
            content = json.loads(path.read_text())
            return cls(**{one.name: content[one.name] for one in fields(cls) if one.name in content})
        except (OSError, ValueError, TypeError):
            return None

    @property
    def simulate(self) -> str | None:
        """Return the ``BENCH_SIMULATE`` of its start."""
        return (self.settings or {}).get("BENCH_SIMULATE")

    @property
    def here(self) -> bool:
        """Return whether its pid is valid here: not from another container or from before a restart."""
        return self.world in (None, world_id())

    @property
    def alive(self) -> bool:
        """Return whether its process runs."""
        return self.here and is_alive(self.pid, self.created)

    def answers(self, timeout: float = 2.0) -> bool:
        """Return whether it responds to a request."""
        import urllib.error  # supervisors of runs ask none
        import urllib.request

        try:
            with urllib.request.urlopen(self.health, timeout=timeout) as response:  # noqa: S310 - our own address
                return bool(response.status < 400)
        except urllib.error.HTTPError as error:
            with error:
                return error.code in (401, 403)  # authentication is required
        except (urllib.error.URLError, OSError):
            return False


class Stack:
    """Services of one ``BENCH_HOME``."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder = settings.stack_dir
        self._shared = SharedResource(self._folder)

    def recorded(self) -> dict[str, Service]:
        """Return the services that were started and not stopped, by name; some may have died."""
        found = {path.stem: Service.read(path) for path in sorted(self._folder.glob("*.service"))}
        return {name: service for name, service in found.items() if service is not None}

    def services(self) -> dict[str, Service]:
        """Return the running services, by name."""
        return {name: service for name, service in self.recorded().items() if service.alive}

    def port(self, name: str, wanted: int | None = None) -> int:
        """Return the port for a service: after a crash its last one, since clients still use it.

        Otherwise `wanted`, if it is free, or any free port.
        """
        last = self.recorded().get(name)
        if last is not None:
            _end_session(last)
            port = urlsplit(last.url).port
            if port is not None and _is_free(port):
                return port
        return wanted if wanted is not None and _is_free(wanted) else free_port()

    def lasting_port(self, name: str, notify: Callable[[str], None]) -> int:
        """Return the persistent port of a service of this home, so that links to it stay valid.

        If another program uses it, choose a new persistent port and call `notify` with a message.
        """
        path = self._folder / f"{name}.port"
        last = int(path.read_text()) if path.exists() else None
        port = self.port(name, last)
        if port != last:
            if last is not None:
                notify(
                    f"port {last} of {name} is taken by another program: it has {port} from now on, and links change"
                )
            private.make_folder(self._folder)
            write_atomically(path, str(port))
        return port

    def hold(self, ensure: Callable[[], None]) -> None:
        """Keep the services running; `ensure` starts missing ones."""
        self._shared.join(ensure)

    def exclusively(self, call: Callable[[], None]) -> None:
        """Call a function while no other command starts or stops services."""
        self._shared.exclusively(call)

    def died(self) -> list[str]:
        """Return the services that were started and not stopped, and have ended."""
        return [name for name, service in self.recorded().items() if not service.alive]

    @property
    def shared(self) -> bool:
        """Return whether other processes held the services before this one."""
        return self._shared.shared

    def release(self) -> None:
        """Release the services; the last process stops them, unless ``bench up`` keeps them."""
        self._shared.leave(self._stop_unless_kept)

    def stop_unheld(self) -> None:
        """Stop services that no process holds or keeps, after a process that held them was killed."""
        with self._shared.alone() as alone:
            if alone:
                self._stop_unless_kept()

    def _stop_unless_kept(self) -> None:
        if not self.kept:
            self.stop_all()

    @property
    def kept(self) -> bool:
        """Return whether the services run until ``bench down``."""
        return (self._folder / "kept").exists()

    def keep(self, kept: bool) -> None:
        """Set whether the services run until ``bench down``."""
        private.make_folder(self._folder)
        if kept:
            (self._folder / "kept").touch(0o600)
        else:
            (self._folder / "kept").unlink(missing_ok=True)

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        url: str,
        health: str,
        environment: Mapping[str, str],
        settings: Mapping[str, str] | None = None,
        digest: str = "",
        stdin: IO[bytes] | None = None,
    ) -> Service:
        """Start a service, without waiting for its answer; its output goes to ``BENCH_HOME/log/NAME.log``.

        `settings` and `digest` are recorded, see `Service`.
        """
        private.make_folder(self._settings.log_dir)
        with private.opened(self._settings.log_dir / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                command,
                stdin=stdin or subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=service_environment(environment),
                start_new_session=True,
                umask=private.UMASK,
            )
        created = identity(process.pid) or 0.0
        service = Service(name, process.pid, created, url, health, settings, world_id(), digest)
        write_atomically(self._folder / f"{name}.service", json.dumps(asdict(service)))
        return service

    def await_answer(self, service: Service, timeout: float) -> None:
        """Wait until a service answers.

        Raises
        ------
        ServiceFailed
            The service ended, or does not answer within `timeout` seconds. The message ends with the last lines of its
            log.
        """
        deadline = time.monotonic() + timeout
        while not service.answers():
            if not service.alive or time.monotonic() > deadline:
                log = self._settings.log_dir / f"{service.name}.log"
                tail = log.read_text(errors="replace").splitlines()[-5:]
                what = "does not answer" if service.alive else "ended"
                raise ServiceFailed("\n  ".join([f"{service.name} {what}; its log {log} ends with:", *tail]))
            time.sleep(0.1)

    def stop_all(self, names: Collection[str] | None = None) -> list[str]:
        """Stop all services, or those with the given names, and return their names; safe to call twice."""
        services = {name: one for name, one in self.recorded().items() if names is None or name in names}
        first = [service for name, service in services.items() if name in _STOP_FIRST]
        then = [service for name, service in services.items() if name not in _STOP_FIRST]
        for group in (first, then):
            for service in group:
                if service.alive:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(service.pid, signal.SIGTERM)
            for service in group:
                _await_end(service)
                _end_session(service)
                (self._folder / f"{service.name}.service").unlink(missing_ok=True)
        return list(services)


def free_port() -> int:
    """Return a free port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _await_end(service: Service) -> None:
    deadline = time.monotonic() + _STOP_SECONDS
    while service.alive:
        with contextlib.suppress(ChildProcessError):  # a child, if this process started it
            os.waitpid(service.pid, os.WNOHANG)
        if time.monotonic() > deadline:
            return
        time.sleep(0.02)


def _end_session(service: Service) -> None:
    """Kill the remaining processes in a service's session: workers that it did not end itself.

    The kernel does not reuse a pid that is the id of a session. The session therefore belongs to the service, unless
    another process has its pid.
    """
    if not service.here or identity(service.pid) not in (None, service.created):
        return
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            if os.getsid(pid) == service.pid:
                os.kill(pid, signal.SIGKILL)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
