"""Colours of slowdowns: blue for faster, white for equal, orange for slower."""

from __future__ import annotations

import math

__all__ = ["INK", "shade"]

# Okabe and Ito's blue and vermilion, distinct with any colour vision.
_FASTER, _SLOWER = (0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)
# Slowdown or speedup of the full colour. The blue is weaker, for legible letters on it.
_FULL, _BLUE = 3.0, 0.6
# Of letters on these shades, in both themes.
INK = "#000000"


def shade(slowdown: float) -> str:
    """Return the colour of a slowdown, such as ``#eaae7f`` for 1.7 times as long."""
    depth = min(1.0, abs(math.log(slowdown)) / math.log(_FULL))
    color, depth = (_SLOWER, depth) if slowdown >= 1 else (_FASTER, depth * _BLUE)
    return "#" + "".join(f"{round(255 + (part - 255) * depth):02x}" for part in color)
