"""Rules on running and past runs."""

from hypergauge.insight.rules.rule import (
    BUILT_IN,
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
    "BUILT_IN",
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
