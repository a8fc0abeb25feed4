"""``dcgmi dmon`` as a long-lived child: it watches fields through DCGM's host engine and prints them every second."""

from __future__ import annotations

import atexit
import contextlib
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence

from bench.errors import ServiceFailed
from exporters.dcgm.entities import Value
from exporters.dcgm.fields import Field
from exporters.dcgm.output import Rows

__all__ = ["Dmon", "Key"]

_DELAY_MS = 1000
# The first rows come when every field has been read once: a reading waits for them so long, and then shows what there is.
_FIRST_SECONDS = 2.0
# So long a child may take to load DCGM's modules and say something.
_START_SECONDS = 30.0
# A row that is older is none: the host engine hangs, or the entity is gone.
_STALE_SECONDS = 5.0

# An entity of DCGM: ``("GPU", 0)``, ``("GPU-I", 3)``.
Key = tuple[str, int]


class Dmon:
    """One child, from its start to its end.

    It makes a group and a field group of its own in the host engine, which drops them when the child ends; what others
    have there is left alone.

    Parameters
    ----------
    command
        ``dcgmi`` and the words before ``dmon``.
    """

    def __init__(
        self, command: Sequence[str], entities: Sequence[Key], fields: Sequence[Field], environment: Mapping[str, str]
    ) -> None:
        self.entities = frozenset(entities)
        self._rows: dict[Key, tuple[float, dict[int, Value]]] = {}
        self._said = ""
        self._ended = False
        self._started_at = time.monotonic()
        self._changed = threading.Condition()
        self._parser = Rows(fields)
        ids = ",".join(str(number) if kind == "GPU" else f"i:{number}" for kind, number in entities)
        numbers = ",".join(str(field.number) for field in fields)
        self._process = subprocess.Popen(
            [*command, "dmon", "-i", ids, "-e", numbers, "-d", str(_DELAY_MS)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            env=dict(environment),
            start_new_session=True,  # Ctrl-C is for the listener, which ends its child itself
        )
        self._thread = threading.Thread(target=self._read, name="dcgmi dmon", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    @property
    def running(self) -> bool:
        """Whether there will be more rows."""
        return self._process.poll() is None

    def latest(self) -> dict[Key, dict[int, Value]]:
        """Return the last row of each entity; just after the start this waits for it.

        Raises
        ------
        ServiceFailed
            There is none, with what the child said instead.
        """
        with self._changed:
            left = max(0.0, self._started_at + _FIRST_SECONDS - time.monotonic())
            self._changed.wait_for(lambda: self._ended or self._rows.keys() >= self.entities, left)
            now = time.monotonic()
            rows = {key: values for key, (at, values) in self._rows.items() if now - at < _STALE_SECONDS}
            starting = not self._rows and now - self._started_at < _START_SECONDS
        if self._ended:
            raise ServiceFailed(f"dcgmi dmon ended: {self._said or f'exit status {self._process.returncode}'}")
        if rows or starting:
            return rows
        raise ServiceFailed("dcgmi dmon says nothing: the host engine of DCGM does not answer")

    def close(self) -> None:
        """End the child; a second time this changes nothing."""
        atexit.unregister(self.close)
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            self._process.wait(timeout=3)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                row = self._parser.read(line)
                with self._changed:
                    if row is not None:
                        kind, number, values = row
                        self._rows[kind, number] = time.monotonic(), values
                        self._changed.notify_all()
                    elif (text := line.strip()) and not line.startswith("#") and text.upper() != "ID":
                        self._said = text
        self._process.wait()
        with self._changed:
            self._ended = True
            self._changed.notify_all()
