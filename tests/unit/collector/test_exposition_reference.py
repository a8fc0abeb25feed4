"""Whole responses, scraped repeatedly, against the reference parsers: values, timestamps and labels."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, Summary
from prometheus_client import Enum as StateSet
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families
from prometheus_client.samples import Sample

from hypergauge.collector.convert.exposition import GarbageExposition, Parser, Scrape

Key = tuple[str, tuple[tuple[str, str], ...]]
Row = tuple[float | None, float | None]


def ours(parser: Parser, scrape: Scrape) -> dict[Key, Row]:
    """Return the samples of a scrape in order; NaN and a missing timestamp are ``None``, which can be compared."""
    columns = zip(scrape.refs.tolist(), scrape.values.tolist(), scrape.timestamps.tolist(), strict=True)
    return {
        (parser.series[ref].metric, parser.series[ref].labels): (plain(value), plain(time))
        for ref, value, time in columns
    }


def theirs(samples: list[Sample], wire_names: list[str]) -> dict[Key, Row]:
    """Return the samples of the reference parser, with the names on the wire; the first duplicate counts."""
    found: dict[Key, Row] = {}
    for sample, name in zip(samples, wire_names, strict=True):
        assert sample.name in (name, f"{name}_total")  # after a counter's TYPE line the reference renames samples
        time = None if sample.timestamp is None else float(sample.timestamp)
        found.setdefault((name, tuple(sorted(sample.labels.items()))), (plain(float(sample.value)), time))
    return found


def plain(number: float) -> float | None:
    return None if math.isnan(number) else number


blank = st.text(" \t", max_size=2)
gap = st.text(" \t", min_size=1, max_size=2)
legacy_names = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,6}(_total|_bucket|_count|_sum)?", fullmatch=True)
# A few names, so that series return. NUL and surrogates are excluded: meaningful UTF-8 has neither.
any_text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
names = st.one_of(st.sampled_from(["up", "load", "rpc", "rpc_total", "ns:rule:sum"]), legacy_names)
quoted_names = any_text.filter(lambda name: bool(name.strip()))
label_names = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_]{0,5}", fullmatch=True)
floats = st.one_of(
    st.integers(-(2**53), 2**53).map(str), st.floats(allow_nan=False).map(repr), st.floats(width=32).map(lambda f: f"{f:e}"),
    st.sampled_from(["NaN", "nan", "+Inf", "-Inf", "Inf", "+inf", "inf", "-0", "00", "+1", ".5", "5.", "1E5", "1e+06"]),
)  # fmt: skip
milliseconds = st.one_of(st.integers(-(2**50), 2**50).map(str), st.integers(0, 2**40).map(lambda n: f"{n}.5"))


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return f'"{escaped}"'


@st.composite
def samples(draw: st.DrawFn) -> tuple[str, str]:
    """Draw a sample's line and its name."""
    utf8 = draw(st.integers(0, 4)) == 0
    name = draw(quoted_names if utf8 else names)
    pairs = draw(st.dictionaries(label_names, any_text, max_size=3))
    more = draw(st.dictionaries(quoted_names.filter(lambda n: not n.startswith("__")), any_text, max_size=1))
    labels = [*pairs.items(), *((quoted(n), value) for n, value in more.items() if n not in pairs)]
    terms = [f"{n}{draw(blank)}={draw(blank)}{quoted(value)}" for n, value in labels]
    terms = [quoted(name), *terms] if utf8 else terms
    inside = ",".join(f"{draw(blank)}{term}{draw(blank)}" for term in terms)
    comma = "," if bool(terms) and draw(st.booleans()) else ""
    braces = f"{draw(blank)}{{{inside}{comma}{draw(blank)}}}" if bool(terms) or draw(st.booleans()) else ""
    time = draw(st.one_of(st.just(""), milliseconds.map(lambda text: f" {text}")))
    before = draw(blank) if braces else draw(gap)
    return f"{draw(blank)}{'' if utf8 else name}{braces}{before}{draw(floats)}{time}{draw(blank)}", name


comments = st.one_of(
    st.builds(lambda n, text: f"# HELP {n} {text}", names, any_text.map(lambda text: text.replace("\n", " "))),
    st.builds(
        lambda n, kind, space: f"{space}# TYPE{space} {n} {kind}",
        names, st.sampled_from(["counter", "gauge", "histogram", "summary", "untyped"]), blank,
    ),
    st.sampled_from(["#", "# ", "#comment", "# a comment", "# TYPO rpc counter", "# HELP", "# EOFF", "", "  ", "\t"]),
)  # fmt: skip
expositions = st.lists(st.one_of(samples(), comments.map(lambda text: (text, None))), max_size=12)


@settings(max_examples=60, deadline=None)
@given(st.lists(expositions, min_size=1, max_size=4), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.randoms())
def test_expositions_equal_the_reference_at_first_and_when_cached(
    drawn: list[list[tuple[str, str | None]]], newline: str, last: bool, chance: Callable[..., object]
) -> None:
    parser = Parser(forget_after=3)
    # Each response twice, then all lines in one: series appear, stay and disappear.
    for lines in [*drawn, *drawn, [line for exposition in drawn for line in exposition]]:
        text = newline.join(line for line, _ in lines) + (newline if last else "")
        try:
            wanted = [sample for family in text_families(text) for sample in family.samples]
        except ValueError:
            assume(False)
        scrape = parser.parse(text.encode())
        found = theirs(wanted, [name for _, name in lines if name is not None])
        assert ours(parser, scrape) == found
        assert list(ours(parser, scrape)) == list(found)
        assert (scrape.malformed, scrape.repeated) == (0, len(wanted) - len(found))


