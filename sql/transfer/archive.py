"""Archive of a backup or capsule: a zip file with one member per table and a manifest at the end.

A zip archive has a checksum per member and its directory at the end. So a damaged or truncated file is detected before
use. Common tools can list and extract its members.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Literal

import msgspec

from hypergauge.core.errors import BadRequest, BenchError
from hypergauge.core.files.file_lock import try_lock
from hypergauge.sql.schema.migrate import newest

__all__ = ["BadBackup", "Kind", "Manifest", "Table", "blocks", "opened", "writing"]

_FORMAT = 2
_READABLE = (1, 2)
_MANIFEST = "manifest.json"
# Largest unpacked size of a capsule's members: a capsule may come from an untrusted source, unlike a backup. Manifest
# and parts are read into memory. Tables are not; 4 GiB hold some 30 million spans, the largest table.
_MOST_BYTES = {"manifest": 16 << 20, "part": 64 << 20, "table": 4 << 30}
_LONGEST_NAME = 100
# Compressions that we write. Others, such as LZMA, take memory as the file says.
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# Errors of `zipfile` on damaged files.
_DAMAGED = (
    zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error, OverflowError, OSError,
)  # fmt: skip

# A backup holds the whole database, a capsule some runs.
Kind = Literal["backup", "capsule"]
_READS: dict[str, str] = {"backup": "bench db restore", "capsule": "bench import"}


class BadBackup(BadRequest):
    """The file is not a whole backup, or capsule, that this release can read."""


@dataclass(frozen=True, slots=True)
class Table:
    """Member of a relation: the output of COPY in text format, in the order of `columns`."""

    schema: str
    name: str
    columns: tuple[str, ...]
    rows: int

    @property
    def member(self) -> str:
        """Name of the member in the archive."""
        return f"{self.schema}/{self.name}.copy"


@dataclass(frozen=True, slots=True)
class Manifest:
    """Manifest of a backup or capsule.

    Attributes
    ----------
    kind
        Kind of the archive.
    capsule
        Id of a capsule, 32 hex digits; empty in a backup.
    parts
        Number of samples in each Parquet member of a capsule.
    schema_version
        Schema version of the tables.
    format
        Version of the archive format. `hypergauge.sql.transfer.earlier` translates tables of earlier formats.
    sequences
        Last value of each sequence, by qualified name.
    scripts
        Members with the statements that create another schema's tables, such as MLflow's: before and after the rows.
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
    format: int = _FORMAT

    @property
    def members(self) -> list[str]:
        """Names of all members except the manifest."""
        scripts = [name for pair in self.scripts.values() for name in pair]
        return [*scripts, *(table.member for table in self.tables), *map(part_member, range(len(self.parts)))]

    def write(self, archive: zipfile.ZipFile) -> None:
        """Write the manifest as the last member: an archive with a manifest is complete."""
        archive.writestr(_MANIFEST, json.dumps(asdict(self), indent=1))

    @classmethod
    def read(cls, archive: zipfile.ZipFile) -> Manifest:
        """Read the manifest.

        Raises
        ------
        KeyError, ValueError, RecursionError
            The manifest is missing or invalid.
        """
        content = archive.read(_MANIFEST)
        if (version := msgspec.json.decode(content, type=_Version).format) not in _READABLE:
            raise ValueError(f"its format is {version}, this release reads {_FORMAT}: update hypergauge")
        return msgspec.json.decode(content, type=cls)


@dataclass(frozen=True, slots=True)
class _Version:
    """Version of a manifest's format, which all formats have."""

    format: int


def part_member(number: int) -> str:
    """Return the member name of a part of a capsule's samples, counted from 0."""
    return f"samples/{number:05}.parquet"


@contextlib.contextmanager
def writing(path: Path, *, replace: bool = False) -> Iterator[zipfile.ZipFile]:
    """Open an archive for writing; `path` appears once the file is complete. ``-`` is standard output.

    Raises
    ------
    BadRequest
        `path` exists, and `replace` is false.
    BenchError
        Another command is writing the file.
    """
    if str(path) == "-":
        with zipfile.ZipFile(sys.stdout.buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            yield archive
        return
    if path.exists() and not replace:
        raise BadRequest("it exists already; --force replaces it", file=path)
    # A fixed name, so that the next command overwrites the remains of a killed one.
    unfinished = path.with_name(f"{path.name}.unfinished")
    with os.fdopen(os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "w+b") as file:
        if not try_lock(file.fileno()):
            raise BenchError(f"another command is writing {unfinished}")
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
    """Open a backup or a capsule for reading, after a check of all its checksums.

    Raises
    ------
    BadBackup
        The file is unknown, of the other kind, damaged, truncated, or from a newer release.
    """
    if not path.is_file():
        raise BadBackup(f"a folder, not a {kind}" if path.is_dir() else "there is no such file", file=path)
    try:
        archive = zipfile.ZipFile(path)
    except PermissionError as error:
        raise BadBackup(f"cannot be read: {error.strerror}", file=path) from error
    except (*_DAMAGED, ValueError) as error:
        raise BadBackup(f"not a {kind}, or cut off: it has no directory at its end", file=path) from error
    with archive:
        try:
            _refuse_large(archive, kind, path)
            manifest = Manifest.read(archive)
            _refuse_unreadable(manifest, kind, path)
            if missing := set(manifest.members) - set(archive.namelist()):
                raise ValueError(f"{', '.join(sorted(missing))} is missing")
            damaged = archive.testzip()
        except RecursionError as error:
            raise BadBackup(
                f"not a whole {kind} of hypergauge: its manifest is nested too deeply", file=path
            ) from error
        except _DAMAGED as error:
            raise BadBackup(f"damaged: {error}", file=path) from error
        except (KeyError, ValueError) as error:
            raise BadBackup(f"not a whole {kind} of hypergauge: {error}", file=path) from error
        if damaged is not None:
            raise BadBackup(f"damaged: the checksum of {damaged} does not fit", file=path)
        yield archive, manifest


def _refuse_large(archive: zipfile.ZipFile, kind: Kind, path: Path) -> None:
    """Refuse a file with members larger than ours, each or together. Unpacking never yields more than the declared size."""
    tables = 0
    for member in archive.infolist():
        name, size = member.filename, member.file_size
        if member.compress_type not in _COMPRESSIONS:
            raise BadBackup(f"damaged: {name} has an unknown compression", file=path)
        part = "manifest" if name == _MANIFEST else "part" if name.startswith("samples/") else "table"
        if part == "table":
            tables = size = tables + size
        most = _MOST_BYTES[part]
        if size > most and (kind == "capsule" or name == _MANIFEST):
            what = "its tables" if part == "table" else name
            raise BadBackup(f"{what} would take {size >> 20} MiB, and may take {most >> 20}", file=path)


def _refuse_unreadable(manifest: Manifest, kind: Kind, path: Path) -> None:
    for table in manifest.tables:
        for name in (table.schema, table.name, *table.columns):
            if not name or "\0" in name or len(name) > _LONGEST_NAME:
                raise ValueError(f"a table or column has the name {name[:_LONGEST_NAME]!r}")
    if manifest.kind != kind:
        raise BadBackup(f"a {manifest.kind}, not a {kind}: `{_READS[manifest.kind]}` reads it", file=path)
    if kind == "capsule" and not re.fullmatch("[0-9a-f]{32}", manifest.capsule):
        raise ValueError("it has no id")  # the id separates imported data from local data
    if manifest.format == _FORMAT and manifest.schema_version > newest():
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
