"""Parser of Prometheus's text format, into arrays.

Sources: prometheus.io/docs/instrumenting/exposition_formats (0.0.4) and the OpenMetrics specification (1.0).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from prometheus_client.parser import text_string_to_metric_families

from hypergauge.collector.convert.response_template import NO_VALUE, ResponseTemplate
from hypergauge.core.errors import BenchError
from hypergauge.sql.ingest.catalog import Kind

__all__ = ["GarbageExposition", "ManyNew", "Parser", "Scrape", "Series"]

# A name and its labels, as Prometheus's parsers read them; the reference parser drops a label without a value and accepts
# other slips. Possessive, for linear time on malformed input.
_NAME, _TEXT = r"[A-Za-z_:][A-Za-z0-9_:]*+", r'"(?:[^"\\]|\\.)*+"'
# A label, or the metric's name in quotes, which has no value.
_LABEL = rf'(?!__name__\b|"(?:__name__)?")(?:[A-Za-z_][A-Za-z0-9_]*+[ \t]*+=[ \t]*+{_TEXT}|{_TEXT}(?:[ \t]*+=[ \t]*+{_TEXT})?+)[ \t]*+'
_LABELS = rf"\{{[ \t]*+(?:{_LABEL}(?:,[ \t]*+{_LABEL})*+(?:,[ \t]*+)?+)?+\}}"
_PREFIX = re.compile(rf"(?:{_NAME})?+[ \t]*+{_LABELS}|{_NAME}(?=[ \t])".encode())
_TYPE = re.compile(rb'^[ \t]*#[ \t]+TYPE[ \t]+(?:"((?:[^"\\]|\\.)*+)"|([^"\s]+))[ \t]+(\w+)', re.MULTILINE)
# A value and an optional timestamp. Only Python allows underscores in numbers.
_TAIL = re.compile(rb"\s*+([^\s_]++)(?:[ \t]++([^\s_]++))?+\s*+")
_ESCAPE = re.compile(r'\\([\\n"])')
_EXEMPLAR = b" # {"
_EXTRA_TYPES = {"histogram": ("_count", "_sum", "_bucket"), "summary": ("_count", "_sum")}


class GarbageExposition(BenchError):
    """No line of the response is a sample."""


class ManyNew(Exception):
    """A response has more new series than the caller allows."""


@dataclass(frozen=True, slots=True)
class Series:
    """Series of a target, as in its responses.

    Attributes
    ----------
    metric
        Its name on the wire, unchanged.
    labels
        Pairs of name and value, sorted by name.
    kind
        Meaning of its values, see `hypergauge.collector.convert.rates`; from the type in its first response.
    is_declared
        Whether that response declares the type. Federation declares none.
    """

    metric: str
    labels: tuple[tuple[str, str], ...]
    kind: Kind
    is_declared: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Scrape:
    """One parsed response. The arrays have one element per series, in the order of the response.

    Attributes
    ----------
    refs
        The series, an index into `Parser.series`; shape ``(n,)``.
    values
        The values, NaN and infinities included; shape ``(n,)``.
    timestamps
        Unix seconds, NaN where the line has none; shape ``(n,)``.
    new
        Series that got their ref in this response. The parser reuses the refs of forgotten series, so code that keeps
        state by ref resets it for these.
    malformed
        Lines that are neither samples nor comments.
    repeated
        Lines of a series that the response already had. The first line counts.
    """

    refs: npt.NDArray[np.uint32]
    values: npt.NDArray[np.float64]
    timestamps: npt.NDArray[np.float64]
    new: dict[int, Series]
    malformed: int
    repeated: int

    def chosen(self, mask: npt.NDArray[np.bool_]) -> Scrape:
        """Return the scrape with the selected lines only."""
        return replace(self, refs=self.refs[mask], values=self.values[mask], timestamps=self.timestamps[mask])


class Parser:
    """Parser of one target's responses.

    The parser looks up a line's prefix ``name{labels}`` as raw bytes. Only a new prefix goes through the reference
    parser, `prometheus_client.parser`. The results are equal except for the cases in docs/reference/exposition.md. The main one:
    a malformed line loses only itself, not the whole response.

    Parameters
    ----------
    forget_after
        Number of responses without a series after which the parser may forget it. Bounds the memory for targets with
        ever-changing labels.
    """

    def __init__(self, forget_after: int = 600) -> None:
        self.series: list[Series] = []
        self._forget_after = forget_after
        self._known: dict[bytes, int] = {}  # without the closing brace, which only delimits
        self._bare: dict[bytes, int] = {}  # prefixes without labels and braces
        self._refs: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}  # by metric and labels
        self._free: list[int] = []
        self._seen = np.zeros(0, np.int64)  # by ref: the number of the last response with it
        self._parsed = 0  # responses
        self._new: dict[int, Series] = {}  # of responses that failed to parse
        self._template = ResponseTemplate()

    def parse(self, exposition: bytes, most_new: int | None = None) -> Scrape:
        """Parse `exposition`; a response that ends in ``# EOF`` is OpenMetrics.

        Raises
        ------
        GarbageExposition
            The response has lines, and all are malformed.
        ManyNew
            The response has more than `most_new` new series. The parser keeps those that it has read; the next call on
            the same response continues.
        """
        end = exposition[-64:].rstrip() or exposition.rstrip()
        whole = end == b"# EOF" or end.endswith(b"\n# EOF")
        lines = exposition.split(b"\n")
        new = self._new
        if (tails := self._template.match(lines)) is not None:
            all_refs, malformed = self._template.refs, 0
        else:
            all_refs, tails, malformed = self._read(lines, exposition, new, most_new)
        values, timestamps = _numbers(tails)
        if not whole:
            timestamps /= 1000
        good = ~np.isinf(timestamps)
        if not good.all():
            malformed += len(good) - int(np.count_nonzero(good))
            if not good.any():
                raise GarbageExposition(f"none of the {malformed} lines is a sample in Prometheus's text format")
        elif malformed and not len(good):
            raise GarbageExposition(f"none of the {malformed} lines is a sample in Prometheus's text format")
        first = _first(all_refs, good)
        self._mark_seen(all_refs)
        self._new = {}
        return Scrape(
            refs=all_refs[first],
            values=values[first],
            timestamps=timestamps[first],
            new=new,
            malformed=malformed,
            repeated=int(np.count_nonzero(good)) - len(first),
        )

    def _read(
        self, lines: list[bytes], exposition: bytes, new: dict[int, Series], most_new: int | None
    ) -> tuple[npt.NDArray[np.uint32], list[bytes], int]:
        """Return refs and values of the sample lines, and the number of malformed lines; register new series."""
        refs: list[int] = []
        tails: list[bytes] = []
        lengths: list[int] = []  # lengths of the text before the value, in all lines
        types: dict[str, str] | None = None
        malformed = met = 0
        known, bare = self._known.get, self._bare.get
        for line in lines:
            prefix, brace, tail = line.rpartition(b"}")
            if brace:
                ref = known(prefix)
            else:
                prefix, blank, tail = line.partition(b" ")
                ref = bare(prefix) if blank else None  # a longer name begins like this one
            if ref is None:
                line = line.strip()
                if not line or line.startswith(b"#"):
                    lengths.append(NO_VALUE)
                    continue
                met += 1
                if types is None:
                    types = _types(exposition)
                try:
                    ref, tail = self._meet(line, types, new)
                except (ValueError, IndexError):  # the reference parser raises both
                    malformed += 1
                    continue
                if most_new is not None and len(new) > most_new:
                    raise ManyNew
            refs.append(ref)
            tails.append(tail)
            lengths.append(len(line) - len(tail))
        all_refs = np.array(refs, np.uint32)
        self._template = ResponseTemplate() if met else ResponseTemplate.of(lines, lengths, all_refs)
        return all_refs, tails, malformed

    def _meet(self, line: bytes, types: dict[str, str], new: dict[int, Series]) -> tuple[int, bytes]:
        """Return the ref and the value of a line with a new prefix."""
        if (match := _PREFIX.match(line)) is None:
            raise ValueError(line)
        prefix = match.group().rstrip()
        tail = line[len(prefix) :].partition(_EXEMPLAR)[0]
        # PostgreSQL's text holds no NUL; bytes that are not UTF-8 fail at the decoding.
        if b"{" in tail or b"}" in tail or b"\0" in prefix or _number(tail)[1] == np.inf:
            raise ValueError(line)
        known, key = (self._known, prefix[:-1]) if b"{" in prefix else (self._bare, prefix)
        if (ref := known.get(key)) is not None:
            return ref, tail
        [family] = text_string_to_metric_families((prefix + tail).decode())
        [sample] = family.samples
        name = sample.name, tuple(sorted(sample.labels.items()))
        ref = self._refs.get(name)
        if ref is None:
            ref = self._free.pop() if self._free else len(self.series)
            series = Series(*name, *_kind(sample.name, types))
            self.series[ref : ref + 1] = [series]
            self._refs[name] = ref
            new[ref] = series
        known[key] = ref
        return ref, tail

    def _mark_seen(self, refs: npt.NDArray[np.uint32]) -> None:
        self._parsed += 1
        if len(self._seen) < len(self.series):
            more = max(len(self.series), 64)  # at least doubles: linear time in total
            self._seen = np.concatenate([self._seen, np.full(more, self._parsed)])
        self._seen[refs] = self._parsed
        if self._parsed % self._forget_after == 0:
            self._forget()

    def _forget(self) -> None:
        forgotten = {
            ref: name for name, ref in self._refs.items() if self._parsed - self._seen[ref] >= self._forget_after
        }
        for name in forgotten.values():
            del self._refs[name]
        if forgotten:
            self._template = ResponseTemplate()
        self._free.extend(forgotten)
        self._bare = {prefix: ref for prefix, ref in self._bare.items() if ref not in forgotten}
        self._known = {prefix: ref for prefix, ref in self._known.items() if ref not in forgotten}
        if len(self._known) > 4 * len(self._refs):  # labels in an ever-changing order: many spellings of few series
            self._known = {}


def _types(exposition: bytes) -> dict[str, str]:
    """Return the response's types by the names of their samples."""
    types: dict[str, str] = {}
    for quoted, plain, word in _TYPE.findall(exposition):
        kind = word.decode(errors="replace")
        name = (plain or quoted).decode(errors="replace")
        if quoted:
            name = _ESCAPE.sub(lambda match: {"n": "\n"}.get(match[1], match[1]), name)
        types[name] = kind
        for suffix in _EXTRA_TYPES.get(kind, ()):
            types[name + suffix] = "counter"
    return types


