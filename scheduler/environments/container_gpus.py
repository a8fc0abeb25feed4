"""Docker's options for the GPUs of a run, by vendor."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from hypergauge.gpu.vendors import NVIDIA, VisibleGpu

__all__ = ["gpu_options", "without_containers"]


def _by_uuid(gpus: Sequence[VisibleGpu]) -> Iterator[str]:
    yield from ("--gpus", f'"device={",".join(gpu.id for gpu in gpus)}"')


def _by_files(gpus: Sequence[VisibleGpu]) -> Iterator[str]:
    """Yield the device files, and their groups: a container's user has none of the host's."""
    files = dict.fromkeys(file for gpu in gpus for file in gpu.files)
    for file in files:
        yield from ("--device", file)
    nodes = [
        Path(file) for name in files for file in ([name] if not Path(name).is_dir() else Path(name).glob("renderD*"))
    ]
    for group in sorted({node.stat().st_gid for node in nodes if node.exists()}):
        yield from ("--group-add", str(group))


def _by_runtime(_: Sequence[VisibleGpu]) -> Iterator[str]:
    yield from ("--runtime", "nvidia")  # that of the Jetson's own distribution


_OPTIONS: Mapping[str, Callable[[Sequence[VisibleGpu]], Iterator[str]]] = {
    NVIDIA: _by_uuid,
    "amd": _by_files,
    "jetson": _by_runtime,
    "intel": _by_files,
}


def gpu_options(gpus: Sequence[VisibleGpu]) -> list[str]:
    """Return the options of `docker run` that give a container these GPUs."""
    line: list[str] = []
    for vendor, options in _OPTIONS.items():
        if own := [gpu for gpu in gpus if gpu.vendor == vendor]:
            line += options(own)
    return line


def without_containers(vendors: Collection[str]) -> list[str]:
    """Return the vendors whose GPUs no container can use."""
    return [vendor for vendor in vendors if vendor not in _OPTIONS]
