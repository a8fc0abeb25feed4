"""Long-lived child ``dcgmi dmon``, which prints fields of DCGM's host engine."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from hypergauge.core.errors import ServiceFailed
from hypergauge.exporters.dcgm.entities import Value
from hypergauge.exporters.dcgm.fields import Field
from hypergauge.exporters.dcgm.output import Rows
from hypergauge.exporters.serving.child import Child

__all__ = ["Dmon", "Key"]

# Wait for the first rows, which need every field once. Afterwards a request returns the rows so far.
_FIRST_SECONDS = 2.0
# Time for a child to load DCGM's modules and print a row.
_START_SECONDS = 30.0
# An older row is stale: the host engine hangs, or the entity was removed.
_STALE_SECONDS = 5.0

# An entity of DCGM: ``("GPU", 0)``, ``("GPU-I", 3)``.
Key = tuple[str, int]


class Dmon:
    """One child process, from its start to its end.

    It creates its own group and field group in the host engine, which drops them when the child ends.

    Parameters
    ----------
    command
        ``dcgmi`` and the arguments before ``dmon``.
    seconds
        Seconds between two rows of an entity.
    """

    def __init__(
        self,
        command: Sequence[str],
        entities: Sequence[Key],
        fields: Sequence[Field],
        environment: Mapping[str, str],
        seconds: float = 1.0,
    ) -> None:
        self.entities, self._seconds = frozenset(entities), seconds
        self._rows: dict[Key, tuple[float, dict[int, Value]]] = {}
        self._message = ""
        self._parser = Rows(fields)
        ids = ",".join(str(number) if kind == "GPU" else f"i:{number}" for kind, number in entities)
        numbers = ",".join(str(field.number) for field in fields)
        arguments = ("dmon", "-i", ids, "-e", numbers, "-d", str(round(seconds * 1000)))
        self._child = Child((*command, *arguments), self._read_line, environment, errors=True)

    @property
    def running(self) -> bool:
        """Return whether the child runs."""
        return self._child.running

    def is_outpaced(self, seconds: float) -> bool:
        """Return whether it prints at another interval than `seconds`; not before its first row."""
        return bool(self._rows) and seconds != self._seconds

    def latest(self) -> dict[Key, dict[int, Value]]:
        """Return the last row of each entity; just after the start, wait for it.

        Raises
        ------
        ServiceFailed
            There are no rows; the message is the child's.
        """
        child = self._child
        with child.changed:
            left = max(0.0, child.started_at + _FIRST_SECONDS - time.monotonic())
            child.changed.wait_for(lambda: child.failure is not None or self._rows.keys() >= self.entities, left)
            now = time.monotonic()
            rows = {key: values for key, (at, values) in self._rows.items() if now - at < _STALE_SECONDS}
            starting = not self._rows and now - child.started_at < _START_SECONDS
            if child.failure is not None:
                raise ServiceFailed(f"dcgmi dmon {child.failure}{self._message and f': {self._message}'}")
        if rows or starting:
            return rows
        raise ServiceFailed("dcgmi dmon prints nothing: DCGM's host engine does not answer")

    def close(self) -> None:
        """End the child; a second call has no effect."""
        self._child.close()

    def _read_line(self, line: str) -> None:
        if (row := self._parser.read(line)) is not None:
            kind, number, values = row
            self._rows[kind, number] = time.monotonic(), values
        elif (text := line.strip()) and not line.startswith("#") and text.upper() != "ID":
            self._message = text
