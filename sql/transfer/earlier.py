"""Backups and capsules of earlier formats: mapping of their rows to this release's schema.

Format 1 was written by development versions, before the migrations were squashed. All of its tables are in ``bench``.
"""

from __future__ import annotations

from hypergauge.sql.schema.schemas import INTERNAL, PUBLIC
from hypergauge.sql.transfer.archive import BadBackup, Manifest, Table

__all__ = ["refuse_oldest", "sequence", "target", "version"]

# Schema version to which tables of format 1 are restored.
_SCHEMA_VERSION = 2
# Later migrations of format 1 need no data beyond defaults.
_OLDEST_BACKUP = 29
# Tables that format 1 has in ``bench``, by their old names.
_MOVED = {
    "announcements": "announcements",
    "collectors": "collectors",
    "file_workloads": "file_workloads",
    "jobs": "jobs",
    "late_samples": "late_samples",
    "repeats": "stored_duplicates",
    "retags": "retag_queue",
    "retention": "retention",
    "stored_summaries": "stored_summaries",
    "tag_version": "tag_version",
    "tracked_summaries": "tracked_summaries",
}
_COLUMNS = {
    ("metrics", "board"): "whole_device",
    ("retention", "edge"): "raw_cutoff",
    ("runs", "judged"): "evaluated",
}
_SEQUENCES = {"bench.retags_retag_id_seq": f"{INTERNAL}.retag_queue_retag_id_seq"}


def refuse_oldest(manifest: Manifest) -> None:
    """Refuse a backup that only the migrations of its time can complete.

    Raises
    ------
    BadBackup
        The backup is too old.
    """
    if manifest.format == 1 and manifest.schema_version < _OLDEST_BACKUP:
        raise BadBackup(
            f"it is of schema version {manifest.schema_version} of a development version (hypergauge {manifest.release}), and "
            f"{_OLDEST_BACKUP} is the oldest that can be restored: restore it with the last development version, and back up again"
        )


def version(manifest: Manifest) -> int:
    """Return the schema version of the tables."""
    return _SCHEMA_VERSION if manifest.format == 1 else manifest.schema_version


def target(manifest: Manifest, table: Table) -> Table:
    """Return the target table of a member, with its columns in the member's order."""
    if manifest.format != 1 or table.schema != PUBLIC:
        return table
    return Table(
        INTERNAL if table.name in _MOVED else PUBLIC,
        _MOVED.get(table.name, table.name),
        tuple(_COLUMNS.get((table.name, column), column) for column in table.columns),
        table.rows,
    )


def sequence(manifest: Manifest, name: str) -> str:
    """Return the sequence that continues a sequence in `manifest`."""
    return _SEQUENCES.get(name, name) if manifest.format == 1 else name
