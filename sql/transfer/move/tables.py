"""All tables but the samples, in one transaction: the target has either all of them or none."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql

from hypergauge.sql.schema.flavour import Flavour, inspect
from hypergauge.sql.schema.schemas import INTERNAL, OURS
from hypergauge.sql.server.database import Connection
from hypergauge.sql.transfer.archive import Table
from hypergauge.sql.transfer.backup import MLFLOW, relations, sequences
from hypergauge.sql.transfer.copying import copy_between
from hypergauge.sql.transfer.move.checksums import Checksum, table_checksum
from hypergauge.sql.transfer.restore import in_order, owner, set_owner

__all__ = ["Relation", "copy_below_cutoff", "copy_tables", "found_tables"]

# Tables that migrations fill; the move sets `retention` itself.
_LEFT_OUT = frozenset({"migrations", "functions_digest", "retention"})
# Aggregates of samples that retention has deleted; stored in another table in each flavour.
_BELOW_CUTOFF = "bench.samples_10s"


@dataclass(frozen=True, slots=True)
class Relation:
    """Table with the query of its rows."""

    table: Table
    query: sql.Composable

    @property
    def name(self) -> str:
        """Qualified name."""
        return f"{self.table.schema}.{self.table.name}"

    @property
    def below_cutoff(self) -> bool:
        """Return whether it is the aggregates below the raw cutoff."""
        return self.name == _BELOW_CUTOFF

    def checksum(self, connection: Connection) -> Checksum:
        """Return the checksum of its rows."""
        return table_checksum(connection, self.query, self.table.columns)


def found_tables(connection: Connection) -> dict[str, Relation]:
    """Return the tables to be moved by qualified name, without the samples."""
    found = (Relation(table, query) for table, query in relations(connection, _LEFT_OUT))
    return {one.name: one for one in found if one.name != "bench.samples"}


def copy_below_cutoff(source: Connection, target: Connection, relation: Relation) -> None:
    """Copy the aggregates below the raw cutoff, in a transaction of the target."""
    timescaledb = inspect(target).flavour is Flavour.TIMESCALEDB
    name = "samples_10s_late" if timescaledb else "samples_10s_stored"
    _copy(source, target, relation, (INTERNAL, name))
    if not timescaledb:
        target.execute("select bench_internal.store_upper_levels()")


def copy_tables(
    source: Connection,
    target: Connection,
    found: dict[str, Relation],
    scripts: tuple[bytes, bytes] | None,
) -> None:
    """Replace all other tables of the target, in its transaction.

    Parameters
    ----------
    found
        Tables of the source.
    scripts
        Statements that create MLflow's tables, before and after their rows.
    """
    mlflow_owner = owner(target, MLFLOW)
    if scripts is not None:
        target.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(MLFLOW)))
        target.execute(scripts[0])
    wanted = {(one.table.schema, one.table.name): one for one in found.values() if not one.below_cutoff}
    ordered = in_order(target, wanted)
    ours = [sql.Identifier(*name) for name in ordered if name[0] in OURS]
    target.execute(sql.SQL("truncate {}").format(sql.SQL(", ").join(sql.Identifier(*name) for name in ordered)))
    for table in ours:  # run sets are copied, and not built again
        target.execute(sql.SQL("alter table {} disable trigger user").format(table))
    for qualified in ordered:
        _copy(source, target, wanted[qualified], qualified)
    for table in ours:
        target.execute(sql.SQL("alter table {} enable trigger user").format(table))
    _continue_sequences(source, target)
    if scripts is not None:
        if script := scripts[1].strip():
            target.execute(script)
        set_owner(target, MLFLOW, mlflow_owner)


def _continue_sequences(source: Connection, target: Connection) -> None:
    """Let the target's sequences continue where the source's are, except where they are further: packing uses one."""
    here = sequences(target)
    for name, last in sequences(source).items():
        if last > here.get(name, 0):
            target.execute("select setval(r, %s) from to_regclass(%s) r where r is not null", (last, name))


def _copy(source: Connection, target: Connection, relation: Relation, name: tuple[str, str]) -> None:
    reading = sql.SQL("copy ({}) to stdout").format(relation.query)
    columns = sql.SQL(", ").join(map(sql.Identifier, relation.table.columns))
    writing = sql.SQL("copy {} ({}) from stdin").format(sql.Identifier(*name), columns)
    copy_between(source, reading, target, writing)
