"""A double of the module pynvml, for what no host here has: real devices, as `nvidia-smi -q -x` described them.

It answers with pynvml's own structs, constants and errors. What a document says is ``N/A`` is not supported, and a function
that the double does not know it does not have.
"""

from __future__ import annotations

import functools
import types
from collections import Counter
from collections.abc import Callable
from typing import Any

import pynvml

from tests.support.nvml_cards import MIB, Card, Handle, Process, Slot, read_log
from tests.support.nvml_functions import FUNCTIONS

__all__ = ["MIB", "Card", "NvmlDouble", "Process", "Slot"]


class NvmlDouble:
    """Stands in for pynvml.

    Parameters
    ----------
    documents
        Names of files in tests/data/nvidia-smi, a GPU each.

    Attributes
    ----------
    cards
        The GPUs, to be changed by the test.
    now
        The time in seconds.
    driver_error
        What everything says, as long as it is set.
    calls
        How often each function was called.
    samples, event_sets
        Those of GPM and of events that are not freed.
    """

    def __init__(self, *documents: str) -> None:
        logs = [read_log(name) for name in documents]
        self.driver = logs[0][0]
        self.cards = [card for _, card in logs]
        self.now = 1000.0
        self.driver_error: type[pynvml.NVMLError] | None = None
        self.calls: Counter[str] = Counter()
        self.session, self.initialised = 0, False
        self.samples: dict[int, tuple[Any, Any, str | None, float]] = {}
        self.event_sets: dict[int, tuple[Any, list[Card]]] = {}
        self._hooks: dict[str, list[tuple[int, Callable[[], object]]]] = {}

    def clock(self) -> float:
        """Return the time."""
        return self.now

    def before(self, function: str, action: Callable[[], object], call: int = 1) -> None:
        """Let `action` happen right before the call of `function` with that number from now on."""
        self._hooks.setdefault(function, []).append((self.calls[function] + call, action))

    def repartition(self, index: int, *slots: Slot, mig: bool = True) -> None:
        """Replace the MIG devices of a GPU."""
        self.cards[index].mig, self.cards[index].slots = mig, list(slots)

    def restart_driver(self) -> None:
        """Let what was initialised be so no longer."""
        self.initialised = False
        self.samples.clear()
        self.event_sets.clear()

    def __getattr__(self, name: str) -> Any:
        if name == "nvmlInit" or name in FUNCTIONS:
            return functools.partial(self._call, name)
        value = getattr(pynvml, name)
        if isinstance(value, types.FunctionType):
            raise AttributeError(f"the double has no {name}")
        return value

    def _call(self, name: str, *arguments: Any) -> Any:
        self.calls[name] += 1
        for hook in [hook for hook in self._hooks.get(name, ()) if hook[0] == self.calls[name]]:
            hook[1]()
        if self.driver_error is not None:
            raise self.driver_error()
        if name == "nvmlInit":
            self.session += 1
            self.initialised = True
            return None
        if not self.initialised:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)
        if arguments and isinstance(arguments[0], Handle):
            return FUNCTIONS[name](self, self.find(arguments[0]), *arguments[1:])
        return FUNCTIONS[name](self, *arguments)

    def find(self, handle: Handle) -> Card | Slot:
        """Return what `handle` is of, if it still is there."""
        assert handle.session == self.session, "a real NVML crashes with a handle of before it was initialised anew"
        card = self.cards[handle.index]
        if card.lost is not None:
            raise card.lost()
        if handle.mig is None:
            return card
        slot = next((slot for slot in card.slots if slot.uuid == handle.mig), None)
        if slot is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return slot
