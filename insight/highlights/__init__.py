"""Highlights: a run in ten lines, found in its metrics alone."""

from hypergauge.insight.highlights.detection import Highlight, highlight, lines, most_telling, of_runs, remember

__all__ = ["Highlight", "highlight", "lines", "most_telling", "of_runs", "remember"]
