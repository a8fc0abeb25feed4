"""Questions put to the database: selection, comparison, data frames."""

import sys
from typing import TYPE_CHECKING, Any

import bench.errors  # noqa: F401 - fails inside a launched run, whose `bench` is the client alone: a run sees none of us

if TYPE_CHECKING:
    from insight.frames import frame, summary

__all__ = ["frame", "summary"]


def __getattr__(name: str) -> Any:
    """Import what is for Python when it is asked for: commands have no use for it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from insight import frames
    except ImportError as error:
        # Python looks beside the user's script first, so that a `sql.py` there is found instead of our package.
        found = sys.modules.get("sql")
        if found is None or hasattr(found, "__path__"):
            raise
        raise ImportError(f"{found.__file__} hides hypergauge's package 'sql': rename the file") from error
    return getattr(frames, name)
