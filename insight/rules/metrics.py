"""Metrics of the rule engine's process."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

__all__ = ["RuleMetrics"]


class RuleMetrics:
    """Counters of evaluations, firings, skipped rules and errors."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.runs = Gauge("bench_rules_runs", "Running runs with rule evaluation.", registry=self.registry)
        self.evaluated = Counter("bench_rules_evaluated_runs_total", "Evaluations of runs.", registry=self.registry)
        self.seconds = Counter(
            "bench_rules_evaluation_seconds_total", "Duration of evaluations.", registry=self.registry
        )
        self.firings = Counter("bench_rules_firings_total", "New firings.", ["rule"], registry=self.registry)
        self.skipped = Counter(
            "bench_rules_skipped_total",
            "Evaluations of rules that were too slow, failed, or were paused after one of these.",
            ["rule", "reason"],
            registry=self.registry,
        )
        self.errors = Counter(
            "bench_rules_errors_total",
            "Errors of the database, of a settings file, or of the storage of highlights.",
            ["reason"],
            registry=self.registry,
        )
        self.waiting = Gauge(
            "bench_rules_runs_without_highlights",
            "Ended runs whose highlights are not stored yet.",
            registry=self.registry,
        )
        self.actions = Counter(
            "bench_rules_actions_total", "Actions by outcome.", ["action", "outcome"], registry=self.registry
        )
