"""Discovery of a Slurm cluster's nodes, through ``scontrol``."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from hypergauge.core.errors import BadRequest, BenchError, did_you_mean

__all__ = ["Node", "SlurmUnavailable", "nodes", "of_partitions", "parse"]

_COMMAND = ("scontrol", "show", "nodes", "--oneliner")
_SECONDS = 30.0
_META = "__meta_slurm_"
# A value may hold blanks, and even a word with an equals sign in the reason that somebody gave; fields begin with a capital.
_FIELD = re.compile(r"(?:^| )([A-Z]\w*)=")
# Nothing that is asked for a job runs there, and nothing answers. One that does not respond (``IDLE*``), or is drained, may
# have runs that go on.
_GONE = frozenset({"DOWN", "FUTURE", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "UNKNOWN"})


class SlurmUnavailable(BenchError):
    """Slurm does not answer."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node.

    Attributes
    ----------
    name, host, address
        What Slurm calls it, what ``hostname`` says on it, and where it is reached.
    states
        Such as ``IDLE`` and ``DRAIN``; without the marks behind them.
    """

    name: str
    host: str
    address: str
    states: tuple[str, ...]
    partitions: tuple[str, ...]
    features: tuple[str, ...]
    gres: str

    @property
    def there(self) -> bool:
        """Return whether something may run there."""
        return _GONE.isdisjoint(self.states)

    def labels(self, port: int) -> dict[str, str]:
        """Return what relabeling is told of a listener on `port`; lists begin and end with a comma, as in Prometheus."""
        address = f"[{self.address}]" if ":" in self.address else self.address
        return {
            "__address__": f"{address}:{port}",
            f"{_META}node": self.name,
            f"{_META}hostname": self.host,
            f"{_META}address": self.address,
            f"{_META}states": _listed(self.states),
            f"{_META}partitions": _listed(self.partitions),
            f"{_META}features": _listed(self.features),
            f"{_META}gres": self.gres,
            "host": self.host,
        }


async def nodes() -> list[Node]:
    """Ask Slurm for its nodes.

    Raises
    ------
    SlurmUnavailable
        There is no ``scontrol``, or it does not answer in time, or says that it cannot.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *_COMMAND,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},
        )
    except OSError as error:
        raise SlurmUnavailable(f"Slurm's nodes are not known: scontrol cannot be run: {error.strerror}") from None
    try:
        output, said = await asyncio.wait_for(process.communicate(), _SECONDS)
    except TimeoutError:
        raise SlurmUnavailable(f"Slurm's nodes are not known: scontrol gave no answer in {_SECONDS:g} s") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if process.returncode != 0:
        why = " ".join(said.decode(errors="replace").split()) or f"it ended with status {process.returncode}"
        raise SlurmUnavailable(f"Slurm's nodes are not known: scontrol: {why}")
    return list(parse(output.decode(errors="replace")))


def parse(text: str) -> Iterator[Node]:
    """Yield the nodes of ``scontrol show nodes --oneliner``."""
    for line in text.splitlines():
        _, *parts = _FIELD.split(line)
        fields: dict[str, str] = {}
        for key, value in zip(parts[::2], parts[1::2], strict=True):
            fields.setdefault(key, value.strip())  # what people write comes last
        if not (name := fields.get("NodeName")):
            continue
        yield Node(
            name,
            fields.get("NodeHostName") or name,
            fields.get("NodeAddr") or name,
            tuple(re.sub(r"[^A-Z_].*", "", word) for word in fields.get("State", "UNKNOWN").split("+")),
            _words(fields.get("Partitions", "")),
            _words(fields.get("ActiveFeatures", "")),
            "" if fields.get("Gres") == "(null)" else fields.get("Gres", ""),
        )


def of_partitions(found: list[Node], partitions: tuple[str, ...]) -> list[Node]:
    """Return the nodes that are there, of these partitions; none for all.

    Raises
    ------
    BadRequest
        There is no such partition.
    """
    known = {partition for node in found for partition in node.partitions}
    for partition in partitions:
        if partition not in known:
            raise BadRequest(f"Slurm has no partition {partition!r} with nodes{did_you_mean(partition, sorted(known))}")
    return [node for node in found if node.there and (not partitions or {*partitions} & {*node.partitions})]


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split(",") if word and word != "(null)")


def _listed(words: tuple[str, ...]) -> str:
    return f",{','.join(words)}," if words else ""
