"""Metrics of the rule engine's process."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

__all__ = ["RuleMetrics"]


class RuleMetrics:
    """Counts what was asked and found, and all that was skipped with its reason."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.runs = Gauge("bench_rules_runs", "Runs that are judged while they go on.", registry=self.registry)
        self.judged = Counter("bench_rules_judged_runs_total", "Times a run was judged.", registry=self.registry)
        self.seconds = Counter("bench_rules_judging_seconds_total", "Time that this took.", registry=self.registry)
        self.firings = Counter("bench_rules_firings_total", "Firings that are new.", ["rule"], registry=self.registry)
        self.skipped = Counter(
            "bench_rules_skipped_total",
            "Times a rule was not asked about a run, or gave no answer: slow, failed, or paused since it was one of these.",
            ["rule", "reason"],
            registry=self.registry,
        )
        self.errors = Counter(
            "bench_rules_errors_total",
            "Times the database or a settings file failed.",
            ["reason"],
            registry=self.registry,
        )
        self.actions = Counter(
            "bench_rules_actions_total", "Actions by how they went.", ["action", "outcome"], registry=self.registry
        )
