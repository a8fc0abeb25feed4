"""Specification of simulated GPUs in ``BENCH_SIMULATE``: ``COUNTxMODEL[:COUNTxPROFILE[+COUNTxPROFILE]]``, comma-joined."""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.gpu.models import MODELS, Model, Profile
from hypergauge.gpu.placement import place

__all__ = ["SpecifiedGpu", "parse", "simulated_uuid"]

_GROUP = re.compile(r"([0-9]{1,3})x([^:]+)(?::(.+))?")
_MIG_GROUP = re.compile(r"([0-9]{1,3})x(.+)")


@dataclass(frozen=True, slots=True)
class SpecifiedGpu:
    """One GPU to simulate. `instances` holds each MIG profile with its first memory slice.

    MIG mode, `mig`, is on with instances or ``:mig``.
    """

    index: int
    uuid: str
    model: Model
    mig: bool = False
    instances: tuple[tuple[Profile, int], ...] = ()


def parse(specification: str, world: str = "") -> list[SpecifiedGpu]:
    """Return the GPUs of a specification such as ``2xH100,4xA100:7x1g.5gb``.

    Equal specifications have equal UUIDs in one `world` and different ones elsewhere, so that runs of one world use no GPU
    of another.

    Raises
    ------
    BadRequest
        The specification is invalid, or names an unknown model or profile.
    """
    gpus: list[SpecifiedGpu] = []
    for text in specification.split(","):
        match = _GROUP.fullmatch(text.strip())
        if not match or not int(match[1]):
            raise BadRequest(
                f"{text.strip()!r} specifies no GPUs: write COUNTxMODEL, such as 2xH100 or 4xA100:7x1g.5gb"
            )
        key = match[2].upper()
        if key not in MODELS:
            raise BadRequest(f"there is no GPU model {match[2]!r} to simulate{did_you_mean(match[2], MODELS)}")
        instances = _instances(key, match[3]) if match[3] else ()
        for _ in range(int(match[1])):
            index = len(gpus)
            uuid = f"GPU-{simulated_uuid(f'{world}/{index}/{key}')}"
            gpus.append(SpecifiedGpu(index, uuid, MODELS[key], bool(match[3]), instances))
    return gpus


def simulated_uuid(seed: str) -> uuid.UUID:
    """Return the UUID of a simulated device, equal for equal seeds."""
    return uuid.uuid5(uuid.NAMESPACE_URL, f"hypergauge:{seed}")


def _instances(key: str, text: str) -> tuple[tuple[Profile, int], ...]:
    model = MODELS[key]
    if text.strip().lower() == "mig" and model.profiles:
        return ()
    # Profiles with the fewest positions first.
    profiles = sorted(_profiles(key, model, text), key=lambda profile: len(profile.starts))
    starts = place(model.profiles, [profile.name for profile in profiles], highest_first=False)
    if starts is None:
        raise BadRequest(f"the MIG instances {text} do not fit together on one {key}")
    return tuple(zip(profiles, starts, strict=True))


def _profiles(key: str, model: Model, text: str) -> Iterator[Profile]:
    for group in text.split("+"):
        match = _MIG_GROUP.fullmatch(group.strip())
        if not match or not int(match[1]):
            raise BadRequest(f"{group.strip()!r} is not a set of MIG instances: write COUNTxPROFILE, such as 7x1g.5gb")
        name = match[2].lower()
        if (profile := model.profile(name)) is None:
            choices = did_you_mean(name, [one.name for one in model.profiles]) or ", which has no MIG"
            raise BadRequest(f"there is no MIG profile {name!r} on {key}{choices}")
        yield from itertools.repeat(profile, int(match[1]))
