"""Aggregates and raw samples agree, always: what is written behind an aggregate's newest bucket is refreshed in it."""

from __future__ import annotations

import math
import time

import psycopg

from sql.database import Connection
from sql.flavour import Flavour, inspect

__all__ = ["LEVELS", "refresh", "refresh_level"]

_PATIENCE_SECONDS = 10.0

# Relation, bucket in seconds, and how far behind the clock its policy stays (as in migration 2), the finer ones first:
# each level is made of the one before.
_POLICIES = (("samples_10s", 10, 60), ("samples_1m", 60, 300), ("samples_10m", 600, 1800))
LEVELS = tuple((relation, bucket) for relation, bucket, _ in _POLICIES)


def refresh(connection: Connection, lowest: float, highest: float) -> None:
    """Bring the aggregates over ``[lowest, highest]`` (Unix seconds) in line with the samples.

    Refreshed is as far as the policies may have come: beyond it the aggregates are computed on read, and materializing
    more would hide the samples that are still to be written there. In plain PostgreSQL there is nothing to do.
    """
    if inspect(connection).flavour is not Flavour.TIMESCALEDB:
        return
    for relation, bucket, behind in _POLICIES:
        start = math.floor(lowest / bucket) * bucket
        end = math.floor(min(highest + bucket, time.time() - behind) / bucket) * bucket
        if start < end:
            refresh_level(connection, relation, start, end)


def refresh_level(connection: Connection, relation: str, start: float | None, end: float | None) -> None:
    """Materialize one aggregate over a span (Unix seconds, ``None`` for no bound), waiting for others that do so.

    Where one takes too long, its policy is left to it: what changed is on record, and the policy's next run has it.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            connection.execute(
                "call public.refresh_continuous_aggregate(%s, to_timestamp(%s), to_timestamp(%s))",
                (f"bench.{relation}", start, end),
            )
        except psycopg.errors.LockNotAvailable:  # a policy's job is at it
            if time.monotonic() > deadline:
                return
            time.sleep(0.2)
        else:
            return
