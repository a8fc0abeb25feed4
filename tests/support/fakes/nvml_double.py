"""Fake of the module pynvml with real devices, from the output of `nvidia-smi -q -x`.

It answers with pynvml's own structs, constants and errors. A value of ``N/A`` is unsupported, and so is a function that the
fake lacks.
"""

from __future__ import annotations

import functools
import types
from collections import Counter
from collections.abc import Callable
from typing import Any

import pynvml

from tests.support.fakes.nvml_cards import MIB, Card, Handle, Process, Slot, read_log
from tests.support.fakes.nvml_functions import FUNCTIONS

__all__ = ["MIB", "Card", "NvmlDouble", "Process", "Slot"]


class NvmlDouble:
    """Fake of pynvml.

    Parameters
    ----------
    documents
        Names of files in tests/data/nvidia-smi, one per GPU.

    Attributes
    ----------
    cards
        GPUs, which tests may change.
    now
        Time in seconds.
    driver_error
        Error of every call while set.
    calls
        Number of calls by function.
    samples, event_sets
        GPM samples and event sets that are not freed.
    """

    def __init__(self, *documents: str) -> None:
        logs = [read_log(name) for name in documents]
        self.driver = logs[0][0]
        self.cards = [card for _, card in logs]
        self.now = 1000.0
        self.driver_error: type[pynvml.NVMLError] | None = None
        self.calls: Counter[str] = Counter()
        self.session, self.initialized = 0, False
        self.samples: dict[int, tuple[Any, Any, str | None, float]] = {}
        self.event_sets: dict[int, tuple[Any, list[Card]]] = {}
        self._hooks: dict[str, list[tuple[int, Callable[[], object]]]] = {}

    def clock(self) -> float:
        """Return the time."""
        return self.now

    def before(self, function: str, action: Callable[[], object], call: int = 1) -> None:
        """Run `action` right before that call of `function`, counted from now."""
        self._hooks.setdefault(function, []).append((self.calls[function] + call, action))

    def repartition(self, index: int, *slots: Slot, mig: bool = True) -> None:
        """Replace the MIG devices of a GPU."""
        self.cards[index].mig, self.cards[index].slots = mig, list(slots)

    def restart_driver(self) -> None:
        """Invalidate the initialization."""
        self.initialized = False
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
            self.initialized = True
            return None
        if not self.initialized:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)
        if arguments and isinstance(arguments[0], Handle):
            return FUNCTIONS[name](self, self.find(arguments[0]), *arguments[1:])
        return FUNCTIONS[name](self, *arguments)

    def find(self, handle: Handle) -> Card | Slot:
        """Return the target of `handle`, if it exists."""
        assert handle.session == self.session, "a real NVML crashes with a handle of an earlier initialization"
        card = self.cards[handle.index]
        if card.lost is not None:
            raise card.lost()
        if handle.mig is None:
            return card
        slot = next((slot for slot in card.slots if slot.uuid == handle.mig), None)
        if slot is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return slot
