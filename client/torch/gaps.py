"""Reports of what a watch cannot record."""

from __future__ import annotations

from torch import nn

from hypergauge.client.tensors import TensorFile
from hypergauge.client.torch.amounts import StepAmounts
from hypergauge.client.torch.losses import Losses

__all__ = ["Gaps"]


class Gaps:
    """Reports of missing steps, losses and samples: the reason and the remedy.

    Parameters
    ----------
    losses
        ``None`` if they are not chosen.
    """

    STEPS = 3  # after so many steps, what has not been seen is missing

    def __init__(self, file: TensorFile, model: nn.Module, losses: Losses | None, amounts: StepAmounts) -> None:
        self._file, self._model, self._losses, self._amounts = file, model, losses, amounts

    def report(self, steps: int, *, is_over: bool = False) -> None:
        """Report what is missing after so many steps, or at the end."""
        name, amounts, losses = type(self._model).__name__, self._amounts, self._losses
        if not steps:
            if amounts.passes and is_over:
                self._file.gap(
                    f"no steps of {name}: no optimizer with its parameters has stepped; give watch its optimizer"
                )
            return
        if not amounts.passes:
            self._file.gap(
                f"no samples, FLOPs or activations of {name}: the script does not call the watched model itself, but a part or a copy; watch what it calls"
            )
        elif amounts.leads and not amounts.has_samples:
            self._file.gap(f"no samples of {name}: its arguments contain no tensor; give watch samples=")
        if not amounts.is_countable:
            self._file.gap(
                f"no FLOPs of {name}: operations cannot be counted in a script that compiles a model or function; give watch flops="
            )
        if losses is not None and not losses.count:
            why = "backward is called for tensors of several elements" if losses.vectors else "backward is not called"
            self._file.gap(f"no losses of {name}: {why}; give watch the module of the loss, loss=")

    def objects(self) -> None:
        """Report an optimizer whose closure is an object, which is called as it is."""
        self._file.gap(
            f"no gradients of {type(self._model).__name__}: its optimizer gets a closure that is no function; give it a function or method"
        )
