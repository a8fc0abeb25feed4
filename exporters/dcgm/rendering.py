"""Renderer of entities as metric families, equal to dcgm-exporter's byte by byte.

Its template (``internal/pkg/rendermetrics`` there) orders the families by the fields' numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hypergauge.exporters.dcgm.entities import Entity, Value
from hypergauge.exporters.dcgm.fields import Counter
from hypergauge.exporters.serving.text import WrittenFamily, escaped

__all__ = ["render_families"]


def render_families(
    counters: Sequence[Counter], entities: Sequence[Entity], hostname: str, jobs: Mapping[str, Sequence[str]]
) -> Iterator[WrittenFamily]:
    """Yield a family for each counter with a value.

    Parameters
    ----------
    jobs
        Batch jobs by ``<gpu>`` or ``<gpu>.<instance>``. Each job has a line of its own, as in dcgm-exporter.
    """
    shown = sorted((c for c in counters if c.type != "label"), key=lambda counter: counter.field.number)
    of_all = [counter for counter in counters if counter.type == "label"]
    labels = [list(_labels(entity, of_all, hostname, jobs)) for entity in entities]
    for counter in shown:
        lines = [
            f"{counter.field.name}{{{text}}} {number}"
            for entity, texts in zip(entities, labels, strict=True)
            if (number := _number(entity.values.get(counter.field.number), counter.field.kind)) is not None
            for text in texts
        ]
        if lines:
            yield WrittenFamily(counter.field.name, counter.help, counter.type, lines)


def _labels(
    entity: Entity, of_all: Iterable[Counter], hostname: str, jobs: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    pairs = [
        ("gpu", str(entity.gpu)),
        ("UUID", entity.uuid),
        ("pci_bus_id", entity.pci_bus_id),
        ("device", f"nvidia{entity.gpu}"),
        ("modelName", entity.model),
    ]
    key = str(entity.gpu)
    if entity.instance is not None:
        pairs += [("GPU_I_PROFILE", entity.profile), ("GPU_I_ID", str(entity.instance))]
        key = f"{key}.{entity.instance}"
    pairs.append(("Hostname", hostname))
    pairs += sorted(  # a map in Go
        (counter.field.name, str(entity.values[counter.field.number]))
        for counter in of_all
        if counter.field.number in entity.values
    )
    for job in jobs.get(key) or [""]:
        shown = pairs + [("hpc_job", job)] * bool(job) + [("simulated", "true")] * entity.simulated
        yield ",".join(f'{name}="{escaped(value)}"' for name, value in shown)


def _number(value: Value | None, kind: str) -> str | None:
    if value is None or isinstance(value, str) or not math.isfinite(value):
        return None
    if kind == "float":
        return f"{value:.6f}"
    # Truncated to whole numbers, as in DCGM; the thousandth corrects floating point, as in 28.999….
    return str(value if isinstance(value, int) else math.floor(value + 1e-3))
