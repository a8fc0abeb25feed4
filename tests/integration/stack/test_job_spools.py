"""Samples that the collector of a job could not write: the next job writes them, unless the first one still runs."""

from __future__ import annotations

import time

import pytest

from hypergauge.collector.spool.queue import Spool
from hypergauge.stack.services.job_spools import drain_ended_jobs
from tests.support.data.spools import fill_spool
from tests.support.world import World

NAME = "hypergauge-0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("folder", "state", "count"),
    [(NAME, "ended", 20), (f"{NAME}-2", "ended", 20), (NAME, "running", 0), ("hypergauge-unknown", "ended", 0)],
)
def test_what_a_job_that_has_ended_left_is_written(world: World, folder: str, state: str, count: int) -> None:
    settings = world.database.settings
    world.run(time.time() - 60)
    world.connection.execute(
        "insert into jobs (job, executor, workload_id, state) select %s, 'slurm', workload_id, %s from workloads",
        (NAME, state),
    )
    home = settings.home / "jobs" / folder
    (settings.home / "jobs" / "hypergauge-without-a-spool").mkdir(parents=True)
    fill_spool(world.database.dsn, home, scrapes=10, series=2)
    drain_ended_jobs(world.database, settings.home / "jobs")
    written = "select count(*) from samples join series using (series_id) where metric = 'backlog'"
    assert world.connection.execute(written.encode()).fetchone() == (count,)
    assert bool(list((home / "spool").glob("*.spool"))) == (not count)


def test_a_running_collector_keeps_its_spool(world: World) -> None:
    jobs = world.database.settings.home / "jobs"
    world.run(time.time() - 60)
    world.connection.execute(
        "insert into jobs (job, executor, workload_id, state) select %s, 'slurm', workload_id, 'ended' from workloads",
        (NAME,),
    )
    fill_spool(world.database.dsn, jobs / NAME, scrapes=10, series=2)
    going = Spool(jobs / NAME / "spool")
    drain_ended_jobs(world.database, jobs)
    assert going.depth == 10
    going.close()
