"""Software metrics from the tracking server, and spans from the client."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hypergauge.sql.ingest.limits import is_time, limited_value, storable
from hypergauge.sql.server.database import Connection

__all__ = ["SoftwareMetric", "SpanRecord", "store_software_metrics", "store_spans"]


@dataclass(frozen=True, slots=True)
class SoftwareMetric:
    """Logged value; `time` in Unix seconds."""

    key: str
    step: int
    time: float
    value: float


@dataclass(frozen=True, slots=True)
class SpanRecord:
    """Span with times in Unix seconds; `ended_at` is ``None`` if the run ended within the span.

    Attributes
    ----------
    data_wait
        Seconds within the span that the training was blocked on its data loader.
    samples, tokens, flops
        Samples and tokens of the span, and floating-point operations of the model.
    """

    span_id: str
    parent_id: str | None
    name: str
    kind: str
    step: int | None
    started_at: float
    ended_at: float | None
    pid: int | None
    thread: str | None
    data_wait: float | None = None
    samples: float | None = None
    tokens: float | None = None
    flops: float | None = None


def store_software_metrics(connection: Connection, run_id: str, metrics: Sequence[SoftwareMetric]) -> None:
    """Store values of one run and keep existing ones. Values are limited, see `hypergauge.sql.ingest.limits`; NaN becomes null.

    Values with a time or step that the database lacks are left out: a script logs at any time that it likes.
    """
    metrics = [one for one in metrics if is_time(one.time) and abs(one.step) < 2**63]
    values = [limited_value(m.value) for m in metrics]
    with connection.transaction(), connection.cursor() as cursor:
        cursor.executemany(
            """
            insert into software_metrics (run_id, key, step, time, elapsed, value)
            select run_id, %s, %s, to_timestamp(%s), extract(epoch from to_timestamp(%s) - started_at)::float8, %s
            from runs where run_id = %s and started_at is not null
            on conflict do nothing
            """,
            [
                (storable(m.key), m.step, m.time, m.time, None if math.isnan(value) else value, run_id)
                for m, value in zip(metrics, values, strict=True)
            ],
        )


def store_spans(connection: Connection, run_id: str, spans: Iterable[SpanRecord]) -> None:
    """Store spans of one run. An existing open span receives its end."""
    with connection.transaction(), connection.cursor() as cursor:
        cursor.executemany(
            """
            insert into spans (run_id, span_id, parent_id, name, kind, step, started_at, ended_at, pid, thread,
                               data_wait, samples, tokens, flops)
            values (%s, %s, %s, %s, %s, %s, to_timestamp(%s), to_timestamp(%s), %s, %s, %s, %s, %s, %s)
            on conflict (run_id, span_id) do update
            set (ended_at, data_wait, samples, tokens, flops)
                = (excluded.ended_at, excluded.data_wait, excluded.samples, excluded.tokens, excluded.flops)
            where spans.ended_at is null and excluded.ended_at is not null
            """,
            [
                (
                    run_id, s.span_id, s.parent_id, s.name, s.kind, s.step, s.started_at, s.ended_at, s.pid, s.thread,
                    s.data_wait, s.samples, s.tokens, s.flops,
                )
                for s in spans
            ],
        )  # fmt: skip
