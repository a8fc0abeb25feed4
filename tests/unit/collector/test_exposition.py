"""Expositions as arrays, equal to the reference parser's results except for the listed cases."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from hypergauge.collector.convert.exposition import GarbageExposition, Parser, Scrape

Row = tuple[str, tuple[tuple[str, str], ...], float | None, float | None]


def rows(parser: Parser, scrape: Scrape) -> list[Row]:
    """Return the samples of a scrape as plain values; NaN and a missing timestamp are ``None``, which can be compared."""
    return [
        (
            parser.series[ref].metric,
            parser.series[ref].labels,
            None if math.isnan(value) else value,
            None if math.isnan(time) else time,
        )
        for ref, value, time in zip(
            scrape.refs.tolist(), scrape.values.tolist(), scrape.timestamps.tolist(), strict=True
        )
    ]


def reference(text: str) -> list[Row]:
    """Return the samples of the reference parser, without the TYPE lines after which it renames."""
    bare = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#"))
    return [
        (s.name, tuple(sorted(s.labels.items())), None if math.isnan(s.value) else float(s.value), seconds(s))
        for family in text_string_to_metric_families(bare)
        for s in family.samples
    ]


def seconds(sample: Sample) -> float | None:
    return None if sample.timestamp is None else float(sample.timestamp)


@pytest.mark.parametrize(
    "line",
    [
        "up 1",
        "up{} 1",
        "up\t1",
        "  up   1  ",
        "up 1\r",
        "up 1 1700000000123",
        'up{a="b"} 1 -5',
        'up{a="b"}1',
        'up {a="b"} 1',
        'up{ a = "b" , c="d", } 1',
        'up{c="d",a="b"} 1',
        'up{a="x } y"} 1',
        'up{a="x { y"} 1',
        'up{a="say \\"}\\" 5"} 1',
        'up{a="back\\\\slash",b="line\\nend"} 1',
        'up{a="x # {y} 3"} 1',
        'up{a="größe µ 温度"} 1.5e-3',
        'up{a=""} 0',
        '{"my.metric",a="b"} 2',
        '{"my.metric","my.label"="b"} 2',
        "up NaN",
        "up +Inf",
        "up -Inf",
        "up 9007199254740993",
        "up 123456789012345678901234567890",
        "up .5",
        "ns:rule:sum 3",
    ],
)
def test_a_line_equals_the_reference_at_first_and_when_cached(line: str) -> None:
    parser = Parser()
    first = rows(parser, parser.parse(line.encode()))
    again = parser.parse(line.encode())
    assert first == reference(line)
    assert rows(parser, again) == first
    assert again.new == {}


@pytest.mark.parametrize(
    "line",
    [
        "up",
        "up{} ",
        "up one",
        "up 1 2 3",  # the reference takes the last number for the timestamp
        "up 1 NaN",
        "up 1 soon",
        "up 1_000",
        "up \u0661",  # a digit, but not one of the format
        "up # {} 1",
        'up{a="b" 1',
        'up{a="b} 1',
        "up{a=b} 1",
        "up{a=} 1",
        'up{a="b",c=} 1',
        'up{a=,c="d"} 1',
        "up{a= } 1",
        "up{,} 1",
        'up{,a="b"} 1',
        'up{a="b",,c="d"} 1',
        'up{a="b"c="d"} 1',
        "up{a} 1",
        'up{"a"} 1',
        'up{a:b="c"} 1',
        'up{""="c"} 1',
        'up{=""} 1',
        'up{__name__="a"} 1',
        '{__name__="up"} 1',
        '{"up", "b = "c"}',
        "{A}0",
        "up{a='b'} 1",
        "up 0x1p-3",
        "up true",
        "9 1",
        'up{a="b",a="c"} 1',
        'up{a="b"} 1 }',
        'up{a="b"} 1 {c="d"}',
        '{a="b"} 1',
        "9up 1",
        "{ =} 1",
        "<html>",
        "\x00\x01\x02",
        'up{a="b\x00c"} 1',  # invalid text in PostgreSQL
        '{"u\x00p",a="b"} 1',
        'up{"a\x00"="b"} 1',
    ],
)
def test_a_malformed_line_costs_no_other(line: str) -> None:
    parser = Parser()
    scrape = parser.parse(f'before 1\n{line}\nup{{a="b"}} 2\nafter 3'.encode())
    assert rows(parser, scrape) == [("before", (), 1, None), ("up", (("a", "b"),), 2, None), ("after", (), 3, None)]
    assert (scrape.malformed, scrape.repeated, sorted(scrape.new)) == (1, 0, [0, 1, 2])
    with pytest.raises(GarbageExposition, match="none of the 1 lines is a sample"):
        Parser().parse(line.encode())


def test_invalid_utf8_is_malformed() -> None:
    scrape = Parser().parse(b'up{a="\xff"} 1\nup 2\n')
    assert (scrape.values.tolist(), scrape.malformed) == ([2.0], 1)


def test_a_cached_series_can_be_malformed() -> None:
    parser = Parser()
    parser.parse(b'up{a="b"} 1\nload 2')
    scrape = parser.parse(b'up{a="b"} oops\nload 3')
    assert rows(parser, scrape) == [("load", (), 3, None)]
    assert scrape.malformed == 1
    with pytest.raises(GarbageExposition):
        parser.parse(b"load")
    assert len(parser.parse(b'up{a="b"} 1').refs) == 1


@pytest.mark.parametrize("line", ["up} 2", 'load{a="b" 2', "up 1\x0b5"])
def test_a_line_similar_to_a_cached_series_is_another(line: str) -> None:
    parser = Parser()
    parser.parse(b'up 1\nload{a="b"} 1\nload{} 1\n')
    with pytest.raises(GarbageExposition):
        parser.parse(line.encode())


@pytest.mark.parametrize("exposition", [b"", b"\n\n", b"# HELP up {nothing} yet\n", b"# EOF\n"])
def test_an_exposition_without_lines_is_an_empty_scrape(exposition: bytes) -> None:
    scrape = Parser().parse(exposition)
    assert (len(scrape.refs), len(scrape.values), len(scrape.timestamps), scrape.malformed) == (0, 0, 0, 0)
    assert (scrape.refs.dtype, scrape.values.dtype) == (np.dtype("u4"), np.dtype("f8"))


def test_the_first_line_of_a_duplicate_series_counts() -> None:
    parser = Parser()
    scrape = parser.parse(b'up{a="b",c="d"} broken\nup{a="b",c="d"} 1\nload 5\nup{c="d",a="b"} 2\nload 6\n')
    assert scrape.values.tolist() == [1, 5]
    assert (scrape.repeated, scrape.malformed, len(parser.series)) == (2, 1, 2)


def test_openmetrics_has_seconds_and_exemplars() -> None:
    exposition = b'# TYPE rpc counter\nrpc_total{a="b"} 5 1700000000.25 # {trace="x"} 0.5\nhits_total 6 # {} 1\n# EOF\n'
    parser = Parser()
    for new in (2, 0):
        scrape = parser.parse(exposition)
        assert rows(parser, scrape) == [("rpc_total", (("a", "b"),), 5, 1700000000.25), ("hits_total", (), 6, None)]
        assert len(scrape.new) == new
    other = parser.parse(exposition.replace(b'"x"', b'"y"'))
    assert (other.new, other.malformed) == ({}, 0)


@pytest.mark.parametrize(
    ("type_line", "metric", "kind"),
    [
        ("", "up", "gauge"),
        ("", "rpc_total", "counter"),
        ("# TYPE rpc_total untyped", "rpc_total", "counter"),
        ("# TYPE rpc_total gauge", "rpc_total", "gauge"),
        ("# TYPE rpc counter", "rpc", "counter"),  # where the reference would add _total
        ("# TYPE rpc_total counter", "rpc_total", "counter"),
        ("# TYPE rpc counter", "rpc_total", "counter"),
        ("  #  TYPE\trpc  counter ", "rpc", "counter"),
        ("# TYPE rpc histogram", "rpc_bucket", "counter"),
        ("# TYPE rpc histogram", "rpc_sum", "counter"),
        ("# TYPE rpc histogram", "rpc_count", "counter"),
        ("# TYPE rpc summary", "rpc_sum", "counter"),
        ("# TYPE rpc summary", "rpc_count", "counter"),
        ("# TYPE rpc summary", "rpc", "gauge"),
        ("# TYPE rpc gauge", "rpc_count", "gauge"),
        ("# HELP rpc counter", "rpc", "gauge"),
        ("# TYPE other counter", "rpc", "gauge"),
        ("# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter"),
    ],
)
def test_the_kind_comes_from_the_type_line_and_the_name_stays(type_line: str, metric: str, kind: str) -> None:
    parser = Parser()
    [series] = parser.parse(f'# HELP x y\n{type_line}\n{metric}{{gpu="0"}} 1\n'.encode()).new.values()
    assert (series.metric, series.labels, series.kind) == (metric, (("gpu", "0"),), kind)


def test_a_quoted_name_has_its_type() -> None:
    parser = Parser()
    parser.parse(b'# TYPE "my.rpc" counter\n{"my.rpc"} 1\n')
    assert parser.series[0].kind == "counter"


def test_new_series_are_reported_once_and_refs_stay() -> None:
    parser = Parser()
    first = parser.parse(b'up{a="1"} 1\nup{a="2"} 2\n')
    second = parser.parse(b'up{a="3"} 3\nup{a="2"} 4\n')
    assert (list(first.new), list(second.new)) == ([0, 1], [2])
    assert second.refs.tolist() == [2, 1]


def test_ever_new_labels_cost_bounded_memory() -> None:
    parser = Parser(forget_after=10)
    steady = set()
    for number in range(1000):
        scrape = parser.parse(f'steady 1\npod{{id="{number}"}} 1\n'.encode())
        steady.add(int(scrape.refs[0]))
        [(ref, series)] = [(ref, s) for ref, s in scrape.new.items() if s.metric == "pod"]
        assert (scrape.refs[1], series.labels) == (ref, (("id", str(number)),))
    assert steady == {0}
    assert len(parser.series) <= 22


def test_a_series_missing_for_less_is_not_forgotten() -> None:
    parser = Parser(forget_after=10)
    parser.parse(b"seldom 1\nup 1")
    for _ in range(9):
        parser.parse(b"up 1")
    assert parser.parse(b"seldom 2\nup 1").new == {}


def test_labels_in_any_order_are_one_series() -> None:
    parser = Parser(forget_after=5)
    names = [f"l{n}" for n in range(7)]
    for iteration in range(100):
        names = names[iteration % 7 :] + names[: iteration % 7][::-1]
        labels = ",".join(f'{name}="x"' for name in names)
        scrape = parser.parse(f"up{{{labels}}} {iteration}".encode())
        assert (scrape.refs.tolist(), scrape.values.tolist()) == ([0], [iteration])


def registry() -> CollectorRegistry:
    made = CollectorRegistry()
    Counter("rpc", "Calls.", ["path"], registry=made).labels('/a"b\\c\nd}').inc(3)
    Gauge("temperature_celsius", "With {braces}.", registry=made).set(-1.5)
    Histogram("latency_seconds", "Latency.", registry=made).observe(0.2)
    Summary("size_bytes", "Size.", ["a", "b"], registry=made).labels("x", "y").observe(7)
    Gauge("nothing", "No value.", registry=made).set(math.nan)
    return made


def test_a_real_registry_equals_the_reference() -> None:
    exposition = generate_latest(registry())
    parser = Parser()
    parsed = [rows(parser, parser.parse(exposition)) for _ in range(2)]
    assert parsed == [reference(exposition.decode())] * 2
    kinds = {series.metric: series.kind for series in parser.series}
    assert kinds["rpc_total"] == kinds["latency_seconds_bucket"] == kinds["size_bytes_count"] == "counter"
    assert kinds["rpc_created"] == kinds["temperature_celsius"] == "gauge"


def test_a_real_registry_in_openmetrics_has_the_same_values() -> None:
    made = registry()
    text, openmetrics = Parser(), Parser()
    assert set(
        rows(
            openmetrics,
            openmetrics.parse(generate_openmetrics(made)),  # type: ignore[no-untyped-call]
        )
    ) == set(rows(text, text.parse(generate_latest(made))))


blanks = st.sampled_from(["", " ", "  ", "\t"])
values = st.one_of(
    st.floats().map(repr), st.integers().map(str), st.sampled_from(["NaN", "+Inf", "-Inf", "1e+06", "0x", ""])
)
label_values = st.text(st.sampled_from('ab}{"\\\n#, =é温'), max_size=6).map(
    lambda text: text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
)


@st.composite
def lines(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(["up", "load", "a:b_total"]))
    names = draw(st.lists(st.sampled_from(["a", "b", "le"]), unique=True, max_size=3))
    labels = [f'{draw(blanks)}{n}{draw(blanks)}={draw(blanks)}"{draw(label_values)}"{draw(blanks)}' for n in names]
    comma = st.sampled_from(["", ","])
    empty = draw(st.booleans())
    braces = f"{draw(blanks)}{{{','.join(labels)}{draw(comma) if labels else ''}}}"
    timestamp = draw(st.one_of(st.just(""), st.integers(-(2**50), 2**50).map(lambda ms: f" {ms}")))
    return f"{draw(blanks)}{name}{braces if labels or empty else ''} {draw(values)}{timestamp}"


def expected(exposition: list[str]) -> list[Row]:
    found: dict[object, Row] = {}
    for line in exposition:
        try:
            [row] = reference(line)
        except ValueError:
            continue
        found.setdefault(row[:2], row)
    return list(found.values())


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(lines(), min_size=1, max_size=5), min_size=1, max_size=4))
def test_any_expositions_equal_the_reference(expositions: list[list[str]]) -> None:
    parser = Parser()
    for exposition in expositions:
        wanted = expected(exposition)
        try:
            scrape = parser.parse("\n".join(exposition).encode())
        except GarbageExposition:
            assert wanted == []
        else:
            assert rows(parser, scrape) == wanted
            assert len(scrape.refs) + scrape.repeated + scrape.malformed == len(exposition)


def test_a_line_in_place_of_a_comment_is_parsed() -> None:
    parser = Parser()
    for exposition in (
        b"a 1\nb 1",
        b"\nb 2",
        b"\nb 3",
        b"a 4\nb 4",
        b"# a\nb 5",
        b"# a\nb 6",
        b"# other\nb 7",
        b"a 8\nb 8",
        b" # a\nb 9",
        b" a 8\nb 9",
    ):
        scrape = parser.parse(exposition)
        lines = [line for line in exposition.split(b"\n") if line and not line.strip().startswith(b"#")]
        assert len(scrape.refs) == len(lines), exposition
