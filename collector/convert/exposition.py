"""Parser of Prometheus's text format, into arrays.

Source of the format: prometheus.io/docs/instrumenting/exposition_formats (0.0.4) and the OpenMetrics specification (1.0).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from prometheus_client.parser import text_string_to_metric_families

from hypergauge.collector.convert.response_template import NO_FIGURE, ResponseTemplate
from hypergauge.core.errors import BenchError

__all__ = ["GarbageBody", "Kind", "ManyNew", "Parser", "Scrape", "Series"]

Kind = Literal["counter", "gauge"]

# A name and its labels; a `}` inside a quoted value does not end them. Possessive, so that garbage costs linear time.
_PREFIX = re.compile(rb'[^{"\s]*+[ \t]*+(?:\{(?:[^"}]|"(?:[^"\\]|\\.)*+")*+\})?+')
_TYPE = re.compile(rb'^[ \t]*#[ \t]+TYPE[ \t]+(?:"((?:[^"\\]|\\.)*+)"|([^"\s]+))[ \t]+(\w+)', re.MULTILINE)
# A value and maybe a timestamp. Python's way to group digits by underscores is nobody else's.
_FIGURES = re.compile(rb"\s*+([^\s_]++)(?:[ \t]++([^\s_]++))?+\s*+")
_ESCAPE = re.compile(r'\\([\\n"])')
_EXEMPLAR = b" # {"
_EXTRA_TYPES = {"histogram": ("_count", "_sum", "_bucket"), "summary": ("_count", "_sum")}


class GarbageBody(BenchError):
    """Not one line of the body is a sample."""


class ManyNew(Exception):
    """A body has more new series than were to be met."""


@dataclass(frozen=True, slots=True)
class Series:
    """A series as its target names it.

    Attributes
    ----------
    metric
        Its name as on the wire: nothing is added to it or taken from it.
    labels
        Pairs of name and value, sorted by name.
    kind
        What its figures mean, see `hypergauge.collector.convert.rates`; as its type was when it was first shown.
    """

    metric: str
    labels: tuple[tuple[str, str], ...]
    kind: Kind


@dataclass(frozen=True, slots=True, eq=False)
class Scrape:
    """One body, parsed. The arrays have one element a series, in the order of the body.

    Attributes
    ----------
    refs
        Which series, an index into `Parser.series`; shape ``(n,)``.
    values
        The figures, NaN and infinities included; shape ``(n,)``.
    timestamps
        Unix seconds, NaN where the line has none; shape ``(n,)``.
    new
        The series that have a ref of their own since this body. A ref may have been that of a series that its target
        has not shown for long, so whoever keeps something by ref starts anew for these.
    malformed
        Lines that are neither a sample nor a comment.
    repeated
        Lines of a series that the body had before. The first one counts.
    """

    refs: npt.NDArray[np.uint32]
    values: npt.NDArray[np.float64]
    timestamps: npt.NDArray[np.float64]
    new: dict[int, Series]
    malformed: int
    repeated: int


class Parser:
    """Parses the bodies of one target.

    A line's prefix ``name{labels}`` is looked up as the raw bytes that it is; only one not seen before goes through
    the reference parser, `prometheus_client.parser`. The result is the same but for the cases that docs/exposition.md
    lists with their reasons; above all, a malformed line costs itself and not the whole body.

    Parameters
    ----------
    forget_after
        Bodies without a series after which it may be forgotten, so that a target with ever new labels costs a
        bounded amount of memory.
    """

    def __init__(self, forget_after: int = 600) -> None:
        self.series: list[Series] = []
        self._forget_after = forget_after
        self._known: dict[bytes, int] = {}  # without the closing brace, which only delimits
        self._bare: dict[bytes, int] = {}  # those that have no labels, and no braces
        self._refs: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}  # by metric and labels
        self._free: list[int] = []
        self._seen = np.zeros(0, np.int64)  # by ref: the number of the last body that had it
        self._bodies = 0
        self._new: dict[int, Series] = {}  # of bodies that gave no scrape
        self._layout = ResponseTemplate()

    def parse(self, body: bytes, most_new: int | None = None) -> Scrape:
        """Parse `body`; one that ends in ``# EOF`` is OpenMetrics.

        Raises
        ------
        GarbageBody
            It has lines, and all are malformed.
        ManyNew
            It has more than `most_new` new series. They are met so far; parsed again, it goes on with the others.
        """
        end = body[-64:].rstrip() or body.rstrip()
        whole = end == b"# EOF" or end.endswith(b"\n# EOF")
        lines = body.split(b"\n")
        new = self._new
        if (figures := self._layout.figures(lines)) is not None:
            all_refs, malformed = self._layout.refs, 0
        else:
            all_refs, figures, malformed = self._read(lines, body, new, most_new)
        values, timestamps = _numbers(figures)
        if not whole:
            timestamps /= 1000
        good = ~np.isinf(timestamps)
        if not good.all():
            malformed += len(good) - int(np.count_nonzero(good))
            if not good.any():
                raise GarbageBody(f"none of the {malformed} lines is a sample in Prometheus's text format")
        elif malformed and not len(good):
            raise GarbageBody(f"none of the {malformed} lines is a sample in Prometheus's text format")
        first = _first(all_refs, good)
        self._remember(all_refs)
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
        self, lines: list[bytes], body: bytes, new: dict[int, Series], most_new: int | None
    ) -> tuple[npt.NDArray[np.uint32], list[bytes], int]:
        """Return refs and figures of the lines that are samples, and how many are malformed; meet what is new."""
        refs: list[int] = []
        figures: list[bytes] = []
        lengths: list[int] = []  # of what stands before the figure, in all lines
        types: dict[str, str] | None = None
        malformed = met = 0
        known, bare = self._known.get, self._bare.get
        for line in lines:
            prefix, brace, figure = line.rpartition(b"}")
            if brace:
                ref = known(prefix)
            else:
                prefix, blank, figure = line.partition(b" ")
                ref = bare(prefix) if blank else None  # a longer name begins like this one
            if ref is None:
                line = line.strip()
                if not line or line.startswith(b"#"):
                    lengths.append(NO_FIGURE)
                    continue
                met += 1
                if types is None:
                    types = _types(body)
                try:
                    ref, figure = self._meet(line, types, new)
                except (ValueError, IndexError):  # the reference parser raises both
                    malformed += 1
                    continue
                if most_new is not None and len(new) > most_new:
                    raise ManyNew
            refs.append(ref)
            figures.append(figure)
            lengths.append(len(line) - len(figure))
        all_refs = np.array(refs, np.uint32)
        self._layout = ResponseTemplate() if met else ResponseTemplate.of(lines, lengths, all_refs)
        return all_refs, figures, malformed

    def _meet(self, line: bytes, types: dict[str, str], new: dict[int, Series]) -> tuple[int, bytes]:
        """Return ref and figures of a line that is spelled in a way not seen before."""
        match = _PREFIX.match(line)
        prefix = match.group().rstrip() if match else b""
        figure = line[len(prefix) :].partition(_EXEMPLAR)[0]
        # No text of PostgreSQL's holds a NUL; bytes that are no UTF-8 fail where they are decoded.
        if b"{" in figure or b"}" in figure or b"\0" in prefix or _number(figure)[1] == np.inf:
            raise ValueError(line)
        known, key = (self._known, prefix[:-1]) if b"{" in prefix else (self._bare, prefix)
        if (ref := known.get(key)) is not None:
            return ref, figure
        [family] = text_string_to_metric_families((prefix + figure).decode())
        [sample] = family.samples
        name = sample.name, tuple(sorted(sample.labels.items()))
        ref = self._refs.get(name)
        if ref is None:
            ref = self._free.pop() if self._free else len(self.series)
            series = Series(*name, _kind(sample.name, types))
            self.series[ref : ref + 1] = [series]
            self._refs[name] = ref
            new[ref] = series
        known[key] = ref
        return ref, figure

    def _remember(self, refs: npt.NDArray[np.uint32]) -> None:
        self._bodies += 1
        if len(self._seen) < len(self.series):
            more = max(len(self.series), 64)  # at least doubles, so that growing is linear in all
            self._seen = np.concatenate([self._seen, np.full(more, self._bodies)])
        self._seen[refs] = self._bodies
        if self._bodies % self._forget_after == 0:
            self._forget()

    def _forget(self) -> None:
        gone = {ref: name for name, ref in self._refs.items() if self._bodies - self._seen[ref] >= self._forget_after}
        for name in gone.values():
            del self._refs[name]
        if gone:
            self._layout = ResponseTemplate()
        self._free.extend(gone)
        self._bare = {prefix: ref for prefix, ref in self._bare.items() if ref not in gone}
        self._known = {prefix: ref for prefix, ref in self._known.items() if ref not in gone}
        if len(self._known) > 4 * len(self._refs):  # labels in ever another order: many spellings of few series
            self._known = {}


def _types(body: bytes) -> dict[str, str]:
    """Return the body's types by the names of the samples that they are about."""
    types: dict[str, str] = {}
    for quoted, plain, word in _TYPE.findall(body):
        kind = word.decode(errors="replace")
        name = (plain or quoted).decode(errors="replace")
        if quoted:
            name = _ESCAPE.sub(lambda match: {"n": "\n"}.get(match[1], match[1]), name)
        types[name] = kind
        for suffix in _EXTRA_TYPES.get(kind, ()):
            types[name + suffix] = "counter"
    return types


