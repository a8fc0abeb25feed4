"""Callback of a framework, made of its base class and of hooks."""

from __future__ import annotations

from typing import Any

from hypergauge.client.frameworks.record import Record

__all__ = ["callback", "record_of", "remade"]


def record_of(track: Any, name: str, every: int = 100) -> Record | None:
    """Return the record of a callback of `track`; ``None`` outside a run."""
    return None if track.path is None else Record(track, track.training, track.tensors, f"track.{name}", every)


def callback(base: type, hooks: object | None, record: Record | None, name: str, options: dict[str, Any]) -> Any:
    """Return an instance of a framework's base class whose methods are the public methods of `hooks`.

    Without hooks, outside a run, it has the methods of the base class, which do nothing. A process that gets it by `pickle`
    makes one of its own.
    """
    kind = type("Hypergauge", (base,), {"__reduce__": lambda _: (remade, (name, options))})
    made = kind()
    if hooks is not None and record is not None:
        for hook in dir(hooks):
            if not hook.startswith("_"):
                setattr(made, hook, record.guard(getattr(hooks, hook)))
        record.close_with(made)
    return made


def remade(name: str, options: dict[str, Any]) -> Any:
    """Return a callback of `Track` by the name of its method."""
    import hypergauge

    return getattr(hypergauge.track, name)(**options)
