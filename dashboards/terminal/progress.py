"""Progress of a schedule: live on a terminal, one line per event elsewhere."""

from __future__ import annotations

import io
import logging
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TextIO, cast

from rich.console import Group, RenderableType
from rich.live import Live as LiveDisplay
from rich.markup import escape
from rich.spinner import Spinner
from rich.text import Text

from hypergauge.core.system.periodic import Periodic
from hypergauge.core.terminal import Terminal
from hypergauge.dashboards.terminal import formatting, tables
from hypergauge.sql.queries.summaries import Live

__all__ = ["LastingTerminal", "Progress"]


class LastingTerminal(io.TextIOBase):
    """Text stream that ignores write errors, so that a closed terminal does not end the schedule."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write `text`; ignore a closed stream."""
        try:
            return self._stream.write(text)
        except (OSError, ValueError):
            return len(text)

    def flush(self) -> None:
        """Flush the stream; ignore a closed one."""
        try:
            self._stream.flush()
        except (OSError, ValueError):
            return

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the descriptor of the stream."""
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Encoding of the stream."""
        return self._stream.encoding


@dataclass(slots=True)
class _Running:
    label: str
    name: str
    since: float


class Progress:
    """Display of starting and ending runs, and of running ones with their newest values.

    Parameters
    ----------
    quiet
        Show nothing.
    lines
        Show one line per event on a terminal too, because other output goes there.

    Attributes
    ----------
    live
        Returns the newest known values by run id. A separate thread calls it once a second.
    """

    def __init__(self, *, quiet: bool = False, lines: bool = False) -> None:
        self._lines = lines
        self.console = Terminal(file=cast("TextIO", LastingTerminal(sys.stderr)), quiet=quiet)
        self.live: Callable[[list[str]], Mapping[str, Live]] = lambda _: {}
        self._running: dict[str, _Running] = {}
        self._values: Mapping[str, Live] = {}
        self._display: LiveDisplay | None = None
        self._looks = Periodic("progress", self._look, 1.0, level=logging.INFO)

    def __enter__(self) -> Self:
        if self.console.is_terminal and not self._lines:
            self._display = LiveDisplay(
                console=self.console, get_renderable=self._render, refresh_per_second=4, transient=True
            )
            self._display.start()
            self._looks.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._looks.end(timeout=5)
        if self._display is not None:
            self._display.stop()

    def running(self) -> list[str]:
        """Return the ids of the running runs."""
        return list(self._running)

    def notify(self, text: str) -> None:
        """Print one line in rich's markup."""
        self.console.print(text, soft_wrap=True)

    def started(self, run_id: str, label: str, name: str, *, attached: bool = False) -> None:
        """Show a run that has started, or that the command has `attached` to."""
        self._running[run_id] = _Running(label, name, time.time())
        self.notify(f"[cyan]▶[/] {label} {escape(name)} {'is running; attached to it' if attached else 'started'}")

    def ended(self, run_id: str, label: str, name: str, status: str, seconds: float, message: str) -> None:
        """Show a run that has ended."""
        self._running.pop(run_id, None)
        sign = "[green]✓[/]" if status == "finished" else "[red]✗[/]"
        after = f" after {formatting.duration(seconds)}" if seconds else ""
        reason = f": {escape(message)}" if message else ""
        self.notify(f"{sign} {label} {escape(name)} {tables.status(status)}{after}{reason}")

    def _render(self) -> RenderableType:
        lines = []
        for run_id, run in list(self._running.items()):
            values = self._values.get(run_id)
            text = f" {run.label} {run.name}  {formatting.duration(time.time() - run.since)}"
            if values and values.cpu_usage is not None:
                text += f"  {values.cpu_usage:.2f} cores"
            if values and values.memory_used is not None:
                text += f"  {formatting.value_text('_bytes', values.memory_used)}"
            lines.append(Spinner("dots", Text(text)))
        return Group(*lines)

    def _look(self) -> None:
        if self._running:
            self._values = self.live(list(self._running))
