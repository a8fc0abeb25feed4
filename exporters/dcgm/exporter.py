"""The exporter ``dcgm``: DCGM where it is installed, else GPM on Hopper and later, in the same format."""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from prometheus_client.core import Metric

from hypergauge.core.errors import BenchError, ExporterUnavailable, ServiceFailed
from hypergauge.exporters.dcgm.dcgmi import DcgmiSource
from hypergauge.exporters.dcgm.energy import InstanceEnergy
from hypergauge.exporters.dcgm.fields import default_list, read_list
from hypergauge.exporters.dcgm.jobs import read_jobs
from hypergauge.exporters.dcgm.nvml import NvmlSource
from hypergauge.exporters.dcgm.rendering import render_families
from hypergauge.exporters.serving.registry import ExporterOptions
from hypergauge.gpu.library import Nvml, load
from hypergauge.gpu.sampling.reader import GpuReader
from hypergauge.gpu.sampling.sample import Reader

__all__ = ["DcgmExporter"]

# Pause after a failure, so that a source that fails at once is not started every second.
_PAUSE_SECONDS = 5.0


class DcgmExporter:
    """Exporter of GPUs and MIG instances in the format of NVIDIA's dcgm-exporter.

    Parameters
    ----------
    options
        `simulate` selects simulated GPUs.
    environment
        ``BENCH_DCGM_FIELDS`` or dcgm-exporter's ``DCGM_EXPORTER_COLLECTORS`` names a list of fields,
        ``BENCH_DCGM_JOBS`` or its ``DCGM_HPC_JOB_MAPPING_DIR`` a folder of batch jobs.
    nvml
        Replacement for this host's NVML.
    reader
        Factory of its reader.
    hostname
        Replacement for this host's name.

    Raises
    ------
    BadRequest
        The list of fields or the simulation is invalid.
    """

    name = "dcgm"

    def __init__(
        self,
        options: ExporterOptions,
        *,
        environment: Mapping[str, str] | None = None,
        nvml: Nvml | None = None,
        reader: Callable[[Nvml], Reader] = GpuReader,
        hostname: str | None = None,
    ) -> None:
        found = os.environ if environment is None else environment
        fields = found.get("BENCH_DCGM_FIELDS") or found.get("DCGM_EXPORTER_COLLECTORS")
        jobs = found.get("BENCH_DCGM_JOBS") or found.get("DCGM_HPC_JOB_MAPPING_DIR")
        self._counters = read_list(Path(fields)) if fields else default_list()
        self._jobs = Path(jobs) if jobs else None
        self._environment = {name: value for name, value in found.items() if name != "CUDA_VISIBLE_DEVICES"}
        self._simulated = bool(options.simulate)
        self._nvml = nvml or load(options.simulate, options.home, dcgm=True)
        self._reader = reader
        # Simulated GPUs as the driver sees them, without DCGM's activities.
        driver = self._nvml if nvml or not options.simulate else load(options.simulate, options.home)
        self._energy = InstanceEnergy(options, driver, reader)
        self._hostname = hostname or socket.gethostname()
        self._source: DcgmiSource | NvmlSource | None = None
        self._failed: tuple[float, BenchError] | None = None

    def check(self) -> str | None:
        """Return the reason why no profiling metrics are available, ``None`` where they are."""
        try:
            self._choose()
        except ExporterUnavailable as error:
            return str(error)
        return None

    def collect(self) -> Iterator[Metric]:
        """Read all GPUs once.

        Raises
        ------
        ExporterUnavailable
            Neither DCGM nor GPM is available any more.
        ServiceFailed
            DCGM does not answer. A call some seconds later looks for a source again.
        """
        now = time.monotonic()
        if self._failed is not None and now - self._failed[0] < _PAUSE_SECONDS:
            raise self._failed[1]
        self._failed = None
        try:
            source = self._choose()
            entities = source.entities()
        except (ExporterUnavailable, ServiceFailed) as error:
            self._failed = now, error
            self.close()
            raise
        yield from render_families(self._counters, entities, self._hostname, read_jobs(self._jobs))
        if isinstance(source, DcgmiSource) or self._simulated:  # elsewhere the activities are the driver's
            yield from self._energy.update(entities)

    def close(self) -> None:
        """Close the source; the next call of `collect` opens one again."""
        self._energy.close()
        if self._source is not None:
            self._source.close()
            self._source = None

    def _choose(self) -> DcgmiSource | NvmlSource:
        if self._source is not None:
            return self._source
        reasons = []
        for source, name in self._sources():
            problem = source.problem()
            if problem is None:
                self._source = source
                return source
            source.close()
            reasons.append(f"{name}{problem}")
        needs = "it needs DCGM (dcgmi) or a GPU with GPM (Hopper or later)"
        raise ExporterUnavailable("; ".join([needs, *reasons]))

    def _sources(self) -> Iterator[tuple[DcgmiSource | NvmlSource, str]]:
        program = None if self._simulated else shutil.which("dcgmi", path=self._environment.get("PATH"))
        if program:
            fields = [counter.field for counter in self._counters]
            yield DcgmiSource([program], fields, self._nvml, self._environment), "dcgmi: "
        yield NvmlSource(self._reader(self._nvml)), ""
