"""Small drawings as SVG, in the colors of a light and of a dark page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

__all__ = ["DARK", "LIGHT", "Drawing", "Theme"]

_FONT = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


@dataclass(frozen=True, slots=True)
class Theme:
    """Colors of a page.

    Attributes
    ----------
    fills
        Fills of boxes by kind, each readable behind `text`.
    """

    name: str
    text: str
    faint: str
    line: str
    fills: dict[str, str]


LIGHT = Theme(
    "light", text="#1b2330", faint="#5b6675", line="#66717f",
    fills={
        "plain": "#eef1f5", "measure": "#d8e8fb", "store": "#ddf0dc", "answer": "#fbe9cf", "run": "#ebdff8",
        "a": "#cfe3fb", "b": "#fbdcc4", "both": "#e4d3f3", "none": "#eef1f5",
    },
)  # fmt: skip
DARK = Theme(
    "dark", text="#e8ecf2", faint="#a3adba", line="#95a0ae",
    fills={
        "plain": "#2f3642", "measure": "#24436b", "store": "#29502e", "answer": "#664818", "run": "#4b3569",
        "a": "#24487a", "b": "#744320", "both": "#573a78", "none": "#2f3642",
    },
)  # fmt: skip


@dataclass(slots=True)
class Drawing:
    """Drawing of boxes, arrows and texts; positions and sizes are in pixels from the top left."""

    theme: Theme
    width: int
    height: int
    title: str
    _parts: list[str] = field(default_factory=list)

    def box(self, x: float, y: float, width: float, height: float, kind: str, *lines: str) -> None:
        """Draw a box with lines of text in its middle; the first is bold."""
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" '
            f'fill="{self.theme.fills[kind]}" stroke="{self.theme.line}" stroke-width="1"/>'
        )
        top = y + height / 2 - 9 * (len(lines) - 1)
        for index, line in enumerate(lines):
            self.text(x + width / 2, top + 18 * index + 5, line, anchor="middle", bold=index == 0, faint=index > 0)

    def text(
        self, x: float, y: float, text: str, *, anchor: str = "start", bold: bool = False, faint: bool = False
    ) -> None:
        """Draw a line of text; `y` is its base line."""
        color = self.theme.faint if faint else self.theme.text
        weight = ' font-weight="600"' if bold else ' font-size="13"' if faint else ""
        self._parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{color}"{weight}>{escape(text)}</text>'
        )

    def line(
        self, points: Sequence[tuple[float, float]], *, arrow: bool = False, dashed: bool = False, color: str = ""
    ) -> None:
        """Draw a line through points, with an arrow at its end if `arrow`."""
        way = " ".join(f"{x:g},{y:g}" for x, y in points)
        end = ' marker-end="url(#arrow)"' if arrow else ""
        dashes = ' stroke-dasharray="4 4"' if dashed else ""
        self._parts.append(
            f'<polyline points="{way}" fill="none" stroke="{color or self.theme.line}" stroke-width="1.5"{end}{dashes}/>'
        )

    def arrow(self, *points: tuple[float, float]) -> None:
        """Draw an arrow through points."""
        self.line(points, arrow=True)

    def area(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        """Fill the area between points."""
        way = " ".join(f"{x:g},{y:g}" for x, y in points)
        self._parts.append(f'<polygon points="{way}" fill="{self.theme.fills[kind]}" stroke="{self.theme.line}"/>')

    def dot(self, x: float, y: float) -> None:
        """Draw a dot."""
        self._parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="3.5" fill="{self.theme.text}"/>')

    def svg(self) -> str:
        """Return the drawing."""
        content = "\n".join(self._parts)
        return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}"
  role="img" font-family="{_FONT}" font-size="14">
<title>{escape(self.title)}</title>
<defs>
<marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
<path d="M0,0 L10,5 L0,10 z" fill="{self.theme.line}"/>
</marker>
</defs>
{content}
</svg>
"""
