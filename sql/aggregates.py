"""Aggregates and raw samples agree, always: what is written behind an aggregate's newest bucket is refreshed in it."""

from __future__ import annotations

import math

from sql.database import Connection
from sql.flavour import Flavour, inspect

__all__ = ["LEVELS", "refresh"]

# Relation and bucket in seconds, the finer ones first: each level is made of the one before.
LEVELS = (("samples_10s", 10), ("samples_1m", 60), ("samples_10m", 600))


def refresh(connection: Connection, lowest: float, highest: float) -> None:
    """Bring the aggregates over ``[lowest, highest]`` (Unix seconds) in line with the samples.

    Only what is materialized already is refreshed: beyond it the aggregates are computed on read, and materializing
    more would hide the samples that are still to be written there. In plain PostgreSQL there is nothing to do.
    """
    if inspect(connection).flavour is not Flavour.TIMESCALEDB:
        return
    for relation, bucket in LEVELS:
        row = connection.execute(
            """
            select extract(epoch from _timescaledb_functions.to_timestamp(
                       _timescaledb_functions.cagg_watermark(mat_hypertable_id)))::float8
            from _timescaledb_catalog.continuous_agg
            where user_view_schema = 'bench' and user_view_name = %s
            """,
            (relation,),
        ).fetchone()
        watermark = -math.inf if row is None or row[0] is None else row[0]
        start = math.floor(lowest / bucket) * bucket
        end = min((math.floor(highest / bucket) + 1) * bucket, watermark)
        if start < end:
            connection.execute(
                "call public.refresh_continuous_aggregate(%s, to_timestamp(%s), to_timestamp(%s))",
                (f"bench.{relation}", start, end),
            )
