"""Collectors that follow the choices of runs, and schedulers that wait for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from hypergauge.collector.discovery.targets import Target
from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.collector.sharing.leases import Leases
from hypergauge.scheduler import measuring
from hypergauge.scheduler.measuring import await_choices
from hypergauge.sql.ingest.choices import Choice, are_followed, host_choices
from hypergauge.sql.runs import experiments, runs
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.session import Session
from tests.support.world import HOST, World

pytestmark = pytest.mark.parametrize("flavour", [Flavour.POSTGRESQL], indirect=True, ids=["postgresql"])

TARGETS = {
    target.key: target
    for target in (Target(f"http://{name}:1/metrics", HOST, name, "") for name in ("host", "nvml", "collector"))
}


@pytest.fixture
def leases(database: Database) -> Iterator[Leases]:
    leases = Leases(database, "mine", CollectorMetrics(), exporters=("host", "nvml"))
    leases.begin(TARGETS)
    yield leases
    leases.close()


def look(leases: Leases) -> Mapping[str, float]:
    """Do what the collector does once a second; return the intervals of the scraped targets by exporter."""
    leases.keep(TARGETS, {})
    scraped = leases.needed
    leases.confirm(scraped)
    return {target.listener: target.interval for target in scraped.values()}


def pending(world: World, number: int, exporters: Choice | None, *, host: str = HOST, lease: float = 60.0) -> str:
    """Create a run that is about to start."""
    experiments.claim_experiment(world.connection, 1, name="test", source="test.csv", into=True)
    run_id = f"{number:032x}"
    run = runs.NewRun(
        run_id=run_id, mlflow_run_id=None, workload_id=experiments.open_workload(world.connection, 1, 1), position=number,
        attempt=1, name="", owner="me", command="true", environment="-", collocation="-", devices="", params={}, host=host,
        fingerprint=run_id, exporters=exporters,
    )  # fmt: skip
    runs.create_runs(world.connection, [run], lease)
    return run_id


def test_a_run_with_a_choice_waits_for_the_collector(world: World, leases: Leases) -> None:
    run = pending(world, 1, {"nvml": 0.1})
    assert not are_followed(world.connection, [run])
    assert look(leases) == {"nvml": 0.1, "collector": 1.0}
    assert are_followed(world.connection, [run])


def test_without_a_choice_on_the_host_no_run_waits(world: World, leases: Leases) -> None:
    assert look(leases) == {"host": 1.0, "nvml": 1.0, "collector": 1.0}
    pending(world, 1, {}, host="n9")
    assert are_followed(world.connection, [pending(world, 2, None)])
    assert look(leases) == {"host": 1.0, "nvml": 1.0, "collector": 1.0}


def test_a_run_waits_while_others_keep_exporters_silent(world: World, leases: Leases) -> None:
    """Else it would miss its first second."""
    pending(world, 1, {})
    assert look(leases) == {"collector": 1.0}
    second = pending(world, 2, None)
    assert not are_followed(world.connection, [second])
    assert look(leases) == {"host": 1.0, "nvml": 1.0, "collector": 1.0}
    assert are_followed(world.connection, [second])


def test_an_ended_run_has_no_choice(world: World, leases: Leases) -> None:
    run = pending(world, 1, {})
    world.connection.execute("update runs set status = 'running', started_at = now() where run_id = %s", (run,))
    assert look(leases) == {"collector": 1.0}
    world.end(run, 0, 1)
    assert look(leases) == {"host": 1.0, "nvml": 1.0, "collector": 1.0}
    assert are_followed(world.connection, [pending(world, 2, None)])


def test_a_scheduler_that_was_killed_silences_no_host(world: World, leases: Leases) -> None:
    pending(world, 1, {}, lease=-1.0)
    assert host_choices(world.connection) == {}
    assert look(leases) == {"host": 1.0, "nvml": 1.0, "collector": 1.0}


def test_all_collectors_of_the_host_are_waited_for(world: World, database: Database, leases: Leases) -> None:
    run = pending(world, 1, {})
    site = Leases(database, "site", CollectorMetrics())
    other = Target("http://weather:1/metrics", HOST, "weather", "")
    site.begin({other.key: other})
    look(leases)
    assert not are_followed(world.connection, [run])
    site.keep({other.key: other}, {})
    site.confirm(site.held)
    assert are_followed(world.connection, [run])
    site.release({})
    site.close()
    assert are_followed(world.connection, [pending(world, 2, {})]) is False


def test_a_collector_that_hangs_delays_a_start_by_seconds(
    world: World, database: Database, leases: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "_LONGEST_SECONDS", 0.1)
    said: list[str] = []
    run = pending(world, 1, {})
    with Session(database) as session:
        await_choices(session, [run], said.append)
        assert said == [
            "the collector does not follow the listeners of this workload yet; it measures the start as before"
        ]
        look(leases)
        await_choices(session, [run], said.append)
    assert len(said) == 1


def test_an_unmeasured_run_that_is_lost_ends_at_its_supervisors_last_sign(world: World) -> None:
    run = pending(world, 1, {"host": None})
    world.connection.execute(
        "update runs set status = 'running', started_at = now() - interval '100 s', lease_until = now() - interval '20 s'"
    )
    assert runs.end_lost_runs(world.connection, 10.0) == [run]
    [(seconds,)] = world.connection.execute(
        "select extract(epoch from ended_at - started_at)::float8 from runs"
    ).fetchall()
    assert seconds == pytest.approx(70)
