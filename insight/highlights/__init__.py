"""Highlights: ten lines on a run, found in its metrics."""

from hypergauge.insight.highlights.detection import Highlight, highlight, lines, most_significant, of_runs, store

__all__ = ["Highlight", "highlight", "lines", "most_significant", "of_runs", "store"]
