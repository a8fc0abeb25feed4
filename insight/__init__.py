"""Questions put to the database: selection, comparison, data frames."""

import sys

import bench.errors  # noqa: F401 - fails inside a launched run, whose `bench` is the client alone: a run sees none of us

try:
    from insight.frames import frame, summary
except ImportError as error:
    # Python looks beside the user's script first, so that a `sql.py` there is found instead of our package.
    found = sys.modules.get("sql")
    if found is None or hasattr(found, "__path__"):
        raise
    raise ImportError(f"{found.__file__} hides hypergauge's package 'sql': rename the file") from error

__all__ = ["frame", "summary"]
