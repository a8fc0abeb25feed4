"""A running stack, and commands that need other GPUs measured."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.conftest import NewFolder
from tests.support.home import Home
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

GPUS = "1xH100:2x1g.10gb"


@dataclass
class ChangingHome(Home):
    """A home whose user changes ``BENCH_SIMULATE``."""

    simulate: str = ""

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, **({"BENCH_SIMULATE": self.simulate} if self.simulate else {})}

    def pid(self, service: str) -> int:
        """Return the process of a service."""
        return int(json.loads((self.path / "stack" / f"{service}.service").read_text())["pid"])


@pytest.fixture
def place(new_folder: NewFolder) -> Iterator[ChangingHome]:
    folder = new_folder()
    home = ChangingHome(folder / "home", folder / "work")
    home.folder.mkdir(parents=True)
    yield home
    home.end()
    home.simulate = ""
    home.bench("down", "--force")


def test_unused_exporters_are_restarted_for_other_gpus(place: ChangingHome) -> None:
    place.bench("up")
    host = place.pid("exporter-host")
    assert not any(gpu["simulated"] for gpu in place.json("status")["gpus"])

    place.simulate = GPUS
    printed = " ".join(place.bench("up").split())
    assert f"BENCH_SIMULATE={GPUS}" in printed
    assert place.pid("exporter-host") != host
    wait_for(lambda: place.query("select from series where metric = 'bench_gpu_power_watts'"), "an exporter's samples")

    place.simulate = ""  # what is measured shows all the same
    [gpu] = place.json("status")["gpus"]
    assert gpu["simulated"]
    assert [one["profile"] for one in gpu["mig"]] == ["1g.10gb", "1g.10gb"]
    place.simulate = GPUS
    assert "GPU 0 ok NVIDIA H100 80GB HBM3, MIG: 1g.10gb (7) 1g.10gb (8), simulated" in " ".join(
        place.bench("doctor").split()
    )

    run = place.start("run", "--", "sleep", "60")
    wait_for(lambda: place.query("select from runs where status = 'running'"), "the run")
    place.simulate = "2xH100"
    printed = " ".join(place.bench("up", status=2).split())
    assert f"BENCH_SIMULATE={GPUS}, and 1 run " in printed
    run.interrupt()
    run.wait(status=130)
