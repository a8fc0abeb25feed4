"""Colors of slowdowns: blue for faster, white for equal, orange for slower."""

from __future__ import annotations

import math

__all__ = ["FULL", "INK", "SCALE", "shade"]

# Okabe and Ito's blue and vermilion, distinct with any color vision.
_FASTER, _SLOWER = (0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)
# Slowdown or speedup of the full color. The blue is weaker, for legible letters on it.
FULL, _BLUE = 3.0, 0.6
# Of letters on these shades, in both themes.
INK = "#000000"
# Labels of a scale of the shades, by slowdown.
SCALE = {1 / FULL: f"{FULL:g}x faster", 1.0: "equal", FULL: f"{FULL:g}x slower"}


def shade(slowdown: float) -> str:
    """Return the color of a slowdown, such as ``#eaae7f`` for 1.7 times as long."""
    depth = min(1.0, abs(math.log(slowdown)) / math.log(FULL))
    color, depth = (_SLOWER, depth) if slowdown >= 1 else (_FASTER, depth * _BLUE)
    return "#" + "".join(f"{round(255 + (part - 255) * depth):02x}" for part in color)
