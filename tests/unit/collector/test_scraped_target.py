"""Conversion of scrapes to records: names, labels and limits as in Prometheus, and the scrape cache."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import numpy as np
import pytest

from hypergauge.collector.convert.definitions import Definitions
from hypergauge.collector.convert.exposition import Parser, Series
from hypergauge.collector.convert.series_labels import LimitExceeded, series_name
from hypergauge.collector.discovery.relabel import Rule
from hypergauge.collector.discovery.scrape_config import Limits
from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.collector.scrape.scraped_target import ScrapedTarget
from hypergauge.collector.spool.queue import Spool
from hypergauge.sql.ingest.catalog import packaged_kinds
from hypergauge.sql.ingest.samples import LineHost
from tests.support.collector.scraped_target import Scraped, target, value


@pytest.mark.parametrize(
    ("added", "own", "honor", "expected"),
    [
        ({"rack": "7"}, {"cpu": "0"}, False, {"rack": "7", "cpu": "0"}),
        ({"rack": "7"}, {"rack": "8"}, False, {"rack": "7", "exported_rack": "8"}),
        ({"rack": "7"}, {"rack": "8"}, True, {"rack": "8"}),
        ({"rack": "7"}, {"rack": "8", "exported_rack": "9"}, False, {"rack": "7", "exported_rack": "9", "exported_exported_rack": "8"}),
        ({"rack": "7"}, {"rack": ""}, True, {}),  # as in Prometheus, whose federation relies on it
        ({"rack": "7"}, {"rack": ""}, False, {"rack": "7"}),
        ({"job": "node", "instance": "n1:1", "host": "n1"}, {"cpu": "0"}, False, {"cpu": "0"}),
        ({"job": "node"}, {"job": "batch"}, False, {"exported_job": "batch"}),
        ({"job": "node"}, {"job": "batch"}, True, {"job": "batch"}),
        ({}, {"job": "node"}, False, {"job": "node"}),
    ],
)  # fmt: skip
def test_labels_of_target_and_series(
    added: dict[str, str], own: dict[str, str], honor: bool, expected: dict[str, str]
) -> None:
    series = Series("m", tuple(sorted(own.items())), "gauge")
    name = series_name(target(added, honor_labels=honor), series)
    assert name is not None
    assert dict(name.labels) == expected


INSTANCE = {"job": "federate", "instance": "127.0.0.1:9090"}


@pytest.mark.parametrize(
    ("added", "own", "host"),
    [
        ({}, {"instance": "node7:9100"}, LineHost("node7")),
        ({}, {"instance": "node7"}, LineHost("node7")),
        ({}, {"instance": "[2001:db8::1]:9100"}, LineHost("2001:db8::1")),
        ({}, {"instance": "2001:db8::1"}, LineHost("2001:db8::1")),
        ({}, {"instance": "https://node7.site:9100/metrics"}, LineHost("node7.site")),
        ({}, {"instance": "a name of its own"}, LineHost("a name of its own")),
        ({}, {"instance": "localhost:9090"}, None),  # the host of the address
        ({}, {"instance": "127.0.0.1:9090"}, None),
        ({}, {"instance": ""}, LineHost("")),
        ({}, {"cpu": "0"}, None),
        ({}, {"host": "node7"}, None),  # of whatever the line describes, such as a web server
        ({"host": "node8"}, {"instance": "node7:9100"}, None),
        ({"host": "node8"}, {"instance": "node7:9100", "host": "node7"}, LineHost("node7", by_label=True)),
    ],
)
def test_a_line_names_its_host_where_its_labels_are_honored(
    added: dict[str, str], own: dict[str, str], host: LineHost | None
) -> None:
    series = Series("m", tuple(sorted(own.items())), "gauge")
    honored = series_name(target({**INSTANCE, **added}, honor_labels=True), series)
    assert honored is not None
    assert honored.host == host
    name = series_name(target({**INSTANCE, **added}), series)
    assert name is not None
    assert name.host is None


@pytest.mark.parametrize(
    ("rule", "host"),
    [
        (Rule(source_labels=("instance",), regex="([^.]+).*", target_label="host"), LineHost("node7", by_label=True)),
        (Rule(source_labels=("instance",), regex="([^.]+).*", target_label="instance"), LineHost("node7")),
        (Rule(action="labeldrop", regex="instance"), None),
    ],
)
def test_relabeling_names_the_host_of_a_series(rule: Rule, host: LineHost | None) -> None:
    series = Series("m", (("instance", "node7.site:9100"),), "gauge")
    name = series_name(target(INSTANCE, honor_labels=True, metric_relabel=(rule,)), series)
    assert name is not None
    assert name.host == host


ENERGY, CLOCK = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_SM_CLOCK"


@pytest.mark.parametrize(
    ("type_line", "warned"),
    [("", []), (f"# TYPE {ENERGY} untyped\n", []), (f"# TYPE {ENERGY} unknown\n", []), (f"# TYPE {ENERGY} counter\n", []), (f"# TYPE {ENERGY} gauge\n", [ENERGY])],
)  # fmt: skip
def test_the_catalogs_kind_counts(type_line: str, warned: list[str], caplog: pytest.LogCaptureFixture) -> None:
    scraped = Scraped(target(), kinds=packaged_kinds())
    for energy in (0, 200_000, 400_000):
        found = scraped.take(f'{type_line}{ENERGY}{{gpu="0"}} {energy}\n{ENERGY}{{gpu="1"}} 5\n{CLOCK} 3\n')
    assert found == {f"{ENERGY}{{gpu=0}}": (1002, 200_000), f"{ENERGY}{{gpu=1}}": (1002, 0), f"{CLOCK}{{}}": (1002, 3)}
    assert len(caplog.records) == caplog.text.count(ENERGY) == len(warned), "once, not for each series"
    count = value(scraped.metrics.registry, "bench_collector_kind_conflicts_total", metric=ENERGY)
    assert count == len(warned)


def test_a_gauge_of_the_catalog_that_is_declared_as_a_counter_is_a_gauge() -> None:
    scraped = Scraped(target(), kinds=packaged_kinds())
    assert scraped.take(f"# TYPE {CLOCK} counter\n{CLOCK} 3\n") == {f"{CLOCK}{{}}": (1000, 3)}


def test_the_kind_of_a_renamed_metric_is_that_of_its_new_name() -> None:
    rule = Rule(source_labels=("__name__",), regex="energy", target_label="__name__", replacement=ENERGY)
    scraped = Scraped(target(metric_relabel=(rule,)), kinds=packaged_kinds())
    assert scraped.take("energy 5\n") == {}
    assert scraped.take("energy 7\n") == {f"{ENERGY}{{}}": (1001, 2)}


def test_series_are_relabeled_once() -> None:
    rules = (
        Rule(action="drop", source_labels=("__name__",), regex="go_.*"),
        Rule(source_labels=("__name__",), regex="old_(.*)", target_label="__name__", replacement="new_$1"),
        Rule(action="labeldrop", regex="pod"),
        Rule(
            action="labeldrop",
            regex="__name__|only",
        ),
    )[:3]
    scraped = Scraped(target(metric_relabel=rules))
    exposition = 'go_threads 5\nold_a{pod="x",b="1"} 1\nkept 2\n'
    for _ in range(2):
        assert {name: number for name, (_, number) in scraped.take(exposition).items()} == {
            "new_a{b=1}": 1,
            "kept{}": 2,
        }
    assert scraped.dropped("relabel") == 2
    assert len(scraped.scraped.definitions.by_ref) == 2


def test_the_first_of_two_merged_series_counts() -> None:
    scraped = Scraped(target(metric_relabel=(Rule(action="labeldrop", regex="pod"),)))
    for _ in range(2):
        assert scraped.take('a{pod="x"} 1\na{pod="y"} 2\n')["a{}"][1] == 1
    assert scraped.take('a{pod="z"} 3\n')["a{}"][1] == 3, "a series that replaces another continues it"
    assert scraped.dropped("relabel") == 2


def test_definitions_of_unspooled_records_are_kept() -> None:
    async def follow() -> None:
        scraped = Scraped(target(metric_relabel=(Rule(action="labeldrop", regex="pod"),)))
        scraped.take('a{pod="x"} 1\n')
        scraped.scraped.unspooled.append(appending := asyncio.create_task(asyncio.sleep(0)))
        for number in (2, 3):
            scraped.take(f'a{{pod="y"}} {number}\n')
            assert len(scraped.scraped.definitions.by_ref) == 2
        await appending
        scraped.take('a{pod="y"} 4\n')
        assert len(scraped.scraped.definitions.by_ref) == 1

    asyncio.run(follow())


def test_a_series_needs_a_name() -> None:
    scraped = Scraped(target(metric_relabel=(Rule(action="labelkeep", regex="b"),)))
    assert scraped.take('a{b="1"} 1\n') == {}


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(label_limit=2), "label_limit"),
        (Limits(label_name_length_limit=8), "label_name_length_limit"),
        (Limits(label_value_length_limit=3), "label_value_length_limit"),
        (Limits(sample_limit=1), "sample_limit"),
    ],
)
def test_a_scrape_beyond_a_limit_fails_as_a_whole(limits: Limits, reason: str) -> None:
    scraped = Scraped(target(limits=limits))
    assert "a{}" in scraped.take("a 1\n")
    for _ in range(2):
        with pytest.raises(LimitExceeded) as exceeded:
            scraped.take('a 2\nb{name="1234",too_long_a_name="5"} 3\n')
        assert exceeded.value.reason == reason
    assert scraped.take("a 4\n")["a{}"][1] == 4


@pytest.mark.parametrize("limits", [Limits(), Limits(3, 2, 3, 10, 5)])
def test_a_scrape_at_its_limits_is_stored(limits: Limits) -> None:
    assert len(Scraped(target(limits=limits)).take('a{b="12345",c="1"} 1\nb 2\n')) == 2


def test_dropped_series_count_for_no_limit() -> None:
    rules = (Rule(action="drop", source_labels=("__name__",), regex="b.*"),)
    scraped = Scraped(target(metric_relabel=rules, limits=Limits(sample_limit=1, label_value_length_limit=1)))
    assert list(scraped.take('a 1\nb{c="12345"} 2\nbb 3\n')) == ["a{}"]


def test_counters_continue_after_a_scrape_beyond_a_limit() -> None:
    scraped = Scraped(target(limits=Limits(sample_limit=1)))
    scraped.take("a_total 10\n", 1000)
    with pytest.raises(LimitExceeded):
        scraped.take("a_total 20\nb_total 1\n", 1001)
    assert scraped.take("a_total 30\n", 1002)["a_total{}"] == (1002, 10.0)
    assert scraped.take("b_total 5\n", 1003) == {}, "new series of the failed scrape start now"
    assert scraped.take("b_total 6\n", 1004)["b_total{}"] == (1004, 1.0)


def test_ever_changing_series_cost_bounded_memory() -> None:
    scraped = Scraped(target())
    known = []
    for number in range(17):
        exposition = "".join(f'a{{id="{number}-{line}"}} 1\n' for line in range(5_000))
        assert len(scraped.take(exposition)) == 5_000
        known.append(len(scraped.scraped.definitions.by_ref))
    assert max(known) <= 50_000 + 5 * 5_000
    assert min(known[1:]) < max(known)


def test_a_removed_targets_series_are_forgotten() -> None:
    scraped = Scraped(target())
    scraped.take("a 1\nb 2\n")
    scraped.scraped.forget()
    assert scraped.scraped.definitions.by_ref == {}


def test_a_forgotten_series_returns_as_the_same() -> None:
    scraped = Scraped(target())
    scraped.scraped.parser = Parser(forget_after=2)
    scraped.take("a 1\nb 1\n")
    for _ in range(4):
        scraped.take("b 1\n")
    assert scraped.take("a 2\nb 2\nc 2\n").keys() == {"a{}", "b{}", "c{}"}
    assert np.isfinite(scraped.take("a 3\nb 3\nc 3\n")["a{}"][1])


@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "a", "b"), ("c", "b", "a")])
def test_a_series_may_return_after_its_ref_was_reused(order: tuple[str, ...]) -> None:
    scraped = Scraped(target())
    scraped.scraped.parser = Parser(forget_after=2)
    scraped.take("a 1\nb 1\n")
    for _ in range(4):
        scraped.take("b 1\n")
    assert scraped.take("".join(f"{name} 2\n" for name in order)).keys() == {"a{}", "b{}", "c{}"}
    assert scraped.dropped("relabel") == 0


DCGM = 'DCGM_FI_DEV_X{{gpu="{gpu}"}} {number}\n'


@pytest.mark.parametrize(
    "number",
    [
        *(str(2147483632 + more) for more in range(4)),
        *(str(9223372036854775792 + more) for more in range(4)),
        *(f"{140737488355328 + more}.000000" for more in range(4)),
    ],
)
def test_dcgms_sentinels_are_no_values(number: str) -> None:
    scraped = Scraped(target())
    exposition = DCGM.format(gpu=0, number=number) + DCGM.format(gpu=1, number=50)
    for _ in range(2):
        assert [(name, value) for name, (_, value) in scraped.take(exposition).items()] == [
            ("DCGM_FI_DEV_X{gpu=1}", 50)
        ]
    assert scraped.dropped("sentinel") == 2
    assert scraped.take(DCGM.format(gpu=0, number=7))["DCGM_FI_DEV_X{gpu=0}"][1] == 7
    assert scraped.take(DCGM.format(gpu=0, number=number)) == {}
    assert len(scraped.take(f"x_bytes {number}\n")) == 1, "other metrics have no sentinels"


@pytest.mark.parametrize(
    "number", [2147483631, 2147483636, 140737488355327, 140737488355332, 9223372036854773760, -2147483632]
)
def test_numbers_next_to_the_sentinels_are_values(number: int) -> None:
    scraped = Scraped(target())
    assert scraped.take(DCGM.format(gpu=0, number=number))["DCGM_FI_DEV_X{gpu=0}"][1] == number
    assert scraped.dropped("sentinel") == 0


def test_a_counter_continues_after_a_sentinel() -> None:
    scraped = Scraped(target())
    name = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
    for at, number, rate in ((1000, 1000, None), (1001, 9223372036854775794, None), (1002, 1600, 300)):
        found = scraped.take(f"# TYPE {name} counter\n{name} {number}\n", at)
        assert found == ({} if rate is None else {f"{name}{{}}": (at, rate)})


def test_sentinels_follow_reused_refs() -> None:
    scraped = Scraped(target())
    scraped.scraped.parser = Parser(forget_after=2)
    sentinel = 2147483632
    for _ in range(5):
        scraped.take("up 1\n" + "".join(DCGM.format(gpu=gpu, number=sentinel) for gpu in range(100)))
    for _ in range(5):
        scraped.take("up 1\n")
    assert len(scraped.take("up 1\n" + "".join(f'x{{n="{number}"}} {sentinel}\n' for number in range(200)))) == 201


def test_refs_stay_few_with_ever_changing_series(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One target keeps changing its series; the writer and the segments keep state by ref."""
    monkeypatch.setattr("hypergauge.collector.convert.definitions._MOST_DELETED", 500)
    monkeypatch.setattr("hypergauge.collector.scrape.scraped_target._MOST_CACHED", 100)
    metrics, definitions = CollectorMetrics(), Definitions()
    steady = ScrapedTarget(target(), 7, definitions, metrics, 0.0)
    restless = ScrapedTarget(target(), 8, definitions, metrics, 0.0)
    spool = Spool(tmp_path / "spool")
    found: list[tuple[str, float]] = []
    highest = 0
    for number in range(200):
        few = "".join(f'a{{n="{n}"}} {number}\n' for n in range(20))
        new = "".join(f'b{{n="{number}-{n}"}} {number}\n' for n in range(50))
        for scraped, exposition in ((steady, few), (restless, new)):
            record = scraped.read(exposition.encode(), 1000.0 + number, 0.0, 0.0, 0.0)
            assert record is not None
            spool.append(record)
            highest = max(highest, int(record.refs.max()))
    assert highest < 2000
    assert len(definitions.by_ref) < 1000
    for record in iter(spool.take, None):
        found += [(record.series[ref].metric + str(record.series[ref].labels), value)
                  for ref, value in zip(record.refs.tolist(), record.values.tolist(), strict=True)]  # fmt: skip
    spool.close()
    wanted = [(f"a{{'n': '{n}'}}", number) for number in range(200) for n in range(20)]
    wanted += [(f"b{{'n': '{number}-{n}'}}", number) for number in range(200) for n in range(50)]
    assert sorted(found) == sorted(wanted)


