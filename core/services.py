"""Services of the local stack, each a process: exporters, collector, rules, tracking server, Grafana.

They belong to nobody in particular: the first command that needs them starts them, the last one that holds them stops
them, and ``bench up`` keeps them until ``bench down``. What runs is written down in ``BENCH_HOME/stack``.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import ServiceFailed
from hypergauge.core.files import private
from hypergauge.core.files.run_folder import write_atomically
from hypergauge.core.files.shared_resource import SharedResource
from hypergauge.core.system.processes import identity, is_alive, world_id

__all__ = ["Service", "Stack", "free_port"]

# In this order: the collector flushes what the exporters still say, and the tracking server's tables outlive it.
_STOP_FIRST = ("collector",)
_STOP_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Service:
    """One running service; `created` and `world` make sure that `pid` is still the same process.

    `simulate` is the ``BENCH_SIMULATE`` that it was started with.
    """

    name: str
    pid: int
    created: float
    url: str
    health: str
    simulate: str | None = None
    world: str | None = None

    @classmethod
    def read(cls, path: Path) -> Service | None:
        """Return what a file says, as far as this release knows it; ``None`` where that is no service."""
        try:
            content = json.loads(path.read_text())
            return cls(**{one.name: content[one.name] for one in fields(cls) if one.name in content})
        except (OSError, ValueError, TypeError):
            return None

    @property
    def here(self) -> bool:
        """Return whether its pid is one of this world: that of another container, or from before a restart, is anybody's."""
        return self.world in (None, world_id())

    @property
    def alive(self) -> bool:
        """Return whether its process is there."""
        return self.here and is_alive(self.pid, self.created)

    def answers(self, timeout: float = 2.0) -> bool:
        """Return whether it responds to a request."""
        try:
            with urllib.request.urlopen(self.health, timeout=timeout) as response:  # noqa: S310 - our own address
                return bool(response.status < 400)
        except urllib.error.HTTPError as error:
            with error:
                return error.code in (401, 403)  # it asks who we are
        except (urllib.error.URLError, OSError):
            return False


class Stack:
    """The services of one ``BENCH_HOME``."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder = settings.stack_dir
        self._shared = SharedResource(self._folder)

    def recorded(self) -> dict[str, Service]:
        """Return what was started and not stopped, by name; some of it may have died."""
        found = {path.stem: Service.read(path) for path in sorted(self._folder.glob("*.service"))}
        return {name: service for name, service in found.items() if service is not None}

    def services(self) -> dict[str, Service]:
        """Return what runs, by name."""
        return {name: service for name, service in self.recorded().items() if service.alive}

    def port(self, name: str, wanted: int | None = None) -> int:
        """Return the port for a service to be started: that of one that has died, since others still look there.

        Else it is the one that is `wanted`, where nobody has it, or any.
        """
        last = self.recorded().get(name)
        if last is not None:
            _end_session(last)
            port = urlsplit(last.url).port
            if port is not None and _is_free(port):
                return port
        return wanted if wanted is not None and _is_free(wanted) else free_port()

    def lasting_port(self, name: str, say: Callable[[str], None]) -> int:
        """Return the port that a service of this home has each time, so that links to it stay valid.

        Where somebody else has it now, there is another one from then on, which `say` is told.
        """
        path = self._folder / f"{name}.port"
        remembered = int(path.read_text()) if path.exists() else None
        port = self.port(name, remembered)
        if port != remembered:
            if remembered is not None:
                say(
                    f"port {remembered} of {name} is taken by another program: it has {port} from now on, and links change"
                )
            private.make_folder(self._folder)
            write_atomically(path, str(port))
        return port

    def hold(self, ensure: Callable[[], None]) -> None:
        """Keep the services from being stopped; `ensure` starts those that are missing."""
        self._shared.join(ensure)

    def exclusively(self, call: Callable[[], None]) -> None:
        """Call something while no other command starts or stops services."""
        self._shared.exclusively(call)

    def died(self) -> list[str]:
        """Return the services that were started, not stopped, and are gone."""
        return [name for name, service in self.recorded().items() if not service.alive]

    @property
    def shared(self) -> bool:
        """Return whether others held the services when this object began to."""
        return self._shared.shared

    def release(self) -> None:
        """Let go of the services; the last holder stops them, unless ``bench up`` keeps them."""
        self._shared.leave(self._stop_unless_kept)

    def stop_unheld(self) -> None:
        """Stop the services where nobody holds or keeps them: whoever held them was killed."""
        with self._shared.alone() as alone:
            if alone:
                self._stop_unless_kept()

    def _stop_unless_kept(self) -> None:
        if not self.kept:
            self.stop_all()

    @property
    def kept(self) -> bool:
        """Return whether the services stay until ``bench down``."""
        return (self._folder / "kept").exists()

    def keep(self, kept: bool) -> None:
        """Say whether the services stay when nobody holds them."""
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
    ) -> Service:
        """Start a service, without waiting for it; its output goes to ``BENCH_HOME/log/NAME.log``."""
        private.make_folder(self._settings.log_dir)
        with private.opened(self._settings.log_dir / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=dict(environment),
                start_new_session=True,
                umask=private.UMASK,
            )
        created = identity(process.pid) or 0.0
        service = Service(name, process.pid, created, url, health, environment.get("BENCH_SIMULATE"), world_id())
        write_atomically(self._folder / f"{name}.service", json.dumps(asdict(service)))
        return service

    def await_answer(self, service: Service, timeout: float) -> None:
        """Wait until a service answers.

        Raises
        ------
        ServiceFailed
            It ended, or does not answer within `timeout` seconds. The message ends with the last lines of its log.
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
        """Stop all services, or those of these names, and return which; safe to call twice."""
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
    """Return a port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _await_end(service: Service) -> None:
    deadline = time.monotonic() + _STOP_SECONDS
    while service.alive:
        with contextlib.suppress(ChildProcessError):  # ours, if this process started it
            os.waitpid(service.pid, os.WNOHANG)
        if time.monotonic() > deadline:
            return
        time.sleep(0.02)


def _end_session(service: Service) -> None:
    """End what is left in the session of a service: workers that it did not end itself, or could not.

    No pid is given away while a session goes by it: so it is that of the service, unless another process has its pid.
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
