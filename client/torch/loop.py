"""Training loop that the watched models of a thread share: its iterations, waits, epochs and samples."""

from __future__ import annotations

import threading
import weakref
from typing import Protocol

from torch import nn

from hypergauge.client.guard import Guard
from hypergauge.client.spans import Work
from hypergauge.client.torch.loading import LoaderHook
from hypergauge.client.training import Training

__all__ = ["Loop", "Member", "loop_of"]


class Member(Protocol):
    """Watch of one model of a loop."""

    model: nn.Module
    spans: bool

    def begin_counting(self) -> None:
        """Count operations, if this is the step for it: another model of the loop is called."""

    def other_stepped(self) -> None:
        """Note that the optimizer of another model has stepped."""


class Loop:
    """Iterations of a training, whatever the number of its models.

    The step of an optimizer ends an iteration if its model leads the loop, if a batch has been loaded since the last
    iteration, or if it is the second step of this optimizer since. Its model leads from then on, as does the model that a batch
    passes first. So the two steps of a GAN are one iteration, and models trained one after the other each have their own.

    Attributes
    ----------
    leader
        Watch whose model has the forward passes that count; ``None`` before the first one.
    batch_size
        Samples of the last batch from a loader; ``None`` if unknown.
    """

    def __init__(self, work: Work, training: Training) -> None:
        self.leader: Member | None = None
        self.batch_size: int | None = None
        self._work, self._training = work, training
        self._members: list[Member] = []
        self._hook: LoaderHook | None = None
        # Whether a batch was asked for since the last iteration, in the last one, and since the last forward pass.
        self._is_loaded = self._was_loaded = self._is_fresh = False
        self._unused = 0  # loaded samples that no forward pass had yet
        self._stepped: set[int] = set()
        self._data_set: int | None = None
        # Data sets of the last batch, and of the last one for the training.
        self._asked_set: int | None = None
        self._training_set: int | None = None
        self._epoch = 0
        self._epoch_begin = training.step

    def join(self, member: Member, guard: Guard) -> None:
        """Add the watch of a model."""
        self._members.append(member)
        if self._hook is None:
            self._hook = LoaderHook(_Guarded(self, guard))

    def leave(self, member: Member) -> None:
        """Remove the watch of a model."""
        self._members = [other for other in self._members if other is not member]
        if self.leader is member:
            self.leader = None
        if not self._members and self._hook is not None:
            self._hook.close()
            self._hook = None

    def leads(self, member: Member) -> bool:
        """Return whether the forward pass of a model in training counts."""
        if self.leader is None or self._is_fresh:
            self.leader, self._is_fresh = member, False
        if self.leader is not member:
            self.leader.begin_counting()
            return False
        return True

    def used(self, samples: float | None) -> float | None:
        """Return how many samples of a forward pass are new: those of a batch count once, however often it passes."""
        is_loaded = self._unused or self._is_loaded or self._was_loaded
        if samples is None or self.batch_size is None or not is_loaded:
            return samples
        used = min(samples, self._unused)
        self._unused -= int(used)
        return used

    def end_step(self, member: Member) -> bool:
        """Return whether the step of a model's optimizer ends an iteration."""
        for other in self._members:
            if other is not member:
                other.other_stepped()
        if not (self.leader in (None, member) or self._is_loaded or id(member) in self._stepped):
            self._stepped.add(id(member))
            return False
        self.leader = member
        self._was_loaded, self._is_loaded = self._is_loaded, False
        self._stepped.clear()
        return True

    def phase(self, name: str | None) -> None:
        """Begin a phase of the training, or end the current one."""
        if self._spans:
            self._training.phase(name)

    # What the loader does

    @property
    def _spans(self) -> bool:
        return any(member.spans for member in self._members)

    @property
    def _is_training(self) -> bool:
        return bool((self.leader or self._members[-1]).model.training)

    def batch_asked(self, data_set: object, is_first: bool) -> None:
        """Begin an epoch with the first batch of a loader, unless another loader's epoch is in progress."""
        self._asked_set = id(data_set)
        if not self._is_training:
            # A framework may take the first batches after an evaluation before the model is in training again.
            if self._asked_set == self._training_set:
                self._is_loaded = self._is_fresh = True
            self.phase("evaluate")
            return
        self._training_set = self._asked_set
        self._is_loaded = self._is_fresh = True
        if is_first and (self._data_set in (None, id(data_set)) or not self._training.step):
            self._data_set, self._unused = id(data_set), 0
            if self._training.step > self._epoch_begin:
                self._epoch += 1
                self._epoch_begin = self._training.step
            if self._spans:
                self._training.epoch(self._epoch)
            self.phase("train")

    def batch_taken(self, seconds: float, samples: int | None) -> None:
        """Add the wait for a batch of the training."""
        if self._is_training:
            self._work.add(data_wait=seconds)
        if self._asked_set == self._training_set:
            self.batch_size = samples
            self._unused += samples or 0

    def exhausted(self, data_set: object) -> None:
        """End the epoch of a loader, or an evaluation."""
        if not self._is_training:
            self.phase(None)
        elif id(data_set) == self._data_set:
            self._data_set = None
            if self._spans:
                self._training.epoch(None)


class _Guarded:
    """Methods of a loop within a guard."""

    def __init__(self, loop: Loop, guard: Guard) -> None:
        self.batch_asked = guard.function(loop.batch_asked)
        self.batch_taken = guard.function(loop.batch_taken)
        self.exhausted = guard.function(loop.exhausted)


_LOOPS: weakref.WeakKeyDictionary[Training, dict[int, Loop]] = weakref.WeakKeyDictionary()


def loop_of(work: Work, training: Training) -> Loop:
    """Return the loop of a training in this thread."""
    loops = _LOOPS.setdefault(training, {})
    return loops.setdefault(threading.get_ident(), Loop(work, training))
