"""Rules on running and past runs."""

from hypergauge.insight.rules.rule import (
    PRESETS,
    Firing,
    Parameter,
    Rule,
    RuleFailed,
    Value,
    check_preset,
    evaluate,
    load,
    read,
)

__all__ = [
    "PRESETS",
    "Firing",
    "Parameter",
    "Rule",
    "RuleFailed",
    "Value",
    "check_preset",
    "evaluate",
    "load",
    "read",
]
