"""Staging tables of an import: removal of existing rows, and new ids for the rest.

The tables are in the schema ``bench_staging`` (``sql/schema/functions/bench_staging/92_staging.sql``). One import at a time uses them,
within its transaction. Generated ids are replaced by new ones; ids of runs stay.
"""

from __future__ import annotations

import zipfile
from dataclasses import replace

from psycopg import sql

from hypergauge.core.errors import BadRequest
from hypergauge.sql.runs.experiments import next_free_id
from hypergauge.sql.server.database import Connection
from hypergauge.sql.transfer import earlier
from hypergauge.sql.transfer.archive import Manifest
from hypergauge.sql.transfer.bounds import refuse_unbounded
from hypergauge.sql.transfer.capsule import TABLES, schema_of
from hypergauge.sql.transfer.members import copy_in

__all__ = ["SCHEMA", "claim", "clear", "insert", "leave_out_what_is_here", "notes", "renumber", "stage"]

SCHEMA = "bench_staging"
# Tables whose rows may already exist under the same name.
_SHARED = ("experiments", "workloads", "metrics", "places")
# Tables whose rows each belong to one run, and are deleted with it if the run is left out.
_OF_RUNS = [name for name, condition in TABLES.items() if condition.startswith(TABLES["runs"]) and name != "runs"]
# Columns with generated ids, with the kind of each id.
_IDS = {
    ("workloads", "workload_id"): "workload",
    ("runs", "workload_id"): "workload",
    ("metrics", "metric_id"): "metric",
    ("places", "place_id"): "place",
    ("series", "place_id"): "place",
    ("series", "metric_id"): "metric",
    ("series", "series_id"): "series",
    ("stored_duplicates", "series_id"): "series",
    ("run_sets", "place_id"): "place",
    ("run_sets", "runset_id"): "run set",
}
_PRUNE = """
    delete from bench_staging.workloads where workload_id not in (select workload_id from bench_staging.runs);
    delete from bench_staging.experiments where experiment_id not in (select experiment_id from bench_staging.workloads);
    delete from bench_staging.places where place_id not in (select place_id from bench_staging.run_sets);
    delete from bench_staging.series where place_id not in (select place_id from bench_staging.places);
    delete from bench_staging.stored_duplicates where series_id not in (select series_id from bench_staging.series)
"""
_NUMBER = """
    insert into bench_staging.new_ids
    select 'workload', s.workload_id, coalesce(w.workload_id, nextval(pg_get_serial_sequence('workloads', 'workload_id')))
    from bench_staging.workloads s left join workloads w using (experiment_id, workload)
    union all
    select 'metric', s.metric_id, coalesce(m.metric_id, nextval(pg_get_serial_sequence('metrics', 'metric_id')))
    from bench_staging.metrics s left join metrics m on (m.metric, m.match, m.origin) = (s.metric, s.match, '')
    union all
    select 'place', s.place_id, coalesce(p.place_id, nextval(pg_get_serial_sequence('places', 'place_id')))
    from bench_staging.places s left join places p
      on (p.kind, p.host, p.gpu_uuid, p.gpu_instance_id, p.run_id, p.origin)
         is not distinct from (s.kind, s.host, s.gpu_uuid, s.gpu_instance_id, s.run_id, s.origin)
    union all
    select 'series', series_id, nextval(pg_get_serial_sequence('series', 'series_id')) from bench_staging.series
    union all
    select 'run set', runset_id, nextval('runset_ids') from (select distinct runset_id from bench_staging.run_sets) sets
"""


def stage(connection: Connection, archive: zipfile.ZipFile, manifest: Manifest) -> None:
    """Copy the tables of a capsule into the staging tables. Columns of a newer schema get their defaults.

    Raises
    ------
    BadRequest
        A member is invalid, or a value is out of bounds.
    """
    clear(connection)
    for table in manifest.tables:
        target = replace(earlier.target(manifest, table), schema=SCHEMA)
        if target.name in TABLES:
            copy_in(connection, archive, table, target)
            refuse_unbounded(connection, target)


def clear(connection: Connection) -> None:
    """Empty the staging tables."""
    names = [sql.Identifier(SCHEMA, name) for name in (*TABLES, "new_ids")]
    connection.execute(sql.SQL("truncate {}").format(sql.SQL(", ").join(names)))


