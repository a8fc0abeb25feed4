"""Assignment of targets to collectors."""

from __future__ import annotations

from collections import Counter

from hypergauge.collector.sharing.assignment import winner

HOSTS = [f"node{number}" for number in range(1000)]
SOURCES = [f"{number:032x}" for number in range(4)]


def test_the_assignment_is_even() -> None:
    counts = Counter(winner(host, SOURCES) for host in HOSTS)
    assert counts.keys() == set(SOURCES)
    assert min(counts.values()) > 0.8 * len(HOSTS) / len(SOURCES)


def test_only_an_ended_collectors_targets_move() -> None:
    with_it, without = ({host: winner(host, sources) for host in HOSTS} for sources in (SOURCES, SOURCES[1:]))
    moved = {host for host in HOSTS if with_it[host] != without[host]}
    assert moved == {host for host in HOSTS if with_it[host] == SOURCES[0]}
    assert {without[host] for host in moved} == set(SOURCES[1:]), "all others get some of them"


def test_the_order_of_collectors_does_not_matter() -> None:
    assert all(winner(host, SOURCES) == winner(host, reversed(SOURCES)) for host in HOSTS)
