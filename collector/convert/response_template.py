"""Template of a target's response: of the next response, only the values need parsing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import getitem
from typing import cast

import numpy as np
import numpy.typing as npt

__all__ = ["NO_FIGURE", "ResponseTemplate"]

NO_FIGURE = -1

_part = cast("Callable[[bytes, slice], bytes]", getitem)


@dataclass(frozen=True, slots=True, eq=False)
class ResponseTemplate:
    """Beginnings of a response's lines. The next response mostly has the same ones and other values.

    Attributes
    ----------
    starts
        Of each line what stands before the figure; of a comment its sign; all of a line that is blank.
    heads
        Where that is, in each line.
    sampled, tails, refs
        The lines that have a figure, where it is in each, and whose it is.
    """

    starts: list[bytes] = field(default_factory=list)
    heads: list[slice] = field(default_factory=list)
    sampled: list[int] = field(default_factory=list)
    tails: list[slice] = field(default_factory=list)
    refs: npt.NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, np.uint32))

    @classmethod
    def of(cls, lines: list[bytes], lengths: list[int], refs: npt.NDArray[np.uint32]) -> ResponseTemplate:
        """Return that of `lines`, of which each has a known series or no figure at all."""
        heads = [_head(line, length) for line, length in zip(lines, lengths, strict=True)]
        sampled = [at for at, length in enumerate(lengths) if length != NO_FIGURE]
        tails = [slice(lengths[at], None) for at in sampled]
        return cls(list(map(_part, lines, heads)), heads, sampled, tails, refs)

    def figures(self, lines: list[bytes]) -> list[bytes] | None:
        """Return the figures of `lines`, ``None`` where these are not laid out like this."""
        if len(lines) != len(self.starts) or not lines:
            return None
        if list(map(_part, lines, self.heads)) != self.starts:
            return None
        return list(map(_part, map(lines.__getitem__, self.sampled), self.tails))


def _head(line: bytes, length: int) -> slice:
    if length != NO_FIGURE:
        return slice(length)
    # A comment may say something else each time. A blank line is to be blank, since it would begin any other.
    return slice(1) if line.startswith(b"#") else slice(None)
