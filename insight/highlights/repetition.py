"""Repetition in a sequence: A B A B A B C is three times A B, and C."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from hypergauge.insight.highlights.phases import Phase

__all__ = ["Node", "Repetition", "folded", "unfolded"]

_LONGEST = 6


@dataclass(frozen=True, slots=True)
class Repetition:
    """Rounds of the same phases in the same order."""

    rounds: tuple[tuple[Node, ...], ...]

    @property
    def first(self) -> int:
        """First point."""
        return self.rounds[0][0].first

    @property
    def end(self) -> int:
        """Point after the last one."""
        return self.rounds[-1][-1].end


Node = Phase | Repetition


def folded(nodes: Sequence[Node]) -> list[Node]:
    """Return phases with repetitions folded: three rounds or more of phases, two or more of repetitions.

    Phases fold before repetitions, and the fold that saves most comes first: ten times (five times A B, then C).
    """
    nodes = list(nodes)
    while (best := max(_candidates(nodes), default=None)) is not None:
        _, _, period, start, count = best
        period, start = -period, -start
        rounds = tuple(tuple(nodes[start + at * period : start + (at + 1) * period]) for at in range(count))
        nodes[start : start + count * period] = [Repetition(rounds)]
    return nodes


def unfolded(node: Node) -> Iterator[Phase]:
    """Yield the phases of a node."""
    if isinstance(node, Phase):
        yield node
    else:
        for one in node.rounds:
            for inner in one:
                yield from unfolded(inner)


def _candidates(nodes: Sequence[Node]) -> Iterator[tuple[bool, int, int, int, int]]:
    """Yield possible folds: phases only, saved nodes, negative period and start, number of rounds."""
    symbols = [_symbol(node) for node in nodes]
    for period in range(2, min(_LONGEST, len(nodes) // 2) + 1):
        for start in range(len(nodes) - 2 * period + 1):
            pattern = symbols[start : start + period]
            count = 1
            while symbols[start + count * period : start + (count + 1) * period] == pattern:
                count += 1
            flat = all(isinstance(one, Phase) for one in nodes[start : start + period])
            if count >= (3 if flat else 2):
                yield flat, period * (count - 1), -period, -start, count


def _symbol(node: Node) -> Hashable:
    return node.kind if isinstance(node, Phase) else (len(node.rounds), *map(_symbol, node.rounds[0]))
