"""Tables of profiles, and of their comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.markup import escape
from rich.table import Table

from hypergauge.dashboards.terminal.fitting import Field, fitted
from hypergauge.insight.profiles import Compared, Content, Kind
from hypergauge.sql.runs.profiles import Profile, ProfileEntry

__all__ = ["comparison_table", "profile_tables", "seconds_text", "verdict"]

# Names of kernels are declarations with templates.
_LONGEST_NAME = 120
_PLURALS = {"memory": "memory", "cuda": "calls of CUDA", "system": "calls of the system", "native": "native functions"}


def profile_tables(content: Content, top: int, width: int) -> Iterator[Table]:
    """Yield a table of each kind of entries, at most `top` lines each."""
    for kind, entries in content.kinds.items():
        shown = entries[:top]
        yield fitted(
            [
                Field(_plural(kind), [_name(one.name) for one in shown], wraps=True),
                Field(">calls", [_calls(one) for one in shown], 1),
                Field(">total", [seconds_text(one.total) for one in shown], 0),
                Field(">self", [seconds_text(one.self) for one in shown]),
                Field(">share", [f"{one.share:.1%}" for one in shown]),
            ],
            width,
            title=escape(f"{content.run.full_label} {content.run.name}: {_about(content.profile)}"),
            notes=_left(len(entries), len(shown)),
        )


def comparison_table(found: Compared, kind: Kind, top: int, width: int) -> Table | None:
    """Return the table of the entries of a kind that differ, the largest difference first; ``None`` if none does."""
    here, there = found.profile.run.full_label, found.against.run.full_label
    changed = [one for one in kind.changes if one.difference]
    if not changed:
        return None
    shown = changed[:top]
    return fitted(
        [
            Field(_plural(kind.kind), [_name(one.name) for one in shown], wraps=True),
            Field(f">{here}", [seconds_text(one.seconds) for one in shown], 0),
            Field(f">{there}", [seconds_text(one.before) for one in shown], 1),
            Field(">difference", [_signed(one.difference) for one in shown]),
            Field(">share", ["" if one.share is None else f"{one.share:.0%}" for one in shown]),
        ],
        width,
        title=escape(f"self time per {found.per}, by {found.profile.profile.profiler}"),
        notes=_left(len(changed), len(shown)),
    )


def verdict(found: Compared, kind: Kind) -> str:
    """Return which entry accounts for the difference of a kind."""
    here, there = found.profile.run.full_label, found.against.run.full_label
    times = f"{seconds_text(kind.seconds)} per {found.per} in {here}, {seconds_text(kind.before)} in {there}"
    if not any(one.difference for one in kind.changes):
        return f"{times}; no {'entry' if kind.kind == 'memory' else kind.kind} differs."
    if kind.cause is None:
        return f"{times}; no single entry accounts for a difference."
    name, share = kind.cause
    return f"{times}.\n{_name(name)} accounts for {share:.0%} of the difference."


def seconds_text(seconds: float) -> str:
    """Return a time with three digits: ``1.23 s``, ``45.6 ms``, ``789 µs``."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(seconds) >= scale:
            return f"{seconds / scale:#.3g}".rstrip(".") + f" {unit}"
    return f"{seconds * 1e9:.0f} ns" if seconds else "0 s"


def _plural(kind: str) -> str:
    return _PLURALS.get(kind, f"{kind}s")


def _signed(seconds: float) -> str:
    return f"{'+' if seconds > 0 else '-'}{seconds_text(abs(seconds))}"


def _calls(entry: ProfileEntry) -> str:
    return "" if entry.calls is None else str(entry.calls)


def _name(name: str) -> str:
    return escape(name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…")


def _about(profile: Profile) -> str:
    about = f"{profile.profiler}, {seconds_text(profile.seconds)}"
    return about if profile.rate is None else f"{about} at {profile.rate:g} Hz"


def _left(all_of_them: int, shown: int) -> Sequence[str]:
    return [f"{all_of_them - shown} more: --top."] if shown < all_of_them else []
