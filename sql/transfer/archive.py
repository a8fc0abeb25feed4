"""Archive of a backup or capsule: a zip file with one member per table and a manifest at the end.

A zip archive carries a checksum of each member and is closed by its directory, so a damaged file and one that was cut
off both show before anything is done with them; and everybody has a program that looks inside.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import IO, Any, Literal

from hypergauge.core.errors import BadRequest, BenchError
from hypergauge.sql.schema.migrate import newest

__all__ = ["BadBackup", "Kind", "Manifest", "Table", "blocks", "opened", "writing"]

_FORMAT = 1
_MANIFEST = "manifest.json"
# What a member of a capsule may take when it is unpacked: a capsule may be anybody's, and a backup is one's own. A manifest and
# a part are read into memory; a table is not, and of spans, the largest, this is some 30 million.
_MOST_BYTES = {"manifest": 16 << 20, "part": 64 << 20, "table": 4 << 30}

# All of a database, or some runs of it.
Kind = Literal["backup", "capsule"]
_READS: dict[str, str] = {"backup": "bench db restore", "capsule": "bench import"}


class BadBackup(BadRequest):
    """The file is not a whole backup, or capsule, that this release can read."""


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
    """Manifest of a backup or capsule.

    Attributes
    ----------
    kind
        Which of the two it is.
    capsule
        A capsule's id, 32 hex digits; empty in a backup.
    parts
        How many samples each of the other members of a capsule has: those are Parquet files.
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
    sequences: Mapping[str, int] = field(default_factory=dict)
    scripts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    kind: Kind = "backup"
    capsule: str = ""
    parts: tuple[int, ...] = ()

    @property
    def members(self) -> list[str]:
        """The names of all members but its own."""
        scripts = [name for pair in self.scripts.values() for name in pair]
        return [*scripts, *(table.member for table in self.tables), *map(part_member, range(len(self.parts)))]

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
        parts = tuple(content.pop("parts", ()))
        known = {name: content[name] for name in (one.name for one in fields(cls)) if name in content}
        return cls(tables=tables, scripts=scripts, parts=parts, **known)


def part_member(number: int) -> str:
    """Return the name of a part of a capsule's samples, counted from 0."""
    return f"samples/{number:05}.parquet"


@contextlib.contextmanager
def writing(path: Path, *, replace: bool = False) -> Iterator[zipfile.ZipFile]:
    """Open a file to be written; `path` appears when it is whole. ``-`` is standard output.

    Raises
    ------
    BadRequest
        `path` is there already and not to be replaced.
    BenchError
        Another command is writing there.
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
            raise BenchError(f"another command is writing {unfinished}") from None
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
def opened(path: Path, kind: Kind = "backup") -> Iterator[tuple[zipfile.ZipFile, Manifest]]:
    """Open a backup or a capsule to be read, after every byte of it has been checked.

    Raises
    ------
    BadBackup
        It is none of ours, of the other kind, damaged, cut off, or of a newer release.
    """
    if not path.is_file():
        raise BadBackup(f"a folder, not a {kind}" if path.is_dir() else "there is no such file", file=path)
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, EOFError) as error:
        raise BadBackup(f"not a {kind}, or cut off: it has no directory at its end", file=path) from error
    with archive:
        try:
            _refuse_large(archive, kind, path)
            manifest = Manifest.read(archive)
            _refuse_unreadable(manifest, kind, path)
            if missing := set(manifest.members) - set(archive.namelist()):
                raise ValueError(f"{', '.join(sorted(missing))} is not in it")
            damaged = archive.testzip()
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise BadBackup(f"damaged: {error}", file=path) from error
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise BadBackup(f"not a whole {kind} of hypergauge: {error}", file=path) from error
        if damaged is not None:
            raise BadBackup(f"damaged: the checksum of {damaged} does not fit", file=path)
        yield archive, manifest


def _refuse_large(archive: zipfile.ZipFile, kind: Kind, path: Path) -> None:
    """Refuse a file whose members would become larger than ours are: what is unpacked of one never is more than it says."""
    for member in archive.infolist():
        name = member.filename
        most = _MOST_BYTES["manifest" if name == _MANIFEST else "part" if name.startswith("samples/") else "table"]
        if member.file_size > most and (kind == "capsule" or name == _MANIFEST):
            raise BadBackup(f"{name} would take {member.file_size >> 20} MiB, and may take {most >> 20}", file=path)


def _refuse_unreadable(manifest: Manifest, kind: Kind, path: Path) -> None:
    if manifest.kind != kind:
        raise BadBackup(f"a {manifest.kind}, not a {kind}: `{_READS[manifest.kind]}` reads it", file=path)
    if kind == "capsule" and not re.fullmatch("[0-9a-f]{32}", manifest.capsule):
        raise ValueError("it has no id")  # which keeps what is in it apart from what is here
    if manifest.schema_version > newest():
        raise BadBackup(
            f"it is of schema version {manifest.schema_version} (hypergauge {manifest.release}), "
            f"this release knows {newest()}: update hypergauge",
            file=path,
        )


def blocks(archive: zipfile.ZipFile, member: str) -> Iterator[bytes]:
    """Yield the content of a member in blocks of 1 MiB."""
    with archive.open(member) as source:
        yield from _blocks(source)


def _blocks(source: IO[bytes]) -> Iterator[bytes]:
    while block := source.read(1 << 20):
        yield block
