"""Progress bar of a long operation."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from hypergauge.core.terminal import Terminal

__all__ = ["Bar"]


class Bar:
    """Bar on standard error, if it is a terminal, that counts samples or rows. Call it with the current number.

    Parameters
    ----------
    title
        Name of the operation.
    about
        Whether the total is approximate.
    unit
        What it counts.
    """

    def __init__(self, title: str, *, about: bool = False, unit: str = "samples") -> None:
        console = Terminal(stderr=True)
        self.shown = console.is_terminal
        self._about = "about " if about else ""
        self._unit = unit
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"), TimeRemainingColumn(),
            console=console, transient=True, disable=not self.shown,
        )  # fmt: skip
        self._task = self._progress.add_task(title, total=None, count="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def __call__(self, done: int, total: int | None = None) -> None:
        """Show that `done` samples are done, of `total` if known."""
        of = f" of {self._about}{total:,}" if total else ""
        self._progress.update(
            self._task, completed=done, total=max(done, total) if total else None, count=f"{done:,}{of} {self._unit}"
        )
