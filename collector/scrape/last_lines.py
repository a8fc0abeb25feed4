"""Last line of each series of a target, on disk, so that its counters continue after a restart of the collector.

A counter's sample covers the time since the line before, however long. A collector that is killed would lose what its
counters gained until the next start. So the converter's state is written after each record that is in the spool: values in
place, which costs a copy in memory, and names as they come. The newest record may be in the spool without its state.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hypergauge.collector.convert.exposition import Series
from hypergauge.collector.convert.rates import LastLine

__all__ = ["LastLines", "SeriesKey", "delete_old", "series_key"]

_log = logging.getLogger(__name__)

SeriesKey = tuple[str, str, tuple[tuple[str, str], ...]]
_COLUMNS = 3
# The names of a target with ever-changing series are written anew when this many times as many have come.
_GROWTH, _LEAST_NAMES = 4, 1000
# States that were not written for this long, of targets that the configuration no longer names, are deleted.
_KEPT_SECONDS = 7 * 86_400.0


class _Files(NamedTuple):
    names: Path
    values: Path


def series_key(series: Series) -> SeriesKey:
    """Return the key of a series in its target."""
    return series.metric, series.kind, series.labels


def delete_old(folder: Path) -> None:
    """Delete the states of targets that have not been scraped for a week."""
    for path in folder.glob("*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _KEPT_SECONDS:
                path.unlink()


class LastLines:
    """State of one target in two files: names by ref, and an array of time, value and residual by ref.

    Parameters
    ----------
    folder
        Folder of the states of all targets.
    key
        Key of the target.
    """

    def __init__(self, folder: Path, key: tuple[str, str, str]) -> None:
        name = hashlib.blake2b("\0".join(key).encode(errors="replace"), digest_size=16).hexdigest()
        self._files = _Files(folder / f"{name}.names", folder / f"{name}.values")
        self._new = _Files(folder / f"{name}.names.new", folder / f"{name}.values.new")
        self._life = os.urandom(8)
        self._written = 0  # names
        self._descriptors: tuple[int, int] | None = None
        self._replaced = self._failed = False

    def read(self) -> dict[SeriesKey, LastLine]:
        """Return the last lines by series; none where the files are missing or damaged."""
        try:
            values, names = self._files.values.read_bytes(), self._files.names.read_bytes()
            if values[:8] != names[:8] or len(values[8:]) % (8 * _COLUMNS):
                return {}
            rows = np.frombuffer(values, "<f8", offset=8).reshape(-1, _COLUMNS)
            lines: dict[int, SeriesKey] = {}
            for line in names[8:].split(b"\n")[:-1]:
                ref, metric, kind, labels = json.loads(line)
                lines[ref] = metric, kind, tuple((name, value) for name, value in labels)
        except (OSError, ValueError, TypeError):
            return {}
        return {
            key: LastLine(*rows[ref].tolist())
            for ref, key in lines.items()
            if ref < len(rows) and np.isfinite(rows[ref, 0])
        }

    def write(
        self, new: Mapping[int, Series], series: Sequence[Series], rows: npt.NDArray[np.float64], *, anew: bool = False
    ) -> None:
        """Write the state after a scrape.

        Parameters
        ----------
        new
            Series that got their refs since the last call.
        series
            All series by ref.
        rows
            Time, value and residual by ref, of shape ``(n, 3)``.
        anew
            Whether the refs of the calls before stand for other series now.
        """
        if self._failed:
            return
        try:
            if anew or self._descriptors is None or self._written > _GROWTH * len(series) + _LEAST_NAMES:
                self._begin()
                new = dict(enumerate(series))
            names, values = self._descriptors or (-1, -1)
            if new:
                lines = [json.dumps([ref, one.metric, one.kind, one.labels]) for ref, one in new.items()]
                os.write(names, "".join(f"{line}\n" for line in lines).encode(errors="surrogatepass"))
                self._written += len(new)
            os.pwrite(values, np.ascontiguousarray(rows, "<f8").tobytes(), 8)
            if not self._replaced:
                self._new.names.replace(self._files.names)
                self._new.values.replace(self._files.values)
                self._replaced = True
        except OSError as error:
            self._failed = True
            self.discard()
            _log.warning("%s cannot be written, counters will not continue after a kill: %s", self._files.values, error)

    def discard(self) -> None:
        """Delete the files, unless a successor for the same target has written its own."""
        self.close()
        for path in (*self._files, *self._new):
            with contextlib.suppress(OSError):
                with path.open("rb") as file:
                    is_own = file.read(8) == self._life
                if is_own:
                    path.unlink()

    def close(self) -> None:
        """Close the files; safe to call twice."""
        for descriptor in self._descriptors or ():
            os.close(descriptor)
        self._descriptors = None

    def _begin(self) -> None:
        """Open new files, which replace the present ones once they are complete."""
        self.close()
        self._files.names.parent.mkdir(mode=0o700, exist_ok=True)
        self._life, self._written, self._replaced = os.urandom(8), 0, False
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        self._descriptors = (
            os.open(self._new.names, flags | os.O_APPEND, 0o600),
            os.open(self._new.values, flags, 0o600),
        )
        for descriptor in self._descriptors:
            os.write(descriptor, self._life)
