"""Watch of an estimator of scikit-learn."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

from hypergauge.client.frameworks.record import Record

__all__ = ["EstimatorWatch"]

_WEIGHTS = ("coef_", "coefs_")
_BIASES = ("intercept_", "intercepts_")


class _Shadow:
    """Method of one instance, with something around it. A copy of the instance has the method of its class."""

    def __init__(self, estimator: Any, method: Callable[..., Any], around: Callable[..., Any]) -> None:
        functools.update_wrapper(self, method)
        self._estimator, self._method, self._around = estimator, method, around

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._around(self._method, args, kwargs)

    def __reduce__(self) -> Any:
        # A saved model must load where there is no hypergauge.
        return getattr, (self._estimator, self._method.__name__)


class EstimatorWatch:
    """Watch of `fit`, `partial_fit`, `score` and `predict` of one estimator, not of its clones.

    A method within another one is a part of it.
    """

    def __init__(self, record: Record, estimator: Any) -> None:
        self._record, self._estimator = record, estimator
        self._is_inside = False
        self._first = record.training.step
        self._samples: float | None = None
        # Number of values of the loss curve so far.
        self._seen = 0
        self._phase, self._step = record.guard(record.phase), record.guard(self._end_part)
        self._begin, self._end = record.guard(self._begin_fit), record.guard(self._end_fit)
        self._iterate = record.guard(self._end_iteration)

    def start(self) -> None:
        """Follow the methods from now on."""
        self._record.begin(self._estimator)
        evaluate, predict = functools.partial(self._apply, "evaluate"), functools.partial(self._apply, "predict")
        arounds: dict[str, Callable[..., Any]] = {
            "fit": self._fit,
            "partial_fit": self._partial_fit,
            "score": evaluate,
            "predict": predict,
        }
        for name, around in arounds.items():
            if hasattr(self._estimator, name):
                vars(self._estimator)[name] = _Shadow(self._estimator, getattr(self._estimator, name), around)

    def close(self) -> None:
        """Leave the estimator as it was, and end what is open."""
        for name in [name for name, value in vars(self._estimator).items() if isinstance(value, _Shadow)]:
            del vars(self._estimator)[name]
        self._record.guard(self._record.close)()

    def _fit(self, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call `fit`. Each iteration is a step if the estimator reports them, otherwise the whole call is one."""
        if self._is_inside:
            return method(*args, **kwargs)
        self._is_inside, first = True, self._record.training.step
        arguments = dict(kwargs)
        self._begin(method, args, arguments)
        try:
            result = method(*args, **arguments)
            self._end(has_steps=self._record.training.step > first)
            return result
        finally:
            self._is_inside = False
            self._phase(None)

    def _partial_fit(self, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call `partial_fit`, a step. Its phase lasts, for more steps."""
        is_part, self._is_inside = self._is_inside, True
        if not is_part:
            self._phase("train")
        try:
            result = method(*args, **kwargs)
        finally:
            self._is_inside = is_part
        self._step(args, kwargs)
        return result

    def _apply(self, phase: str, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method of the trained estimator, a phase."""
        if self._is_inside:
            return method(*args, **kwargs)
        self._is_inside = True
        self._phase(phase)
        try:
            return method(*args, **kwargs)
        finally:
            self._is_inside = False
            self._phase(None)

    def _begin_fit(self, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Begin a fit, and add a monitor of iterations to its arguments where the estimator has one."""
        if self._record.training.step > self._first and not getattr(self._estimator, "warm_start", False):
            self._record.begin()  # a fit forgets the one before it
        self._record.phase("train")
        self._samples = _rows(args, kwargs)
        signature = inspect.signature(method)
        is_given = "monitor" in signature.bind_partial(*args, **kwargs).arguments
        if "monitor" not in signature.parameters or (is_given and "monitor" not in kwargs):
            return
        own = kwargs.get("monitor")

        def monitor(iteration: int, estimator: Any, variables: Any) -> Any:
            self._iterate(estimator, iteration)
            return own(iteration, estimator, variables) if own is not None else False

        kwargs["monitor"] = monitor

    def _end_iteration(self, estimator: Any, iteration: int) -> None:
        self._end_step(estimator.train_score_[iteration : iteration + 1])

    def _end_part(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self._samples = _rows(args, kwargs)
        self._end_step(self._new_losses())

    def _end_step(self, losses: Sequence[float]) -> None:
        self._record.track.work.add(samples=self._samples)
        for loss in losses:
            self._record.loss(loss)
        self._record.end_step(self._tensors)

    def _end_fit(self, has_steps: bool) -> None:
        if not has_steps:
            if not getattr(self._estimator, "warm_start", False):
                self._seen = 0
            self._end_step(self._new_losses())
        self._record.write_now(self._tensors)

    def _new_losses(self) -> Sequence[float]:
        curve = getattr(self._estimator, "loss_curve_", None)
        if curve is None:
            loss = getattr(self._estimator, "loss_", None)
            return [float(loss)] if isinstance(loss, Real) else []
        new = curve[self._seen if len(curve) >= self._seen else 0 :]
        self._seen = len(curve)
        return list(new)

    def _tensors(self) -> dict[str, dict[str, Any]]:
        return {"weights": self._arrays(_WEIGHTS), "biases": self._arrays(_BIASES)}

    def _arrays(self, names: Sequence[str]) -> dict[str, Any]:
        import numpy

        found: dict[str, Any] = {}
        for name in names:
            value = getattr(self._estimator, name, None)
            parts = (
                {f"{name}.{number}": one for number, one in enumerate(value)}
                if isinstance(value, list)
                else {name: value}
            )
            for part, array in parts.items():
                if hasattr(array, "dtype") and numpy.asarray(array).dtype.kind in "fiu":
                    found.update({part: array})
        return found


def _rows(args: Sequence[Any], kwargs: Mapping[str, Any]) -> float | None:
    """Return the number of samples in the arguments of `fit`."""
    data = args[0] if args else kwargs.get("X")
    shape = getattr(data, "shape", None)
    return float(shape[0]) if shape else float(len(data)) if isinstance(data, (list, tuple)) else None
