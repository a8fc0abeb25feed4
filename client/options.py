"""Options of a watch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional, Union

__all__ = ["Amount", "WatchOptions"]

# Number for each forward pass, or function of its arguments; ``None`` to find out.
Amount = Optional[Union[float, Callable[..., float]]]


@dataclass(frozen=True)
class WatchOptions:
    """Options of a watch.

    Attributes
    ----------
    every
        Steps from one watched step to the next.
    collections
        Collections of tensors.
    patterns
        Further collections: a wildcard for names of parameters and modules, by the name of the collection.
    save
        Tensors to save whole, as ``COLLECTION/NAME`` with wildcards.
    quantiles
        Whether to compute quantiles.
    samples, tokens
        Samples and tokens of a forward pass.
    flops
        Floating-point operations for a sample, forward and backward; ``None`` to count them in one step, 0 for none.
    prefix
        Text before the names of all tensors, to tell several models apart.
    spans
        Whether the watch writes phases, epochs and steps; a callback of a framework writes them itself.
    partial_losses
        Whether the losses of a step are parts of one, by which a framework accumulates gradients.
    folder
        Folder of whole tensors.
    """

    every: int = 100
    collections: Sequence[str] = ()
    patterns: Mapping[str, str] = field(default_factory=dict)
    save: Sequence[str] = ()
    quantiles: bool = False
    samples: Amount = None
    tokens: Amount = None
    flops: Optional[float] = None
    prefix: str = ""
    spans: bool = True
    partial_losses: bool = False
    folder: Path = Path()
