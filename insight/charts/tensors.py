"""Names of metrics of tensors: named ones such as ``gradient_norm``, and ``COLLECTION/NAME/REDUCTION``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.core.listing import listed
from hypergauge.sql.queries.charts.tensors import Selection, TensorCollection
from hypergauge.sql.queries.summaries import Coverage

__all__ = [
    "MOST_CURVES",
    "NAMED",
    "REDUCTIONS",
    "TensorMetric",
    "TensorName",
    "available",
    "check_curves",
    "parse",
    "resolve",
]

# More curves of one metric are unreadable; Grafana has the same limit.
MOST_CURVES = 40
REDUCTIONS = {
    "l2": "l2 norm", "mean": "mean of the elements", "std": "standard deviation of the elements", "min": "minimum", "max": "maximum",
    "l1": "sum of absolute values", "zeros": "share of elements that are zero",
    "nonfinite": "share of elements that are NaN or infinite", "saturated": "share of elements near a bound of the function",
    "update_ratio": "norm of a step's change over that of the weight", "p05": "5th percentile", "p25": "25th percentile",
    "p50": "median", "p75": "75th percentile", "p95": "95th percentile",
}  # fmt: skip
_NORM = "norm"
_SHARES = ("zeros", "nonfinite", "saturated")
_MOST_LISTED = 3


@dataclass(frozen=True, slots=True)
class TensorName:
    """Meaning of a metric's name.

    Attributes
    ----------
    collection
        ``None`` for all collections.
    pattern
        Pattern of the tensors' names, as of file names; ``None`` for all tensors together.
    over
        Statistic over the tensors; ``None`` for a curve of each.
    help
        Meaning of a name that has one of its own.
    """

    collection: str | None
    pattern: str | None
    reduction: str
    over: str | None = None
    help: str = ""

    @property
    def unit(self) -> str:
        """Unit of the values: ``ratio`` of a share, else empty."""
        return "ratio" if self.reduction in _SHARES else ""

    def found(self, collections: Iterable[TensorCollection]) -> bool:
        """Return whether a named metric has values in any of the collections."""
        return any(
            self.collection in (None, one.collection)
            and self.reduction in one.reductions
            and (self.pattern is None or self.pattern in one.names)
            for one in collections
        )


NAMED = {
    "gradient_norm": TensorName("gradients", None, _NORM, help="l2 norm of all gradients together"),
    "weight_norm": TensorName("weights", None, _NORM, help="l2 norm of all weights together"),
    "update_ratio": TensorName(
        "weights",
        None,
        "update_ratio",
        "median",
        "norm of a step's change over that of the weight; median of the weights",
    ),
    "loss": TensorName("losses", "loss", "mean", help="loss; mean of the steps since the point before"),
    "val_loss": TensorName("losses", "val_loss", "mean", help="loss of validations; mean of the steps of one"),
    "dead_relus": TensorName("relu", None, "zeros", "mean", "share of ReLU outputs that are zero; mean of the layers"),
    "nonfinite": TensorName(None, None, "nonfinite", "max", "share of NaN and infinite elements; worst of all tensors"),
}


@dataclass(frozen=True, slots=True)
class TensorMetric:
    """Metric of tensors of some runs.

    Attributes
    ----------
    names
        Its tensors, in the order of the model; a single empty one for a metric of all together.
    runs
        Ids of the runs that have it.
    """

    name: TensorName
    names: tuple[str, ...]
    runs: frozenset[str]

    @property
    def several(self) -> bool:
        """Whether it has a curve for each of several tensors."""
        return len(self.names) > 1

    @property
    def selection(self) -> Selection:
        """Arguments of the query of its curves."""
        one = self.name
        return Selection(one.collection, one.reduction, None if one.pattern is None else self.names, one.over)


def parse(text: str) -> TensorName | None:
    """Return the meaning of a name, or ``None`` if it is not one of tensors.

    Raises
    ------
    BadRequest
        It has the form of one, but an unknown reduction, or no name.
    """
    if text in NAMED:
        return NAMED[text]
    collection, slash, rest = text.partition("/")
    if not slash:
        return None
    pattern, slash, reduction = rest.rpartition("/")
    if not slash and reduction == _NORM and collection:
        return TensorName(collection, None, _NORM)
    if not slash or not collection or not pattern:
        raise BadRequest(
            f"{text!r} is not COLLECTION/NAME/REDUCTION, such as gradients/fc1.weight/l2 or gradients/*/l2"
        )
    if reduction == _NORM:
        raise BadRequest(f"{text!r}: norm is that of a whole collection, {collection}/norm; l2 is the norm of a tensor")
    if reduction not in REDUCTIONS:
        raise BadRequest(f"{text!r}: there is no reduction {reduction!r}{did_you_mean(reduction, REDUCTIONS)}")
    return TensorName(collection, pattern, reduction)


def resolve(text: str, collections: Sequence[TensorCollection]) -> TensorMetric | None:
    """Return the metric of that name in the runs of `collections`; ``None`` if they have neither it nor its collection.

    Raises
    ------
    BadRequest
        The runs have its collection, but not this tensor or reduction.
    """
    if text not in NAMED and text.partition("/")[0] not in {one.collection for one in collections}:
        return None
    name = parse(text)
    mine = [one for one in collections if name and name.collection in (None, one.collection)]
    if name is None or not mine:
        return None
    reduced = [one for one in mine if name.reduction in one.reductions]
    if not reduced:
        there = dict.fromkeys(one for some in mine for one in some.reductions)
        what = f"of {name.collection}" if name.collection else "of their tensors"
        raise BadRequest(f"{text!r}: these runs have no {name.reduction} {what}; they have {', '.join(there)}")
    if name.pattern is None:
        return TensorMetric(name, ("",), frozenset(one.run_id for one in reduced))
    having = [(one, [tensor for tensor in one.names if _matches(tensor, name.pattern)]) for one in reduced]
    names = tuple(dict.fromkeys(tensor for _, some in having for tensor in some))
    if not names:
        there = dict.fromkeys(tensor for one in reduced for tensor in one.names)
        hint = did_you_mean(name.pattern, there, f"; there are {listed(list(there), _MOST_LISTED)}")
        raise BadRequest(f"{text!r}: no tensor of {name.collection} is named {name.pattern!r}{hint}")
    return TensorMetric(name, names, frozenset(one.run_id for one, some in having if some))


def check_curves(text: str, metric: TensorMetric, groups: int) -> None:
    """Raise `BadRequest` if a metric of several tensors has too many curves for a plot of `groups` runs or workloads."""
    count = len(metric.names) * groups
    if metric.several and count > MOST_CURVES:
        of = f" of {groups} runs or workloads, {count} curves" if groups > 1 else ""
        raise BadRequest(
            f"{text!r} is {len(metric.names)} tensors{of}, and a plot has at most {MOST_CURVES} curves of a metric: "
            f"name fewer, such as {metric.name.collection}/{metric.names[0]}/{metric.name.reduction}"
        )


def available(collections: Sequence[TensorCollection], known: Collection[str] = ()) -> list[Coverage]:
    """Return the metrics of tensors for a list: the named ones that are not `known` otherwise, and one for each collection."""
    named = [
        Coverage(text, name.unit, "run", "track.watch", _count(name, collections), name.help)
        for text, name in NAMED.items()
        if text not in known and name.found(collections)
    ]
    return named + [
        _whole(collection, collections) for collection in dict.fromkeys(one.collection for one in collections)
    ]


def _whole(collection: str, collections: Sequence[TensorCollection]) -> Coverage:
    mine = [one for one in collections if one.collection == collection]
    there = {reduction for one in mine for reduction in one.reductions}
    reductions = [one for one in REDUCTIONS if one in there]
    names = list(dict.fromkeys(name for one in mine for name in one.names))
    wanted = f"{collection}/*/{reductions[0]}" if reductions else f"{collection}/{_NORM}"
    more = f"; also {', '.join(reductions[1:])}" if reductions[1:] else ""
    unit = TensorName(collection, "*", reductions[0]).unit if reductions else ""
    return Coverage(
        wanted, unit, "tensor", "track.watch", len(names), f"{REDUCTIONS.get(wanted.rpartition('/')[2], 'l2 norm')} of "
        f"{listed(names, _MOST_LISTED)}{more}",
    )  # fmt: skip


def _count(name: TensorName, collections: Iterable[TensorCollection]) -> int:
    return len({one.run_id for one in collections if name.found([one])})


def _matches(tensor: str, pattern: str) -> bool:
    return tensor == pattern or fnmatchcase(tensor, pattern)
