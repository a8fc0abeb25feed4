"""Which of several collectors a target is for."""

from __future__ import annotations

from collections import Counter

from collector.shares import winner

KEYS = [(f"node{number}", "nvml", f"node{number}:9703") for number in range(1000)]
SOURCES = [f"{number:032x}" for number in range(4)]


def test_shares_are_about_alike() -> None:
    counts = Counter(winner(key, SOURCES) for key in KEYS)
    assert counts.keys() == set(SOURCES)
    assert min(counts.values()) > 0.8 * len(KEYS) / len(SOURCES)


def test_only_what_one_had_moves_when_it_goes() -> None:
    with_it, without = ({key: winner(key, sources) for key in KEYS} for sources in (SOURCES, SOURCES[1:]))
    moved = {key for key in KEYS if with_it[key] != without[key]}
    assert moved == {key for key in KEYS if with_it[key] == SOURCES[0]}
    assert {without[key] for key in moved} == set(SOURCES[1:]), "all others get some of it"


def test_the_order_in_which_they_are_known_is_nothing() -> None:
    assert all(winner(key, SOURCES) == winner(key, reversed(SOURCES)) for key in KEYS)
