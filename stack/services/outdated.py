"""Services that were started with other settings than those of the present command: their stop, or its refusal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.markup import escape

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.core.files.run_folder import RunFolder, write_atomically
from hypergauge.core.listing import counted
from hypergauge.core.services import Stack
from hypergauge.scheduler.supervision import is_running
from hypergauge.stack.services.start_settings import describe, differences, start_settings

__all__ = ["require_own_spool", "stop_outdated"]

_DATABASE = "BENCH_DSN"


def stop_outdated(stack: Stack, settings: Settings, notify: Callable[[str], None]) -> list[str]:
    """Stop the services that were started with other settings, and return their names. The caller starts them again.

    Raises
    ------
    BadRequest
        Runs or another command may need them. The message names them and the settings.
    """
    found = {name: those for name, service in stack.services().items() if (those := differences(service, settings))}
    if not found:
        return []
    names, started_with, wanted = describe(found)
    running = sum(is_running(folder) for folder in RunFolder.all(settings.runs_dir))
    if stack.shared or running:
        by = counted(running, "run") if running else "another command"
        raise BadRequest(
            f"the running {names} were started with {started_with}, and {by} may need them; this command has {wanted}: "
            f"use the same, or wait until they have ended"
        )
    notify(escape(f"The {names} were started with {started_with}; restarting them with {wanted} …"))
    collector = stack.services().get("collector")
    stack.stop_all(list(found))
    if collector is not None and "collector" in found and collector.settings is not None:
        before, now = collector.settings.get(_DATABASE, ""), start_settings("collector", settings).shown
        if before != now.get(_DATABASE, "") and _records(settings):
            write_atomically(_owner(settings), before)
    return list(found)


def require_own_spool(settings: Settings) -> None:
    """Refuse a spool whose samples were scraped for another database, which did not answer when the settings changed.

    Raises
    ------
    BadRequest
        The spool belongs to another database.
    """
    owner = _owner(settings)
    if not owner.exists():
        return
    before, now = owner.read_text(), start_settings("collector", settings).shown.get(_DATABASE, "")
    if before == now or not _records(settings):
        owner.unlink(missing_ok=True)
        return
    of = f"{_DATABASE}={before}" if before else "the embedded database"
    raise BadRequest(
        f"{settings.spool_dir} holds samples for {of}, which did not answer: `bench up` with that setting writes them, "
        f"or move the folder away to give them up"
    )


def _owner(settings: Settings) -> Path:
    return settings.stack_dir / "spool.database"


def _records(settings: Settings) -> bool:
    """Return whether the spool holds samples."""
    return any(settings.spool_dir.glob("[0-9]*.spool"))
