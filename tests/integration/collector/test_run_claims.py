"""Ids of runs on the lines of a target: they count for runs that are placed on the target's host."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.collector.one_line import SECONDS, scrape_line
from tests.support.world import HOST, World

pytestmark = pytest.mark.flavours


@pytest.fixture
def start() -> float:
    return time.time() // 60 * 60 - 3600


def scrape(world: World, folder: Path, start: float, job: str, labels: str) -> None:
    """Scrape a target that shows 666 threads, with `labels` on its line."""
    file = folder / "targets.yml"
    file.write_text(f"scrape_configs:\n  - {{job_name: app, {job}}}\n")
    scrape_line(world, file, f"bench_process_threads{{{labels}}} 666\n", start)


def values(world: World, run: str) -> list[tuple[str, float]]:
    return world.connection.execute(
        "select distinct scope, value from run_samples where run_id = %s", (run,)
    ).fetchall()


@pytest.mark.parametrize("label", ["", 'Hostname="{}"', 'hostname="{}"', 'host="{}"', 'instance="{}:9400"'])
@pytest.mark.parametrize("more", ["", ", labels: {host: node2}"], ids=["address", "label"])
def test_a_target_of_another_host_claims_no_run(
    world: World, start: float, tmp_path: Path, label: str, more: str
) -> None:
    run = world.run(start, start + 60)
    labels = ",".join(filter(None, (f'run_id="{run}",run="{run}"', label.format(HOST))))
    scrape(world, tmp_path, start, f"static_configs: [{{targets: ['node2:8000']{more}}}]", labels)
    assert values(world, run) == []
    assert world.connection.execute("select p.kind, p.host, p.run_id from series join places p using (place_id)").fetchall() == [
        ("process", "node2", run)
    ]  # fmt: skip
    assert world.connection.execute("select count(*) from samples").fetchone() == (SECONDS,)


def test_a_target_of_its_host_gives_values_of_the_run(world: World, start: float, tmp_path: Path) -> None:
    run, other = world.run(start, start + 60), world.run(start, start + 60, position=2)
    scrape(world, tmp_path, start, f"static_configs: [{{targets: ['{HOST}:8000']}}]", f'run_id="{run}"')
    assert values(world, run) == [("process", 666.0)]
    assert values(world, other) == []


@pytest.mark.parametrize("label", ["host", "instance"])
def test_honored_labels_name_the_host_of_the_run(world: World, start: float, tmp_path: Path, label: str) -> None:
    """The operator trusts the lines of another Prometheus."""
    run = world.run(start, start + 60)
    job = "honor_labels: true, static_configs: [{targets: ['prometheus:9090'], labels: {host: prometheus}}]"
    if label == "instance":
        job = job.replace(", labels: {host: prometheus}", "")
    scrape(world, tmp_path, start, job, f'run_id="{run}",{label}="{HOST}"')
    assert values(world, run) == [("process", 666.0)]
