"""Terminal output without escape sequences from files, databases or other hosts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from hypergauge.core.plain import plain

__all__ = ["Terminal"]


class Terminal(Console):
    """Console for the output of commands.

    All text is made plain; colors are rich's own. Links are removed, since only external text has any.
    """

    def __init__(
        self,
        *,
        file: TextIO | None = None,
        stderr: bool = False,
        quiet: bool = False,
        soft_wrap: bool = False,
        width: int | None = None,
    ) -> None:
        super().__init__(
            file=file, stderr=stderr, quiet=quiet, soft_wrap=soft_wrap, width=width, highlight=False, emoji=False
        )

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of a renderable."""
        for text, style, control in super().render(renderable, options):
            if control is not None:  # rich's own: the cursor of a live display
                yield Segment(text, style, control)
            else:
                yield Segment(plain(text), style.update_link(None) if style is not None and style.link else style)
