"""Answers from the database: comparison, charts, rules, data frames."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hypergauge.insight.export.frames import frame, summary, tensors

__all__ = ["frame", "summary", "tensors"]


def __getattr__(name: str) -> Any:
    """Import data frames on first use, because commands do not need them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hypergauge.insight.export import frames

    return getattr(frames, name)
