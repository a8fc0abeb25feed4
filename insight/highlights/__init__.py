"""A run in ten lines: phases, repetitions, changes and outliers, found in what was measured alone."""

from hypergauge.insight.highlights.detection import Highlight, highlight, lines, most_telling, of_runs, remember

__all__ = ["Highlight", "highlight", "lines", "most_telling", "of_runs", "remember"]
