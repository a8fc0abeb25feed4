"""Charts of one run's training: its tensors, and its waits for data."""

from __future__ import annotations

from typing import Any

from hypergauge.dashboards.grafana import parts
from hypergauge.dashboards.grafana.model import panels
from hypergauge.dashboards.grafana.model.fields import by_label, color, for_name
from hypergauge.dashboards.grafana.queries import Json, literal, query
from hypergauge.dashboards.grafana.states import colored_by_name, power_heatmap

__all__ = ["tensors"]

# The chosen run as an SQL text.
_RUN = "${run:sqlstring}"
_MOST_LAYERS = 8
# More rows of a heat map are too thin to be told apart.
_MOST_ROWS = 48
_NONE = "Not recorded in this time range: `track.watch(model)` does."


def tensors() -> list[Json]:
    """Return charts of losses, gradients, updates, activations and waits."""
    return [
        _collection(
            "Loss",
            "'losses', 'mean', null, null",
            "Mean of all steps since the point before; of validations, val_loss.",
        ),
        _collection(
            "Gradient norm", "'gradients', 'norm', null, null", "l2 norm of all gradients together, before the step."
        ),
        _layers(),
        _activations(),
        _chart(
            "Share of steps spent waiting for data",
            [query(f"select time, 'waiting' as metric, value from run_waits({_RUN}, {parts.RANGE})", series=True)],
            unit="percentunit",
            empty="Not measured in this time range: `track.watch(model)` does.",
        ),
        _chart(
            "NaN and infinite elements",
            [
                query(
                    f"""
                    select time, 'worst tensor' as metric, value
                    from run_tensors({_RUN}, null, 'nonfinite', null, 'max', {parts.RANGE})
                    """,
                    series=True,
                )
            ],
            unit="percentunit",
            description="Share of the elements of the worst tensor.",
            custom={"axisSoftMax": 0.01},
            overrides=[for_name("worst tensor", color=color("red"))],
        ),
        _gradients(),
    ]


def _collection(title: str, selection: str, description: str) -> Json:
    """Return the chart of the tensors of a collection, or of their norm."""
    statement = (
        f"select time, coalesce(name, {literal(title.lower())}) as metric, value"
        f" from run_tensors({_RUN}, {selection}, {parts.RANGE}) order by time"
    )
    return _chart(title, [query(statement, series=True)], description=description, overrides=[])


def _layers() -> Json:
    rows = f"""
        select time, name, value
        from run_tensors({_RUN}, 'weights', 'update_ratio',
                         extreme_tensors({_RUN}, 'weights', 'update_ratio', {_MOST_LAYERS}), null, {parts.RANGE})
    """
    return _chart(
        "Update ratio of weights",
        [colored_by_name(rows, "name")],
        description="Norm of a step's change over that of the weight: some 0.001 in a training that learns. "
        f"The {_MOST_LAYERS // 2} weights with the lowest and the {_MOST_LAYERS // 2} with the highest last value.",
        unit="sci",
        custom={"scaleDistribution": {"type": "log", "log": 10}, "axisSoftMin": 1e-4},
        overrides=by_label(),
    )


def _activations() -> Json:
    shares = [
        ("zeros", "relu", "zero after ReLU"),
        *(("saturated", one, f"saturated {one}") for one in ("sigmoid", "tanh")),
    ]
    every = " union all ".join(
        f"select time, '{name}' as metric, value from run_tensors({_RUN}, '{collection}', '{reduction}', null, 'mean', {parts.RANGE})"
        for reduction, collection, name in shares
    )
    return _chart(
        "Dead and saturated activations",
        [query(f"{every} order by time", series=True)],
        unit="percentunit",
        description="Share of the outputs of activation functions: mean of the layers.",
        overrides=[],
    )


def _gradients() -> Json:
    return power_heatmap(
        "Gradients by tensor: l2 norm as a power of ten",
        f"select time, metric, value from run_gradients({_RUN}, {_MOST_ROWS}, {parts.RANGE})",
        empty="No gradient was recorded",
        description=f"From input to output, at most {_MOST_ROWS} rows. Rows that fall towards the input are vanishing gradients.",
        height=9,
    )


def _chart(
    title: str, targets: list[Json], *, custom: dict[str, Any] | None = None, empty: str = _NONE, **more: Any
) -> Json:
    return panels.timeseries(
        title,
        targets,
        custom={"spanNulls": True, "showPoints": "auto", **(custom or {})},
        empty=empty,
        width=8,
        height=7,
        **more,
    )