def _kind(metric: str, types: dict[str, str]) -> tuple[Kind, bool]:
    """Return the kind of a metric, and whether its type is declared."""
    named = types.get(metric, "untyped")
    if named in ("untyped", "unknown"):
        return "counter" if metric.endswith("_total") else "gauge", False
    return "counter" if named == "counter" else "gauge", True


def _numbers(tails: list[bytes]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return values and timestamps as on the wire. A missing timestamp is NaN, a malformed line's is infinite."""
    try:
        if b"_" in b"".join(tails):  # only Python allows underscores in numbers
            raise ValueError
        return np.fromiter(map(float, tails), np.float64, len(tails)), np.full(len(tails), np.nan)
    except ValueError:
        pairs = np.array([_number(tail) for tail in tails], np.float64).reshape(-1, 2)
        return pairs[:, 0].copy(), pairs[:, 1].copy()


def _number(tail: bytes) -> tuple[float, float]:
    match = _TAIL.fullmatch(tail.partition(_EXEMPLAR)[0])
    try:
        if match is None:
            raise ValueError
        value = float(match[1])
        if match[2] is None:
            return value, np.nan
        timestamp = float(match[2])
    except ValueError:
        return np.nan, np.inf
    return value, timestamp if np.isfinite(timestamp) else np.inf


def _first(refs: npt.NDArray[np.uint32], good: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
    """Return the position of each series' first well-formed line."""
    positions = np.flatnonzero(good)
    if len(positions) == 0 or np.bincount(refs[positions]).max() == 1:
        return positions
    _, first = np.unique(refs[positions], return_index=True)
    return positions[np.sort(first)]
