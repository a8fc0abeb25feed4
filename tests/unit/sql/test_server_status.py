"""Status of servers for reads, and of hosts' clocks."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.sql.ingest.targets import ClockOffset
from hypergauge.sql.server.replica import ReplicationState
from hypergauge.sql.server.server_status import ServerStatus

PRIMARY = ServerStatus(True, "PostgreSQL", replication=ReplicationState(False, False, None, 7))


@pytest.mark.parametrize(
    ("replication", "good"),
    [
        (ReplicationState(False, False, None, 7), True),
        (ReplicationState(True, True, 0.1, 7), True),
        (ReplicationState(True, True, 60.0, 7), False),
        (ReplicationState(True, False, 0.1, 7), False),
        (ReplicationState(True, True, 0.1, 8), False),
        (None, False),
    ],
    ids=["primary", "replica", "late", "disconnected", "other system", "down"],
)
def test_reads_go_to_a_replica_that_follows(replication: ReplicationState | None, good: bool) -> None:
    status = ServerStatus(replication is not None, "its reason", replication=replication)
    assert status.describe_reads(PRIMARY)[0] is good


def test_a_server_of_reads_is_another_one_if_it_is_configured(tmp_path: Path) -> None:
    assert PRIMARY.and_primary(Settings(home=tmp_path)) == (PRIMARY, None)
    assert PRIMARY.and_primary(Settings(home=tmp_path, read_dsn="host=replica")) == (PRIMARY, PRIMARY)


@pytest.mark.parametrize(
    ("offset", "uncertainty", "off"), [(0.002, 0.01, False), (3.0, 4.0, False), (2.5, 0.001, True), (-60.2, 0.02, True)]
)
def test_a_clock_is_off_only_beyond_its_uncertainty(offset: float, uncertainty: float, off: bool) -> None:
    assert ClockOffset("n1", offset, uncertainty).is_off is off
