"""Evidence of firings as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypergauge.core.listing import listed
from hypergauge.core.sizes import size_text

__all__ = ["evidence_text"]

# Items of a list that are shown. Rules name at most five tensors.
_MOST = 5


def evidence_text(content: Mapping[str, Any]) -> str:
    """Return the evidence of a firing as a phrase: ``share 0.97, cores 1.94``.

    Several lists of one length are the values of merged intervals, and stand together: ``(count 2, step 30) and (count 4,
    step 10)``.
    """
    merged = _merged(content)
    common = [_named(key, value) for key, value in content.items() if key not in merged and value is not None]
    found = zip(*merged.values(), strict=True)
    parts = [_phrase(dict(zip(merged, values, strict=True))) for values in found]
    together = [_joined([f"({part})" for part in parts])] if parts else []
    return ", ".join([*common, *together])


def _merged(content: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the values that differ between merged intervals, a list of the same length each."""
    lists = {key: value for key, value in content.items() if isinstance(value, list)}
    nested = [len(value) for value in lists.values() if any(isinstance(one, list) for one in value)]
    lengths = [len(value) for value in lists.values()]
    length = next((one for one in [*nested, *lengths] if one > 1 and lengths.count(one) > 1), None)
    return {key: value for key, value in lists.items() if len(value) == length}


def _phrase(content: Mapping[str, Any]) -> str:
    return ", ".join(_named(key, value) for key, value in content.items() if value is not None)


def _named(key: str, value: Any) -> str:
    return f"{key.replace('_', ' ')} {_text(key, value)}"


def _text(key: str, value: Any) -> str:
    if isinstance(value, list):
        return _joined([_text(key, one) for one in value if one is not None])
    if isinstance(value, dict):
        return _joined([f"{name} {_text(key, one)}" for name, one in value.items() if one is not None])
    if isinstance(value, int | float) and not isinstance(value, bool):
        return size_text(value) if key.endswith("_bytes") else _number(value)
    return str(value)


def _number(value: float) -> str:
    return f"{value:.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.3g}"


def _joined(words: list[str]) -> str:
    return listed(words, _MOST, " and ")
