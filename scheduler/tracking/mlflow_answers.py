"""Types of the answers of MLflow's REST API, as far as runs need them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from hypergauge.core.errors import TrackingUnavailable

__all__ = ["checked"]

_Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Pair(msgspec.Struct):
    key: str
    value: str = ""


class _Metric(msgspec.Struct):
    key: str
    value: float
    timestamp: _Long = 0
    step: _Long = 0


class _Info(msgspec.Struct):
    run_id: str
    status: str = ""
    experiment_id: str | int = ""
    artifact_uri: str = ""
    lifecycle_stage: str = ""


class _Data(msgspec.Struct):
    tags: list[_Pair] = []
    metrics: list[_Metric] = []


class _Run(msgspec.Struct):
    info: _Info
    data: _Data = msgspec.field(default_factory=_Data)


class _Experiment(msgspec.Struct):
    experiment_id: str | int
    name: str = ""
    lifecycle_stage: str = ""


class _OneRun(msgspec.Struct):
    run: _Run


class _Runs(msgspec.Struct):
    runs: list[_Run] = []


class _OneExperiment(msgspec.Struct):
    experiment: _Experiment


class _Experiments(msgspec.Struct):
    experiments: list[_Experiment] = []
    next_page_token: str | None = None


class _History(msgspec.Struct):
    metrics: list[_Metric] = []
    next_page_token: str | None = None


_BY_ENDPOINT: Mapping[str, type[msgspec.Struct]] = {
    "experiments/create": _Experiment,
    "experiments/get": _OneExperiment,
    "experiments/get-by-name": _OneExperiment,
    "experiments/search": _Experiments,
    "metrics/get-history": _History,
    "runs/create": _OneRun,
    "runs/get": _OneRun,
    "runs/search": _Runs,
}


def checked(endpoint: str, answer: object) -> dict[str, Any]:
    """Return an answer with all fields of its endpoint, in their types.

    MLflow writes NaN and infinity, and some versions large integers, as strings.

    Raises
    ------
    TrackingUnavailable
        The answer has another form: the server is no MLflow, or a proxy answers in its place.
    """
    kind = _BY_ENDPOINT.get(endpoint)
    if kind is None:
        return {}
    try:
        plain: dict[str, Any] = msgspec.to_builtins(msgspec.convert(answer, kind, strict=False))
    except (msgspec.ValidationError, OverflowError, RecursionError, UnicodeEncodeError) as error:
        raise TrackingUnavailable(f"MLflow gives an invalid answer to {endpoint}: {error}") from None
    return plain
