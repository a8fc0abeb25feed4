"""The file of a backup: a zip archive of what COPY wrote, one member a table, and a manifest that ends it.

A zip archive carries a checksum of each member and is closed by its directory, so a damaged file and one that was cut
off both show before anything is done with them; and everybody has a program that looks inside.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from bench.errors import BadRequest, BenchError

__all__ = ["BadBackup", "Manifest", "Table", "blocks", "opened", "writing"]

_FORMAT = 1
_MANIFEST = "manifest.json"


class BadBackup(BadRequest):
    """The file is not a whole backup that this release can read."""


@dataclass(frozen=True, slots=True)
class Table:
    """One member: what COPY in text form gave of a relation, in the order of `columns`."""

    schema: str
    name: str
    columns: tuple[str, ...]
    rows: int

    @property
    def member(self) -> str:
        """Its name in the archive."""
        return f"{self.schema}/{self.name}.copy"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup holds.

    Attributes
    ----------
    schema_version
        Version of the schema that the tables are of.
    sequences
        By qualified name the value that was given last.
    scripts
        Members with statements that make the tables of a schema that is not ours, by schema: before the rows, and after.
    """

    release: str
    schema_version: int
    server: str
    created_at: str
    tables: tuple[Table, ...]
    sequences: Mapping[str, int]
    scripts: Mapping[str, tuple[str, str]]

    def write(self, archive: zipfile.ZipFile) -> None:
        """Write it, as the last member: what has it is whole."""
        archive.writestr(_MANIFEST, json.dumps({"format": _FORMAT, **asdict(self)}, indent=1))

    @classmethod
    def read(cls, archive: zipfile.ZipFile) -> Manifest:
        """Read it.

        Raises
        ------
        KeyError, TypeError, ValueError
            It is not there, or not one of ours.
        """
        content: dict[str, Any] = json.loads(archive.read(_MANIFEST))
        if (form := content.pop("format")) != _FORMAT:
            raise ValueError(f"its format is {form}, this release reads {_FORMAT}: update hypergauge")
        tables = tuple(Table(**{**table, "columns": tuple(table["columns"])}) for table in content.pop("tables"))
        scripts = {schema: (before, after) for schema, (before, after) in content.pop("scripts").items()}
        return cls(tables=tables, scripts=scripts, **content)


@contextlib.contextmanager
def writing(path: Path, *, replace: bool = False) -> Iterator[zipfile.ZipFile]:
    """Open a backup to be written; `path` appears when it is whole. ``-`` is standard output.

    Raises
    ------
    BadRequest
        `path` is there already and not to be replaced.
    BenchError
        Another backup is writing there.
    """
    if str(path) == "-":
        with zipfile.ZipFile(sys.stdout.buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            yield archive
        return
    if path.exists() and not replace:
        raise BadRequest("it exists already; --force replaces it", file=path)
    # One name, so that what a kill left is written over by the next.
    unfinished = path.with_name(f"{path.name}.unfinished")
    with os.fdopen(os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "w+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BenchError(f"another backup is writing {unfinished}") from None
        file.truncate(0)
        try:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                yield archive
            file.flush()
            os.fsync(file.fileno())
            unfinished.replace(path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def opened(path: Path) -> Iterator[tuple[zipfile.ZipFile, Manifest]]:
    """Open a backup to be read, after every byte of it has been checked.

    Raises
    ------
    BadBackup
        It is none of ours, damaged, cut off, or of a format that this release does not know.
    """
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, EOFError) as error:
        raise BadBackup("not a backup, or cut off: it has no directory at its end", file=path) from error
    with archive:
        try:
            manifest = Manifest.read(archive)
            scripts = [name for pair in manifest.scripts.values() for name in pair]
            wanted = {_MANIFEST, *scripts, *(table.member for table in manifest.tables)}
            if missing := wanted - set(archive.namelist()):
                raise ValueError(f"{', '.join(sorted(missing))} is not in it")
            damaged = archive.testzip()
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise BadBackup(f"damaged: {error}", file=path) from error
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise BadBackup(f"not a whole backup of hypergauge: {error}", file=path) from error
        if damaged is not None:
            raise BadBackup(f"damaged: the checksum of {damaged} does not fit", file=path)
        yield archive, manifest


def blocks(archive: zipfile.ZipFile, member: str) -> Iterator[bytes]:
    """Yield the content of a member in blocks of 1 MiB."""
    with archive.open(member) as source:
        yield from _blocks(source)


def _blocks(source: IO[bytes]) -> Iterator[bytes]:
    while block := source.read(1 << 20):
        yield block
