"""Options of profilers by default, from ``bench.toml``."""

from __future__ import annotations

from collections.abc import Sequence

from hypergauge.core.config.bench_toml import config_file
from hypergauge.core.config.profilers import profiler_options
from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.scheduler.profilers.registry import PROFILERS
from hypergauge.scheduler.profilers.word import joined_word, split_options, split_word

__all__ = ["completed"]


def completed(words: Sequence[str]) -> tuple[str, ...]:
    """Return profilers with the options that ``bench.toml`` gives and that they leave out themselves.

    Raises
    ------
    BadRequest
        The file names an unknown profiler, or invalid options.
    """
    defaults = _defaults() if words else {}
    return tuple(joined_word(name, {**defaults.get(name, {}), **options}) for name, options in map(split_word, words))


def _defaults() -> dict[str, dict[str, str]]:
    file, found = config_file(), {}
    for name, text in profiler_options().items():
        if name not in PROFILERS:
            raise BadRequest(f"[profilers]: there is no profiler {name!r}{did_you_mean(name, PROFILERS)}", file=file)
        try:
            found[name] = split_options(text, text)
        except BadRequest as error:
            raise BadRequest(f"[profilers]: {name}: {error}", file=file) from None
        if problem := PROFILERS[name].option_problem(found[name]):
            raise BadRequest(f"[profilers]: {problem}", file=file)
    return found
