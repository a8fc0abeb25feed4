"""Source of DCGM's fields: the command ``dcgmi``, where a host engine runs."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hypergauge.core.errors import ServiceFailed
from hypergauge.exporters.dcgm.dmon import Dmon, Key
from hypergauge.exporters.dcgm.entities import Entity, Value
from hypergauge.exporters.dcgm.fields import PROFILING, Field, known_fields
from hypergauge.exporters.dcgm.output import DcgmGpu, Instance, Rows, parse_hierarchy, parse_list
from hypergauge.exporters.serving.pace import Pace
from hypergauge.gpu import Inventory, inventory
from hypergauge.gpu.library import Nvml

__all__ = ["DcgmiSource"]

# DCGM_FI_DRIVER_VERSION, which older versions of dmon cut off.
_DRIVER = 1
_ANSWER_SECONDS = 20.0
# Interval of listing MIG instances through DCGM where NVML cannot report their changes.
_DISCOVERY_SECONDS = 10.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Discovered:
    gpus: tuple[DcgmGpu, ...]
    instances: tuple[Instance, ...]
    profiles: dict[int, str]  # by the instance's entity

    def watched(self) -> list[Key]:
        return [
            *(("GPU", gpu.number) for gpu in self.gpus),
            *(("GPU-I", instance.entity) for instance in self.instances),
        ]


class DcgmiSource:
    """GPUs and MIG instances of DCGM's host engine.

    Parameters
    ----------
    command
        Command line of ``dcgmi``.
    fields
        Fields to watch.
    nvml
        Reports changes of MIG instances at once, and their profiles. Without it, DCGM does.
    environment
        Environment of ``dcgmi``, without ``CUDA_VISIBLE_DEVICES``, which would cause warnings between the rows.
    """

    def __init__(
        self, command: Sequence[str], fields: Sequence[Field], nvml: Nvml, environment: Mapping[str, str]
    ) -> None:
        self._command = [*command]
        self._fields = list(fields)
        self._layout = _Layout(nvml)
        self._environment = environment
        self._dmon: Dmon | None = None
        self._pace, self._seconds = Pace(), 1.0
        self._discovered = _Discovered((), (), {})
        self._seen: object = None
        self._discovered_at = 0.0

    def problem(self) -> str | None:
        """Return the reason why DCGM does not answer, ``None`` where it does."""
        try:
            return None if parse_list(self._query("discovery", "-l")) else "it has no GPU"
        except ServiceFailed as error:
            return str(error)

    def entities(self) -> list[Entity]:
        """Return DCGM's latest values of every GPU and MIG instance.

        Raises
        ------
        ServiceFailed
            DCGM does not answer.
        """
        self._update()
        rows = self._rows()
        shared = {_DRIVER, *(field.number for field in self._fields if not field.per_instance)}
        entities = []
        for gpu in self._discovered.gpus:
            values = self._layout.labels | rows.get(("GPU", gpu.number), {})
            entity = Entity(gpu.number, gpu.uuid, gpu.pci_bus_id, gpu.name, values)
            instances = [instance for instance in self._discovered.instances if instance.gpu == gpu.number]
            if not instances and ("GPU", gpu.number) in rows:
                entities.append(entity)
            for instance in instances:
                if (own := rows.get(("GPU-I", instance.entity))) is not None:
                    profile = self._discovered.profiles.get(instance.entity, "")
                    of_gpu = {number: value for number, value in values.items() if number in shared}
                    entities.append(replace(entity, values=of_gpu | own, instance=instance.instance, profile=profile))
        return entities

    def close(self) -> None:
        """End the child and close NVML."""
        self._stop()
        self._layout.close()

    def _rows(self) -> dict[Key, dict[int, Value]]:
        assert self._dmon is not None
        try:
            return self._dmon.latest()
        except ServiceFailed:
            without = [field for field in self._fields if field.number not in PROFILING]
            if self._dmon.running or len(without) in (0, len(self._fields)):
                raise
            _log.warning("DCGM has no profiling fields here; the exporter shows the others", exc_info=True)
            self._fields = without
            return self._start().latest()

    def _update(self) -> None:
        """Start a new child if GPUs, MIG instances or the pace of scrapes have changed."""
        seen = self._layout.read()
        now = time.monotonic()
        due = seen is None and now - self._discovered_at > _DISCOVERY_SECONDS
        self._seconds = self._pace.scraped()
        running = self._dmon is not None and self._dmon.running and not self._dmon.is_outpaced(self._seconds)
        if running and seen == self._seen and not due:
            return
        discovered = self._discover(seen)
        changed = seen != self._seen or discovered != self._discovered
        self._discovered, self._seen, self._discovered_at = discovered, seen, now
        if changed or not running:
            self._start()

    def _start(self) -> Dmon:
        self._stop()
        try:
            self._dmon = Dmon(self._command, self._discovered.watched(), self._fields, self._environment, self._seconds)
        except OSError as error:
            raise ServiceFailed(f"{self._command[0]} cannot be started: {error.strerror}") from error
        return self._dmon

    def _stop(self) -> None:
        if self._dmon is not None:
            self._dmon.close()
            self._dmon = None

    def _discover(self, seen: Inventory | None) -> _Discovered:
        gpus = parse_list(self._query("discovery", "-l"))
        if not gpus:
            raise ServiceFailed("DCGM has no GPU")
        instances = parse_hierarchy(self._query("discovery", "-c"))
        uuids = {gpu.number: gpu.uuid for gpu in gpus}
        known = {
            (gpu.uuid, instance.gpu_instance_id): instance.profile
            for gpu in (seen.gpus if seen else ())
            for instance in gpu.mig
        }
        profiles = {
            instance.entity: profile
            for instance in instances
            if (profile := known.get((uuids.get(instance.gpu, ""), instance.instance)))
        }
        if missing := [instance.entity for instance in instances if instance.entity not in profiles]:
            profiles |= self._profiles(missing)
        return _Discovered(tuple(gpus), tuple(instances), profiles)

    def _profiles(self, entities: Sequence[int]) -> dict[int, str]:
        """Return profiles by entity. DCGM reports an instance's profile as its name."""
        name = known_fields()["DCGM_FI_DEV_NAME"]
        ids = ",".join(f"i:{entity}" for entity in entities)
        rows = Rows([name])
        found = {}
        for line in self._query("dmon", "-i", ids, "-e", str(name.number), "-c", "1").splitlines():
            row = rows.read(line)
            if row is not None and row[0] == "GPU-I" and name.number in row[2]:
                found[row[1]] = str(row[2][name.number])
        return found

    def _query(self, *arguments: str) -> str:
        try:
            answer = subprocess.run(
                [*self._command, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                timeout=_ANSWER_SECONDS, env=dict(self._environment), check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise ServiceFailed(f"dcgmi {arguments[0]} does not end") from error
        except OSError as error:
            raise ServiceFailed(f"{self._command[0]} cannot be started: {error.strerror}") from error
        if answer.returncode:
            lines = [line.strip() for line in (answer.stdout + answer.stderr).splitlines() if line.strip()]
            raise ServiceFailed(lines[-1] if lines else f"dcgmi {arguments[0]}: exit status {answer.returncode}")
        return answer.stdout


class _Layout:
    """Current MIG instances according to NVML. Each creation has a UUID of its own."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._open = False
        self.labels: dict[int, Value] = {}

    def read(self) -> Inventory | None:
        """Return the inventory, ``None`` where NVML does not work."""
        if not self._open:
            try:
                self._nvml.nvmlInit()  # kept open, since opening takes longer than a query
                self._open = True
            except self._nvml.NVMLError:
                return None
        found = inventory(nvml=self._nvml)
        self.labels = {} if found.driver is None else {_DRIVER: found.driver}
        return found if found.gpus else None

    def close(self) -> None:
        """Close NVML."""
        if self._open:
            self._open = False
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()