def leave_out_what_is_here(connection: Connection) -> tuple[int, int]:
    """Delete existing runs and their rows from the staging tables. Return the number of staged and of existing runs."""
    row = connection.execute(
        "select count(*), count(r.run_id) from bench_staging.runs left join runs r using (run_id)"
    ).fetchone()
    assert row is not None
    connection.execute(
        """
        update bench_staging.run_sets s set others = others + (
            select count(*) from bench_staging.run_sets o join runs using (run_id) where o.runset_id = s.runset_id);
        delete from bench_staging.runs where run_id in (select run_id from runs)
        """
    )
    for name in _OF_RUNS:
        connection.execute(
            sql.SQL("delete from {} where run_id not in (select run_id from bench_staging.runs)").format(
                sql.Identifier(SCHEMA, name)
            )
        )
    connection.execute(_PRUNE)
    return row[0], row[1]


def claim(connection: Connection, into: int | None) -> list[int]:
    """Return the runs' experiments, after a check that each is free or belongs to the same file."""
    found = connection.execute("select experiment_id, source from bench_staging.experiments order by 1").fetchall()
    if into is not None:
        if len(found) > 1:
            ids = ", ".join(str(experiment) for experiment, _ in found)
            raise BadRequest(f"it holds the experiments {ids}, and --into names one: export and import them one by one")
        connection.execute("update bench_staging.experiments set experiment_id = %s", (into,))
        connection.execute("update bench_staging.workloads set experiment_id = %s", (into,))
        return [into]
    for experiment, source in found:
        row = connection.execute("select source from experiments where experiment_id = %s", (experiment,)).fetchone()
        if row is not None and row[0] != source:
            free = next_free_id(connection)
            raise BadRequest(
                f"experiment {experiment} belongs to {row[0]} here, and to {source} in the capsule; the next free id is "
                f"{free}: give --into {free}"
            )
    return [experiment for experiment, _ in found]


def notes(connection: Connection) -> list[str]:
    """Return notes on the imported runs: differences between catalogs, and raw samples that retention will delete."""
    differing = connection.execute(
        """
        select format('%s is %s in %s here, and %s in %s in the capsule: what is read here is as it is here',
                      metric, m.quantity, m.unit, s.quantity, s.unit)
        from bench_staging.metrics s join metrics m using (metric, match)
        where m.origin = '' and (m.quantity, m.unit, m.scale, m.kind, m.combine) <> (s.quantity, s.unit, s.scale, s.kind, s.combine)
        union
        select format('%s is not in the catalog here: it is read as in the capsule, and so in its runs alone', s.metric)
        from bench_staging.metrics s left join metrics m on (m.metric, m.match, m.origin) = (s.metric, s.match, '')
        where m.metric_id is null
        order by 1
        """
    ).fetchall()
    old = connection.execute(
        """
        select format('raw samples from before %s are not kept here, and those of %s of these runs go; buckets of 10 s and '
                      'summaries stay', to_char(before at time zone 'UTC', 'YYYY-MM-DD'), count(*))
        from bench_staging.runs, (select greatest(raw_cutoff, date_trunc('day', now() - keep_raw, 'UTC')) as before from retention) kept
        where started_at < before and not keep group by before
        """
    ).fetchall()
    return [line for (line,) in differing + old]


def renumber(connection: Connection) -> None:
    """Replace generated ids by new ids of this database; ``bench_staging.new_ids`` holds the mapping."""
    connection.execute(_NUMBER)
    for (name, column), what in _IDS.items():
        connection.execute(
            sql.SQL(
                "update {table} set {column} = new from bench_staging.new_ids where what = {what} and old = {column}"
            ).format(table=sql.Identifier(SCHEMA, name), column=sql.Identifier(column), what=what)
        )


def insert(connection: Connection) -> None:
    """Insert the staged rows into our tables.

    Raises
    ------
    BadRequest
        Another run has the position of a staged run.
    """
    _refuse_taken(connection)
    for name in TABLES:
        connection.execute(
            sql.SQL("insert into {} overriding system value select * from {} {}").format(
                sql.Identifier(schema_of(name), name),
                sql.Identifier(SCHEMA, name),
                sql.SQL("on conflict do nothing" if name in _SHARED else ""),
            )
        )
    connection.execute(
        """
        update workloads w set started_at = least(w.started_at, s.started_at),
                               ended_at = case when w.ended_at is not null then greatest(w.ended_at, s.ended_at) end
        from bench_staging.workloads s where s.workload_id = w.workload_id
        """
    )


def _refuse_taken(connection: Connection) -> None:
    taken = connection.execute(
        """
        select run_label(w, r), r.run_id from bench_staging.runs s join runs r using (workload_id, position, attempt)
        join workloads w using (workload_id) order by 1 limit 1
        """
    ).fetchone()
    if taken is not None:
        free = next_free_id(connection)
        raise BadRequest(
            f"{taken[0]} is another run here ({taken[1][:8]}), with the same position in its experiment: give --into {free}, "
            "which is free"
        )
