"""Kernels that an earlier run found frequent, to which Nsight Compute limits itself: ``ncu(from=RUN)``."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence

from hypergauge.core.errors import BadRequest
from hypergauge.scheduler.profilers.word import split_word
from hypergauge.sql.runs.profiles import profile_entries, profiles
from hypergauge.sql.runs.selection import select_run
from hypergauge.sql.server.database import Connection

__all__ = ["SOURCE", "base_name", "frequent_kernels", "source_of", "with_kernels"]

# Option of `ncu` that names the earlier run.
SOURCE = "from"
# The kernels with the most time, until they have this share of all kernels' time.
_ENOUGH = 0.9
_MOST = 20


def source_of(words: Sequence[str]) -> str | None:
    """Return the selector of the run whose kernels `ncu` is to examine; ``None`` without one."""
    return dict(map(split_word, words)).get("ncu", {}).get(SOURCE)


def with_kernels(connection: Connection, words: Sequence[str]) -> dict[str, Mapping[str, str]]:
    """Return the options by profiler, with the names of kernels in place of the run that found them.

    Raises
    ------
    BadRequest
        There is no such run, or its profiles have no kernels.
    """
    chosen: dict[str, Mapping[str, str]] = dict(map(split_word, words))
    if (selector := chosen.get("ncu", {}).get(SOURCE)) is not None:
        names = "|".join(map(re.escape, frequent_kernels(connection, selector)))
        others = {name: value for name, value in chosen["ncu"].items() if name != SOURCE}
        chosen["ncu"] = {**others, "kernel-name": f"regex:^({names})$"}
    return chosen


def frequent_kernels(connection: Connection, selector: str) -> list[str]:
    """Return the base names of the kernels that took the most time in a run, by the profiler that recorded it whole.

    Raises
    ------
    BadRequest
        See `with_kernels`.
    """
    run = select_run(connection, selector)
    for profile in profiles(connection, [run.run_id]):
        entries = [one for one in profile_entries(connection, profile) if one.kind == "kernel"]
        if profile.profiler != "ncu" and entries:
            before = itertools.accumulate((one.share for one in entries), initial=0.0)
            enough = [one.name for one, share in zip(entries, before, strict=False) if share < _ENOUGH]
            return list(dict.fromkeys(map(base_name, enough)))[:_MOST]
    raise BadRequest(f"run {run.full_label} has no profile of kernels: profile it by nsys or torch first")


def base_name(kernel: str) -> str:
    """Return a kernel's name as `ncu` matches it: without result, namespaces, template arguments and parameters.

    >>> base_name("void at::native::reduce_kernel<(int)512, at::<unnamed>::Sum>(T3)")
    'reduce_kernel'
    """
    depth, plain = 0, []
    for character in kernel.replace("(anonymous namespace)", "").replace("<unnamed>", ""):
        if character in "(" and depth == 0:
            break
        depth += (character == "<") - (character == ">")
        if depth == 0 and character != ">":
            plain.append(character)
    return re.split(r"::|\s", "".join(plain).strip())[-1] or kernel
