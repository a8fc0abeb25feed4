"""GPU models, after NVIDIA's data sheets and MIG user guide."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["GIB", "MODELS", "Model", "Profile", "compute_left", "free_starts", "model_of"]

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Profile:
    """MIG profile of one model.

    Attributes
    ----------
    name
        For example ``3g.20gb``.
    compute, memory
        Numbers of slices. The memory slices of an instance are consecutive.
    starts
        Possible first memory slices.
    """

    name: str
    compute: int
    memory: int
    starts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Model:
    """GPU model.

    Attributes
    ----------
    memory_gib
        Device memory.
    architecture
        In lower case, such as ``hopper``, the first with GPM.
    idle_watts, limit_watts
        Idle power, and power limit.
    sm_mhz, memory_mhz
        Highest clocks.
    datacenter
        Whether DCGM has profiling fields for it.
    compute_slices, memory_slices
        Slices under MIG; 0 without MIG.
    """

    name: str
    memory_gib: int
    architecture: str
    idle_watts: float
    limit_watts: float
    sm_mhz: int
    memory_mhz: int
    datacenter: bool = True
    compute_slices: int = 0
    memory_slices: int = 0
    profiles: tuple[Profile, ...] = ()

    def profile(self, name: str) -> Profile | None:
        """Return the MIG profile of that name, ``None`` without one."""
        return next((profile for profile in self.profiles if profile.name == name), None)


_FULL, _HALVES, _QUARTERS = (0,), (0, 4), (0, 2, 4)


def _sevenths(one: int, two: int, four: int, whole: int) -> tuple[Profile, ...]:
    """Return the profiles of a GPU of 7 compute and 8 memory slices, by the gigabytes of 1, 2, 4 and 8 memory slices."""
    return (
        Profile(f"1g.{one}gb", 1, 1, tuple(range(7))),
        Profile(f"1g.{two}gb", 1, 2, (0, 2, 4, 6)),
        Profile(f"2g.{two}gb", 2, 2, _QUARTERS),
        Profile(f"3g.{four}gb", 3, 4, _HALVES),
        Profile(f"4g.{four}gb", 4, 4, _FULL),
        Profile(f"7g.{whole}gb", 7, 8, _FULL),
    )


_QUARTERED = (
    Profile("1g.6gb", 1, 1, (0, 1, 2, 3)),
    Profile("2g.12gb", 2, 2, (0, 2)),
    Profile("4g.24gb", 4, 4, _FULL),
)

# Idle power: as nvidia-smi shows it for such GPUs without processes, with high memory clocks.
MODELS = {
    "A100": Model(
        "NVIDIA A100-SXM4-40GB", 40, "ampere", 52, 400, 1410, 1215,
        compute_slices=7, memory_slices=8, profiles=_sevenths(5, 10, 20, 40),
    ),
    "A100-80GB": Model(
        "NVIDIA A100-SXM4-80GB", 80, "ampere", 62, 400, 1410, 1593,
        compute_slices=7, memory_slices=8, profiles=_sevenths(10, 20, 40, 80),
    ),
    "A30": Model(
        "NVIDIA A30", 24, "ampere", 28, 165, 1440, 1215,
        compute_slices=4, memory_slices=4, profiles=_QUARTERED,
    ),
    "H100": Model(
        "NVIDIA H100 80GB HBM3", 80, "hopper", 70, 700, 1980, 2619,
        compute_slices=7, memory_slices=8, profiles=_sevenths(10, 20, 40, 80),
    ),
    "H200": Model(
        "NVIDIA H200", 141, "hopper", 76, 700, 1980, 3201,
        compute_slices=7, memory_slices=8, profiles=_sevenths(18, 35, 71, 141),
    ),
    "L4": Model("NVIDIA L4", 24, "ada", 16, 72, 2040, 6251),
    "RTX4090": Model("NVIDIA GeForce RTX 4090", 24, "ada", 22, 450, 3105, 10501, datacenter=False),
    "T4": Model("Tesla T4", 16, "turing", 10, 70, 1590, 5001),
}  # fmt: skip


def model_of(name: str, memory_bytes: int | None) -> Model | None:
    """Return the model of a GPU with the product name `name`, ``None`` for an unknown one or without its memory."""
    if memory_bytes is None:
        return None
    for key, model in MODELS.items():
        # A driver reserves up to a GiB; models of one name differ by more than 4 GiB.
        if abs(memory_bytes / GIB - model.memory_gib) < 4 and re.search(rf"\b{key.split('-')[0]}\b", name):
            return model
    return None


def compute_left(profiles: Sequence[Profile], there: Sequence[tuple[Profile, int]]) -> int:
    """Return the compute slices that the instances `there` leave free. The largest of a GPU's `profiles` has all slices."""
    return max((profile.compute for profile in profiles), default=0) - sum(one.compute for one, _ in there)


def free_starts(profiles: Sequence[Profile], profile: Profile, there: Sequence[tuple[Profile, int]]) -> list[int]:
    """Return the possible first memory slices of another instance of `profile`, lowest first.

    Parameters
    ----------
    profiles
        All profiles of the GPU.
    there
        Profile and first memory slice of each existing instance.
    """
    if profile.compute > compute_left(profiles, there):
        return []
    taken = {number for one, start in there for number in range(start, start + one.memory)}
    return [start for start in profile.starts if taken.isdisjoint(range(start, start + profile.memory))]
