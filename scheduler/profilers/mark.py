"""Mark of profilers."""

__all__ = ["MARK"]

# Variable in the environment of profilers but not of the command. It distinguishes them when the run is ended.
MARK = "BENCH_PROFILERS"
