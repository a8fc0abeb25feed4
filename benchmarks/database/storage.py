"""Bytes per sample after compression or packing: real runs of 60 s and of 10 min.

The exporters ``host`` and ``process`` are replayed from a recording of real runs; responses of ``dcgm`` and ``nvml``
are simulated. All samples pass through the collector's parser, rates, spool and writer. In TimescaleDB they are one
day's chunk, which is then compressed. In plain PostgreSQL they are packed with their aggregates, and the tables of packed
samples count. A host's series continue from run to run, a run's process series are its own.

``bytes_per_sample`` is that of a day with four times the recording: 32 runs of 60 s and four of 10 min, an hour and a
quarter of scraping at 1 Hz. ``60s`` and ``10min`` are the eight short runs alone and the long one alone: there the catalog
and batches of fewer than 1000 rows weigh most.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.support import replay, telemetry
from benchmarks.support.recording import RecordedRun, Recording
from benchmarks.support.servers import Kind, own_database
from hypergauge.collector.convert.definitions import Numbering
from hypergauge.collector.convert.exposition import Parser
from hypergauge.collector.convert.rates import Rates
from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.collector.spool.queue import Spool
from hypergauge.collector.spool.records import SeriesDefinition, SpoolRecord
from hypergauge.collector.write.writer import Writer
from hypergauge.core.files.run_folder import RunEnd
from hypergauge.sql.ingest import targets
from hypergauge.sql.maintenance.aggregates import refresh
from hypergauge.sql.runs import experiments, runs
from hypergauge.sql.schema.flavour import Flavour, inspect
from hypergauge.sql.server.database import Connection, Database
from hypergauge.sql.server.rows import value

__all__ = ["measure"]

HOST = "node1"


@dataclass(frozen=True, slots=True)
class _Stored:
    """Bytes and samples of one layout, by exporter."""

    samples: dict[str, int]
    bytes: dict[str, float]
    rows_bytes: int
    catalog_bytes: int
    aggregates_bytes: int
    columns: dict[str, float]


def measure(server: Kind | None = None) -> dict[str, float | str]:
    """Return bytes per sample, in total and by exporter, from runs of each length and of both."""
    results: dict[str, float | str] = {}
    for layout in replay.LAYOUTS:
        with own_database("storage", server, default=Kind.TIMESCALEDB) as database:
            stored = _store(database, replay.laid_out(layout))
        results |= _metrics(layout, stored)
    return {"bytes_per_sample": results["day"], **results}


def _metrics(layout: str, stored: _Stored) -> dict[str, float | str]:
    total = sum(stored.samples.values())
    compressed = sum(stored.bytes.values())
    results: dict[str, float | str] = {
        layout: (compressed + stored.catalog_bytes) / total,
        f"{layout}_samples": float(total),
        f"{layout}_catalog": stored.catalog_bytes / total,
        f"{layout}_row_store": stored.rows_bytes / total,
        f"{layout}_aggregates": stored.aggregates_bytes / total,
    }
    for exporter in dict.fromkeys(key.partition(" ")[0] for key in stored.samples):
        keys = [key for key in stored.samples if key.startswith(exporter)]
        results[f"{layout}_{exporter}"] = sum(stored.bytes[key] for key in keys) / sum(
            stored.samples[key] for key in keys
        )
        for key in keys:
            results[f"{layout}_{key.replace(' ', '_')}"] = stored.bytes[key] / stored.samples[key]
    results |= {f"{layout}_column_{name}": size / total for name, size in stored.columns.items()}
    return results


def _store(database: Database, taken: Recording) -> _Stored:
    with database.session() as connection:
        _place_runs(connection, taken.runs)
        _ingest(database, connection, taken)
        connection.execute("vacuum full series, run_sets, places")
        if inspect(connection).flavour is Flavour.TIMESCALEDB:
            return _compressed(connection)
        return _packed(connection)


def _compressed(connection: Connection) -> _Stored:
    """Compress the samples in TimescaleDB, and return the sizes."""
    refresh(connection)
    # A bulk write is compressed directly; live samples stay in the row store for a day. These count as live.
    connection.execute("select public.decompress_chunk(c, true) from public.show_chunks('bench.samples') c")
    rows_bytes = value(connection, int, "select public.hypertable_size('bench.samples')")
    connection.execute(
        "select public.compress_chunk(c, if_not_compressed => true) from public.show_chunks('bench.samples') c"
    )
    return _measured(connection, rows_bytes)


def _packed(connection: Connection) -> _Stored:
    """Pack the samples in plain PostgreSQL, and return the sizes. Aggregates of packed samples are a part of them."""
    rows_bytes = value(connection, int, "select pg_total_relation_size('unpacked_samples')")
    connection.execute("call pack('infinity')")
    connection.execute("vacuum analyze packed_samples, packed_scrapes")
    total = value(
        connection, int, "select pg_total_relation_size('packed_samples') + pg_total_relation_size('packed_scrapes')"
    )
    columns = {
        name: float(value(connection, int, f"select coalesce(sum({size}), 0)::bigint from {table}"))
        for name, table, size in (
            ("times", "packed_scrapes", "pg_column_size(packed_scrapes.*)"),
            ("values", "packed_samples", "coalesce(pg_column_size(singles), 0) + coalesce(pg_column_size(doubles), 0)"),
            ("aggregates", "packed_samples", " + ".join(
                f"coalesce(pg_column_size({kind}_{level}), 0)"
                for kind in ("areas", "lows", "highs") for level in ("10s", "1m", "10m"))),
        )
    }  # fmt: skip
    columns["rows"] = total - sum(columns.values())
    counts: dict[str, int] = dict(
        connection.execute(
            "select listener, sum(n)::bigint from packed_samples join series using (series_id) join targets using (target_id)"
            " group by 1"
        ).fetchall()
    )
    shared = total / sum(counts.values())
    return _Stored(
        counts,
        {exporter: count * shared for exporter, count in counts.items()},
        rows_bytes,
        _catalog_bytes(connection),
        0,
        columns,
    )


def _place_runs(connection: Connection, taken: list[RecordedRun]) -> None:
    """Insert the runs with their placements, on the host and on every GPU and instance."""
    experiments.claim_experiment(connection, 1, name="storage", source="storage", into=True)
    for number, run in enumerate(taken, start=1):
        workload = experiments.open_workload(connection, 1, number)
        runs.create_runs(
            connection,
            [
                runs.NewRun(
                    run_id=run.run_id, mlflow_run_id=run.run_id, workload_id=workload, position=1, attempt=1, name="train",
                    owner="", command="", environment="-", collocation="-", devices="", params={}, host=HOST,
                    fingerprint=run.run_id,
                )
            ],
        )  # fmt: skip
        gpu_instances = [
            runs.Placement(run.run_id, HOST, gpu_uuid=gpu.uuid, gpu_instance_id=part.gi)
            for gpu in telemetry.Host().gpus
            for part in gpu.parts
        ]
        runs.start_runs(connection, workload, [runs.Placement(run.run_id, HOST), *gpu_instances], run.started_at)
        runs.end_run(connection, run.run_id, RunEnd("finished", run.started_at, run.ended_at, 0, None, 0.0, 0, 0, 0))


def _ingest(database: Database, connection: Connection, taken: Recording) -> None:
    numbering = Numbering(0)
    with_folder = Path(database.settings.home) / "spool"
    spool, access = Spool(with_folder), threading.Condition()
    for exporter, expositions in replay.by_exporter(taken).items():
        target = targets.register_target(connection, host=HOST, listener=exporter, instance="", url=exporter)
        parser, rates = Parser(), Rates(1.0)
        numbers: dict[int, int] = {}  # by the parser's ref, which it reuses
        for at, text in expositions:
            scrape = parser.parse(text)
            for ref, series in scrape.new.items():
                definition = SeriesDefinition(target, series.metric, series.kind, dict(series.labels))
                numbers[ref] = numbering.add(definition)
            found = rates.samples(scrape, at)
            refs = np.array([numbers[ref] for ref in found.refs.tolist()], np.uint32)
            spool.append(SpoolRecord(found.times, refs, found.values, found.dts, numbering.by_ref))
    writer = Writer(database, spool, access, CollectorMetrics())
    writer.start()
    writer.stop(timeout=600)
    if spool.depth:
        raise RuntimeError("the writer did not write all records")
    spool.close()


def _catalog_bytes(connection: Connection) -> int:
    return value(
        connection, int,
        "select sum(pg_total_relation_size(name::regclass))::bigint from unnest(array['series', 'run_sets', 'places']) name",
    )  # fmt: skip


def _measured(connection: Connection, rows_bytes: int) -> _Stored:
    """Return sizes. A chunk's pages and index are split in proportion to each series' batches."""
    [(total,)] = connection.execute("select public.hypertable_size('bench.samples')").fetchall()
    [(aggregates,)] = connection.execute(
        "select sum(public.hypertable_size(name::regclass)) from unnest(array['samples_10s', 'samples_1m', 'samples_10m']) name"
    ).fetchall()
    constant: dict[int, bool] = dict(
        connection.execute(
            "select series_id, min(value) is not distinct from max(value) from samples group by series_id"
        ).fetchall()
    )
    exporters: dict[int, str] = dict(
        connection.execute("select series_id, listener from series join targets using (target_id)").fetchall()
    )
    counts: dict[str, int] = defaultdict(int)
    sizes: dict[str, float] = defaultdict(float)
    columns: dict[str, float] = defaultdict(float)
    for chunk in _compressed_chunks(connection):
        for series, count, size, *parts in connection.execute(
            f"""
            select series_id, _ts_meta_count, pg_column_size(c.*) + 4, pg_column_size("time"),
                   pg_column_size(runset_id), pg_column_size(value), pg_column_size(dt) from {chunk} c
            """.encode()
        ):
            key = f"{exporters[series]} {'constant' if constant[series] else 'changing'}"
            counts[key] += count
            sizes[key] += size
            for name, part in zip(("time", "runset_id", "value", "dt"), parts, strict=True):
                columns[name] += part or 0
            columns["batch"] += size - sum(part or 0 for part in parts)
    held = sum(sizes.values())
    columns["pages"] = total - held
    return _Stored(
        dict(counts),
        {key: size * total / held for key, size in sizes.items()},
        rows_bytes,
        _catalog_bytes(connection),
        int(aggregates),
        dict(columns),
    )


def _compressed_chunks(connection: Connection) -> list[str]:
    return [
        row[0]
        for row in connection.execute(
            """
            select format('%I.%I', n.nspname, k.relname)
            from timescaledb_information.chunks c
            join _timescaledb_catalog.compression_settings s
              on s.relid = format('%I.%I', c.chunk_schema, c.chunk_name)::regclass
            join pg_class k on k.oid = s.compress_relid join pg_namespace n on n.oid = k.relnamespace
            where c.hypertable_schema = 'bench' and c.hypertable_name = 'samples'
            """
        )
    ]
