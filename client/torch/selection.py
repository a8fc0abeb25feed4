"""Tensors of a model by collection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

__all__ = ["ACTIVATIONS", "COLLECTIONS", "DEFAULT", "Selection"]

# Functions whose outputs are watched. ReLU6 is a Hardtanh to PyTorch, so ReLUs come first.
ACTIVATIONS: dict[str, tuple[type[nn.Module], ...]] = {
    "relu": (nn.ReLU, nn.ReLU6),
    "sigmoid": (nn.Sigmoid, nn.Hardsigmoid),
    "tanh": (nn.Tanh, nn.Hardtanh),
}
# Part of the range of outputs, next to either bound, in which an output is saturated.
_SATURATED = 0.01
DEFAULT = ("weights", "biases", "gradients", "losses", *ACTIVATIONS, "labels")
COLLECTIONS = (*DEFAULT, "optimizer", "inputs", "outputs")


class Selection:
    """Choice of a model's tensors.

    Parameters
    ----------
    collections
        Chosen among `COLLECTIONS`.
    patterns
        Names of further collections, with a wildcard for names of parameters, and of modules whose outputs are watched.
    """

    def __init__(self, model: nn.Module, collections: Sequence[str], patterns: Mapping[str, str], prefix: str) -> None:
        self._model, self._patterns, self._prefix = model, dict(patterns), prefix
        self._chosen = frozenset(collections)
        # Name and collections of each parameter by its name in the model.
        self._names: dict[str, tuple[str, tuple[str, ...]]] = {}

    def __contains__(self, collection: str) -> bool:
        return collection in self._chosen

    def parameters(self) -> Iterator[tuple[str, tuple[str, ...], Tensor]]:
        """Yield name, collections and tensor of each trainable parameter."""
        for name, parameter in self._model.named_parameters():
            if parameter.requires_grad:
                if name not in self._names:
                    own = "biases" if name.rpartition(".")[2].startswith("bias") else "weights"
                    found = (own, *self._matching(name))
                    collections = tuple(one for one in found if one in self._chosen or one != own)
                    self._names[name] = self.name(name), collections
                yield (*self._names[name], parameter)

    def modules(self) -> Iterator[tuple[str, str, nn.Module, tuple[float, float] | None]]:
        """Yield name, collection, module and saturation bounds of each module whose output is watched."""
        for name, module in self._model.named_modules():
            kind = next((kind for kind, types in ACTIVATIONS.items() if isinstance(module, types)), None)
            if kind in self._chosen:
                yield self.name(name or type(module).__name__), kind, module, _bounds(kind, module)
            if name:
                for collection in self._matching(name):
                    yield self.name(name), collection, module, None

    def state(self, optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, Tensor]]:
        """Yield name and tensor of the optimizer's state of each parameter: ``fc1.weight.exp_avg``."""
        for name, _, parameter in self.parameters():
            for key, value in optimizer.state.get(parameter, {}).items():
                if isinstance(value, Tensor) and value.numel() > 1:
                    yield f"{name}.{key}", value

    def name(self, name: str) -> str:
        """Return a name without the wrappers of parallel and compiled models, after the prefix of the watch."""
        plain = [part for part in name.split(".") if part not in ("_orig_mod", "_fsdp_wrapped_module")]
        if plain[:1] == ["module"] and type(self._model).__name__.endswith("DataParallel"):
            del plain[0]
        return self._prefix + ".".join(plain)

    def _matching(self, name: str) -> Iterator[str]:
        return (collection for collection, pattern in self._patterns.items() if fnmatchcase(name, pattern))


def _bounds(kind: str, module: nn.Module) -> tuple[float, float] | None:
    """Return the outputs at and beyond which an activation is saturated; ``None`` for one without upper bound."""
    if kind == "relu":
        return None
    low, high = (0.0, 1.0) if kind == "sigmoid" else (getattr(module, "min_val", -1.0), getattr(module, "max_val", 1.0))
    margin = _SATURATED * (high - low)
    return low + margin, high - margin