soup = st.text(st.sampled_from('ab{}"\\=,# \t1.5eN-+_:'), max_size=14)


@settings(max_examples=500, deadline=None)
@example(["a", "a1"])
@example(["1 1{}1"])
@given(st.lists(st.one_of(soup, soup.map(lambda text: f"a{text}"), soup.map(lambda text: f'a{{b="{text}')), max_size=4))
def test_lines_that_the_reference_refuses_are_malformed(lines: list[str]) -> None:
    parser = Parser()
    parser.parse(b'a 1\na{b="1"} 1\na{} 1\nb 1\nb{a="",b="1"} 5\n')
    for line in lines:
        if line.strip().startswith("#") or not line.strip():
            continue
        try:
            [family] = text_families(line)
            [sample] = family.samples
        except (ValueError, IndexError):
            with pytest.raises(GarbageExposition):
                parser.parse(line.encode())
        else:
            if known_to_differ(line):
                continue
            assert ours(parser, parser.parse(line.encode())) == theirs([sample], [sample.name])


def known_to_differ(line: str) -> bool:
    """Return whether docs/reference/exposition.md lists the difference for such a line."""
    words = line.rpartition("}")[2].replace("\t", " ").split() if "}" in line else line.split()[1:]
    spaced = "}" in line and len(line.partition("{")[0].split()) > 1
    unquoted = re.sub(r'"((?:[^"\\]|\\.)*)"', lambda text: "''" if text[1] else '""', line)
    no_label = re.search(r"\{\s*,|=\s*[,}]|:[\w:]*\s*=|\"\"\s*=|__name__", unquoted)
    no_name = "}" in line and not re.fullmatch(r"(?:[a-zA-Z_:][\w:]*)?", unquoted.partition("{")[0].strip())
    return bool(no_label or no_name or line.count("{") > 1) or (
        spaced or len(words) not in (1, 2) or " # " in line or (len(words) == 2 and not math.isfinite(float(words[1])))
    )


@pytest.fixture(scope="module")
def registry() -> CollectorRegistry:
    """Return a registry with each type of metric, and labels that need escapes."""
    made = CollectorRegistry()
    Counter("rpc", "Calls.", ["path"], registry=made).labels('/a"b\\c\nd}').inc(3, exemplar={"trace": "x} # {"})
    Gauge("temperature_celsius", 'With {braces}, "quotes" and \\.', registry=made).set(-1.5)
    Gauge("nothing", "No value.", registry=made).set(math.nan)
    Histogram("latency_seconds", "Latency.", ["a"], registry=made).labels("größe").observe(0.2, exemplar={"t": "1"})
    Summary("size_bytes", "Size.", ["a", "b"], registry=made).labels("x", "y").observe(7)
    Info("build", "Build.", registry=made).info({"version": "1.0"})
    StateSet("state", "State.", states=["on", "off"], registry=made).state("on")
    return made


@pytest.mark.parametrize("kind", ["text", "openmetrics"])
def test_each_type_of_metric_equals_the_reference(registry: CollectorRegistry, kind: str) -> None:
    if kind == "text":
        exposition, families = generate_latest(registry), text_families
    else:
        exposition = generate_openmetrics(registry)  # type: ignore[no-untyped-call]
        families = openmetrics_families
    wanted = [sample for family in families(exposition.decode()) for sample in family.samples]
    lines = [line for line in exposition.decode().split("\n") if line and not line.startswith("#")]
    names = [line.partition("{")[0].partition(" ")[0] for line in lines]
    parser = Parser()
    for _ in range(2):
        assert ours(parser, parser.parse(exposition)) == theirs(wanted, names)


om_times = st.one_of(
    st.just(""), st.integers(0, 2**33).map(lambda n: f" {n}"),
    st.builds(lambda n, ms: f" {n}.{ms:03}", st.integers(0, 2**31), st.integers(0, 999)),
)  # fmt: skip
om_exemplars = st.one_of(
    st.just(""), st.builds(lambda text, value: f" # {{t={quoted(text)}}} {value}", any_text, st.integers(0, 9))
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), any_text, floats, om_times, om_exemplars), max_size=8), st.booleans())
def test_openmetrics_equals_the_reference(lines: list[tuple[int, str, str, str, str]], last: bool) -> None:
    text = "# TYPE c counter\n"
    wire = []
    for which, value, number, time, exemplar in lines:
        name = ["c_total", "g", "x:y"][which]
        text += f"{name}{{l={quoted(value)}}} {number}{time}{exemplar if which == 0 else ''}\n"
        wire.append(name)
    text += "# EOF" + ("\n" if last else "")
    try:
        families = openmetrics_families(text)  # type: ignore[no-untyped-call]
        wanted = [sample for family in families for sample in family.samples]
    except ValueError:
        assume(False)
    assume(len(wanted) == len(wire))  # the reference omits duplicates of a series within its group
    parser = Parser()
    for _ in range(2):
        found = ours(parser, parser.parse(text.encode()))
        expected = theirs(wanted, wire)
        assert found.keys() == expected.keys()
        for key, (reading, at) in expected.items():
            assert found[key] == (reading, None if at is None else pytest.approx(at, abs=1e-6))