def test_a_target_with_ever_new_series_fails_until_the_hour_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cache stays small, and a target of the same collector goes on."""
    monkeypatch.setattr("hypergauge.collector.scrape.new_series._MOST", 500)
    monkeypatch.setattr("hypergauge.collector.scrape.scraped_target._MOST_CACHED", 100)
    metrics, definitions = CollectorMetrics(), Definitions()
    steady = ScrapedTarget(target(), 7, definitions, metrics, 0.0)
    hostile = ScrapedTarget(target(), 8, definitions, metrics, 0.0)
    stored: dict[int, int] = {}  # series by hour
    for number in range(0, 7200, 60):
        assert steady.read(b"up 1\n", 1000.0 + number, 0.0, 0.0, 0.0) is not None
        exposition = "".join(f'b{{n="{number}-{n}"}} 1\n' for n in range(50)).encode()
        with contextlib.suppress(LimitExceeded):
            record = hostile.read(exposition, 1000.0 + number, 0.0, 0.0, 0.0)
            assert record is not None
            stored[number // 3600] = stored.get(number // 3600, 0) + len(record)
        assert len(hostile.parser.series) <= 100 + 5 * 50
    assert stored[0] == 500
    assert 50 <= stored[1] <= 500
    with pytest.raises(LimitExceeded, match="more than 500 new series within an hour") as exceeded:
        hostile.read(b"".join(b"c%d 1\n" % n for n in range(501)), 8200.0, 0.0, 0.0, 0.0)
    assert exceeded.value.reason == "new_series"
    assert len(definitions.by_ref) < 1000


def test_new_series_up_to_the_sample_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hypergauge.collector.scrape.new_series._MOST", 5)
    large = Scraped(target(limits=Limits(sample_limit=50)))
    lines = "".join(f'b{{n="{n}"}} 1\n' for n in range(40))
    assert len(large.take(lines)) == len(large.take(lines)) == 40
    with pytest.raises(LimitExceeded, match="more than 50 new series"):
        large.take("".join(f'c{{n="{n}"}} 1\n' for n in range(11)))