def _kind(metric: str, types: dict[str, str]) -> Kind:
    named = types.get(metric, "untyped")
    if named in ("untyped", "unknown"):
        return "counter" if metric.endswith("_total") else "gauge"
    return "counter" if named == "counter" else "gauge"


def _numbers(figures: list[bytes]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return values and timestamps as on the wire. No timestamp is NaN, a malformed line's is infinite."""
    try:
        if b"_" in b"".join(figures):  # Python's way to group digits, and nobody else's
            raise ValueError
        return np.fromiter(map(float, figures), np.float64, len(figures)), np.full(len(figures), np.nan)
    except ValueError:
        pairs = np.array([_number(figure) for figure in figures], np.float64).reshape(-1, 2)
        return pairs[:, 0].copy(), pairs[:, 1].copy()


def _number(figure: bytes) -> tuple[float, float]:
    words = _FIGURES.fullmatch(figure.partition(_EXEMPLAR)[0])
    try:
        if words is None:
            raise ValueError
        value = float(words[1])
        if words[2] is None:
            return value, np.nan
        timestamp = float(words[2])
    except ValueError:
        return np.nan, np.inf
    return value, timestamp if np.isfinite(timestamp) else np.inf


def _first(refs: npt.NDArray[np.uint32], good: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
    """Return where each series first stands with a good line."""
    positions = np.flatnonzero(good)
    if len(positions) == 0 or np.bincount(refs[positions]).max() == 1:
        return positions
    _, first = np.unique(refs[positions], return_index=True)
    return positions[np.sort(first)]
