"""Watch of an estimator of scikit-learn."""

from __future__ import annotations

import copy
import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar

from hypergauge.client.frameworks.record import Record

__all__ = ["EstimatorWatch"]

# Phase of each watched method.
_METHODS = {"fit": "train", "partial_fit": "train", "score": "evaluate", "predict": "predict"}
_WEIGHTS = ("coef_", "coefs_")
_BIASES = ("intercept_", "intercepts_")


class _Watches(dict):  # type: ignore[type-arg]
    """Watches of a class's instances, by the id of each. A class that is pickled by value takes none of them along."""

    def __reduce__(self) -> Any:
        return dict, ()


class _ClassHooks:
    """Methods of a class, each with a look at whether the instance is watched.

    An instance has nothing of ours, so that its pickled state and its copies are those of one that is not watched.
    A plain method stays a plain function: tools that patch classes refuse other descriptors.
    """

    _of: ClassVar[dict[type, _ClassHooks]] = {}

    def __init__(self, kind: type) -> None:
        self._kind = kind
        self._watches = _Watches()
        self._hooks: dict[str, Any] = {}
        for name in _METHODS:
            method = inspect.getattr_static(kind, name, None)
            if inspect.isfunction(method):
                self._hooks[name] = _hook(name, method, self._watches)
            elif inspect.isfunction(getattr(method, "fn", None)):  # available on a condition
                self._hooks[name] = copy.copy(method)
                self._hooks[name].fn = _hook(name, method.fn, self._watches)
        self._own = {name: vars(kind)[name] for name in self._hooks if name in vars(kind)}
        for name, hook in self._hooks.items():
            setattr(kind, name, hook)

    @classmethod
    def add(cls, watch: EstimatorWatch, estimator: object) -> None:
        """Call a watch around the methods of an estimator, in place of an earlier watch."""
        kind = type(estimator)
        if kind not in cls._of:
            cls._of[kind] = cls(kind)
        cls._of[kind]._watches[id(estimator)] = watch  # which keeps the estimator, and so the id

    @classmethod
    def remove(cls, watch: EstimatorWatch, estimator: object) -> None:
        """Call a watch no longer. With its last watch, a class gets its own methods back."""
        hooks = cls._of.get(type(estimator))
        if hooks is None or hooks._watches.get(id(estimator)) is not watch:
            return
        del hooks._watches[id(estimator)]
        # A method that was patched after us may still call a hook.
        if not hooks._watches and all(vars(hooks._kind).get(name) is hook for name, hook in hooks._hooks.items()):
            del cls._of[hooks._kind]
            for name in hooks._hooks:
                if name in hooks._own:
                    setattr(hooks._kind, name, hooks._own[name])
                else:
                    delattr(hooks._kind, name)


def _hook(name: str, method: Callable[..., Any], watches: _Watches) -> Callable[..., Any]:
    """Return a method of a class that calls the watch of its instance. It refers to nothing that must be imported."""

    @functools.wraps(method)
    def hook(self: Any, *args: Any, **kwargs: Any) -> Any:
        watch = watches.get(id(self))
        if watch is None:
            return method(self, *args, **kwargs)
        return watch.call(name, types.MethodType(method, self), args, kwargs)

    return hook


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
        _ClassHooks.add(self, self._estimator)

    def close(self) -> None:
        """Leave the estimator's class as it was, and end what is open."""
        self._record.guard(_ClassHooks.remove)(self, self._estimator)
        self._record.guard(self._record.close)()

    def call(self, name: str, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method of the estimator, by its name."""
        if name == "fit":
            return self._fit(method, args, kwargs)
        if name == "partial_fit":
            return self._partial_fit(method, args, kwargs)
        return self._apply(_METHODS[name], method, args, kwargs)

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
