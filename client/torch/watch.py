"""Watch of a PyTorch model: its steps, its waits for data, and its tensors, by hooks."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import optimizer as optimizers

from hypergauge.client.guard import Guard
from hypergauge.client.options import WatchOptions
from hypergauge.client.spans import Spans
from hypergauge.client.tensors import TensorFile
from hypergauge.client.torch import reductions, work
from hypergauge.client.torch.batch import Batch
from hypergauge.client.torch.flops import FlopCounter, is_compiled
from hypergauge.client.torch.labels import class_shares
from hypergauge.client.torch.loading import LoaderHook
from hypergauge.client.torch.patches import Patch
from hypergauge.client.torch.saved import SavedTensors
from hypergauge.client.torch.selection import Selection
from hypergauge.client.training import Training

__all__ = ["TorchWatch"]

_BACKWARD = Patch(Tensor, "backward")
_SAVE = Patch(torch, "save")
_SCALE = Patch(torch.amp.GradScaler, "scale")
# Step whose operations are counted: the first one may initialize.
_COUNTED_STEP = 1
# Most losses between two watched steps; with more, some of many micro-batches are left out.
_MOST_LOSSES = 10_000
_Removable = Callable[[], None]


class TorchWatch:
    """Hooks on one model, from `start` to `close`.

    A step ends with the step of the optimizer. Only in a watched step are tensors reduced and activations hooked, so other
    steps cost a few microseconds.

    Parameters
    ----------
    optimizer
        ``None`` for the first one that steps with parameters of the model.
    loss
        Module whose output is the loss. Otherwise the loss is the tensor whose ``backward`` is called.
    """

    def __init__(
        self,
        track: Spans,
        training: Training,
        file: TensorFile,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | None,
        loss: nn.Module | None,
        options: WatchOptions,
    ) -> None:
        self._track, self._training, self._file, self._model = track, training, file, model
        self._optimizer, self._loss, self._options = optimizer, loss, options
        self._guard = Guard("watch", file.problem)
        self._selection = Selection(model, options.collections, options.patterns, options.prefix)
        self._saved = SavedTensors(options.folder, tuple(options.save)) if options.save else None
        self._removals: list[_Removable] = []
        self._activations: list[_Removable] = []
        self._ours = {id(parameter) for parameter in model.parameters()}
        self._data_set: int | None = None
        self._epoch = 0
        self._stepped = False  # whether the epoch has steps
        self._batch: Batch | None = None
        self._before: dict[str, Tensor] = {}
        self._losses: list[Tensor] = []
        self._validation: list[Tensor] = []
        self._parts = 0  # losses of earlier steps
        self._unscaled: Tensor | None = None  # loss before a scaler of gradients multiplies it
        self._counter: FlopCounter | None = None
        self._flops_per_sample: float | None = None
        self._samples = 0.0
        self._pending: list[Batch] = []
        self._writer = _Writer(file)
        self._records_tensors = int(os.environ.get("RANK", "0") or 0) == 0
        self._step = self._training.step

    def start(self) -> None:
        """Add the hooks. The step in progress is the first one."""
        guard = self._guard
        self._hook(self._model.register_forward_pre_hook(guard(self._forward_begins), with_kwargs=True))
        self._hook(self._model.register_forward_hook(guard(self._forward_ended)))
        if isinstance(self._loss, nn.Module):
            self._hook(self._loss.register_forward_hook(guard(self._loss_computed)))
        else:
            self._patch(_BACKWARD, self._backward)
            self._patch(_SCALE, self._scaling)
        if self._optimizer is None:
            self._hook(optimizers.register_optimizer_step_pre_hook(guard(self._step_begins)))
            self._hook(optimizers.register_optimizer_step_post_hook(guard(self._step_ended)))
        else:
            self._hook(self._optimizer.register_step_pre_hook(guard(self._step_begins)))
            self._hook(self._optimizer.register_step_post_hook(guard(self._step_ended)))
        loader = LoaderHook(guard(self._batch_asked), guard(self._data_waited), guard(self._data_exhausted))
        self._removals.append(loader.close)
        if self._options.spans:
            self._patch(_SAVE, self._saving)
        self._begin_step()

    def close(self) -> None:
        """Remove the hooks and write what is left. Idempotent."""
        self._guard(self._finish)()
        removals, self._removals = self._removals, []
        for remove in removals:
            remove()
        self._writer.close()

    def _finish(self) -> None:
        self._stop_counting()
        self._remove_activations()
        if self._removals:
            batch = Batch(max(0, self._step - 1))
            self._add_losses(batch)
            self._send(batch)
        for batch in self._pending:
            self._writer.put(batch)
        self._pending = []

    # Hooks

    def _batch_asked(self, data_set: object, is_first: bool) -> None:
        """Begin an epoch with the first batch of a loader, unless another loader's epoch is in progress."""
        if not self._model.training:
            self._phase("evaluate")
        elif is_first and (self._data_set in (None, id(data_set)) or not self._step):
            self._data_set = id(data_set)
            if self._stepped:
                self._epoch += 1
                self._stepped = False
            if self._options.spans:
                self._training.epoch(self._epoch)
            self._phase("train")

    def _data_waited(self, seconds: float) -> None:
        if self._model.training:
            self._track.work.add(data_wait=seconds)

    def _data_exhausted(self, data_set: object) -> None:
        if id(data_set) == self._data_set and self._model.training:
            self._data_set = None
            if self._options.spans:
                self._training.epoch(None)
        elif not self._model.training:
            self._phase(None)

    def _forward_begins(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._phase("train" if module.training else "evaluate")
        if not module.training or not torch.is_grad_enabled():
            return
        samples, tokens = work.amounts(args, kwargs, self._options)
        flops = None if self._flops_per_sample is None or samples is None else samples * self._flops_per_sample
        self._track.work.add(samples=samples, tokens=tokens, flops=flops)
        self._samples += samples or 0.0
        if self._batch is not None and "inputs" in self._selection:
            self._reduce_all("inputs", work.tensors((*args, *kwargs.values()), "input"))
        if self._step == _COUNTED_STEP and self._counter is None and self._counts_flops():
            self._counter = FlopCounter()
            self._counter.__enter__()

    def _forward_ended(self, module: nn.Module, _: tuple[Any, ...], output: Any) -> None:
        if self._batch is not None and module.training and "outputs" in self._selection:
            self._reduce_all("outputs", work.tensors((output,), "output"))
        if not module.training and not isinstance(self._loss, nn.Module):
            loss = work.loss_of(output)
            if loss is not None:
                self._keep(self._validation, loss)

    def _loss_computed(self, _: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if not isinstance(output, Tensor) or not output.numel():
            return
        self._keep(self._losses if self._model.training else self._validation, output.detach().float().mean())
        if self._batch is not None and self._model.training and "labels" in self._selection:
            for collection, name, size, share in class_shares(args):
                self._batch.add(collection, name, size, {"mean": share})

    @contextlib.contextmanager
    def _backward(self, loss: Tensor, *_: Any, **__: Any) -> Iterator[None]:
        self._guard(self._loss_differentiated)(loss)
        yield

    @contextlib.contextmanager
    def _scaling(self, _: object, outputs: Any) -> Iterator[None]:
        self._unscaled = outputs if isinstance(outputs, Tensor) else None
        yield

    def _loss_differentiated(self, loss: Tensor) -> None:
        unscaled, self._unscaled = self._unscaled, None
        if self._model.training and loss.numel() == 1:
            self._keep(self._losses, loss if unscaled is None else unscaled)

    def _saving(self, *_: Any, **__: Any) -> contextlib.AbstractContextManager[None]:
        return self._training.checkpoint()

    def _step_begins(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if not self._is_ours(optimizer):
            return
        self._stop_counting()
        if self._batch is None:
            return
        for name, collections, parameter in self._selection.parameters():
            if parameter.grad is not None and "gradients" in self._selection:
                self._reduce("gradients", name, parameter.grad)
            if collections and (flat := reductions.local(parameter)) is not None:
                self._before[name] = reductions.strided(flat).clone()

    def _step_ended(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if not self._is_ours(optimizer):
            return
        if self._options.partial_losses and len(self._losses) > self._parts + 1:
            self._losses[self._parts :] = [torch.stack(self._losses[self._parts :]).sum()]
        self._parts = len(self._losses)
        if self._batch is not None:
            self._reduce_weights(self._batch, optimizer)
            self._add_losses(self._batch)
            self._send(self._batch)
            self._batch = None
        if self._options.spans:
            self._training.end_step(self._step)
        self._step += 1
        self._stepped = True
        while self._pending and self._pending[0].arrived:
            self._writer.put(self._pending.pop(0))
        self._begin_step()

    # Tensors

    def _begin_step(self) -> None:
        self._remove_activations()
        self._samples = 0.0
        if self._step % self._options.every or not self._records_tensors:
            return
        self._batch = Batch(self._step)
        if is_compiled(self._model):
            return
        for name, collection, module, bounds in self._selection.modules():
            self._activations.append(
                module.register_forward_hook(self._guard(self._output(name, collection, bounds))).remove
            )

    def _output(self, name: str, collection: str, bounds: tuple[float, float] | None) -> Callable[..., None]:
        def reduce(module: nn.Module, _: tuple[Any, ...], output: Any) -> None:
            if self._batch is not None and module.training and isinstance(output, Tensor):
                self._reduce(collection, name, output, bounds)

        return reduce

    def _reduce_all(self, collection: str, tensors: Sequence[tuple[str, Tensor]]) -> None:
        for name, tensor in tensors:
            self._reduce(collection, name, tensor)

    def _reduce(self, collection: str, name: str, tensor: Tensor, bounds: tuple[float, float] | None = None) -> None:
        assert self._batch is not None
        flat = reductions.local(tensor)
        if flat is None:
            return
        values = dict(zip(reductions.BASIC, reductions.reduced(flat)))
        if bounds is not None:
            values["saturated"] = reductions.saturated(flat, *bounds)
        if self._options.quantiles:
            values.update(zip(("p05", "p25", "p50", "p75", "p95"), reductions.quantiles(flat)))
        self._batch.add(collection, name, flat.numel(), values)
        if self._saved is not None:
            self._saved.offer(self._step, collection, name, tensor)

    def _reduce_weights(self, batch: Batch, optimizer: torch.optim.Optimizer) -> None:
        before, self._before = self._before, {}
        for name, collections, parameter in self._selection.parameters():
            flat = reductions.local(parameter)
            if flat is None:
                continue
            for collection in collections:
                self._reduce(collection, name, parameter)
                if name in before:
                    ratio = reductions.update_ratio(before[name], reductions.strided(flat))
                    batch.add(collection, name, flat.numel(), {"update_ratio": ratio})
        if "optimizer" in self._selection:
            self._reduce_all("optimizer", list(self._selection.state(optimizer)))

    def _add_losses(self, batch: Batch) -> None:
        for name, kept in (("loss", self._losses), ("val_loss", self._validation)):
            if kept and "losses" in self._selection:
                losses = torch.stack(kept)
                batch.add("losses", name, len(kept), dict(zip(reductions.BASIC, reductions.reduced(losses))))
            kept.clear()
        self._parts = 0

    def _send(self, batch: Batch) -> None:
        if batch:
            batch.transfer()
            self._pending.append(batch)

    def _keep(self, losses: list[Tensor], loss: Tensor) -> None:
        if self._records_tensors and len(losses) < _MOST_LOSSES:
            losses.append(loss.detach().reshape(()).clone())

    # Work

    def _counts_flops(self) -> bool:
        return self._options.flops is None and not is_compiled(self._model)

    def _stop_counting(self) -> None:
        counter = self._counter
        if counter is not None and self._flops_per_sample is None:
            counter.__exit__(None, None, None)
            self._flops_per_sample = counter.flops / self._samples if self._samples else 0.0
            self._track.work.add(flops=float(counter.flops))

    # Parts

    def _phase(self, name: str | None) -> None:
        if self._options.spans:
            self._training.phase(name)

    def _is_ours(self, optimizer: torch.optim.Optimizer) -> bool:
        """Return whether the steps of an optimizer are those of the training; the first one with our parameters is it."""
        if self._optimizer is None and any(
            id(parameter) in self._ours for group in optimizer.param_groups for parameter in group["params"]
        ):
            self._optimizer = optimizer
        return optimizer is self._optimizer

    def _hook(self, handle: Any) -> None:
        self._removals.append(handle.remove)

    def _patch(self, patch: Patch, around: Callable[..., Any]) -> None:
        patch.add(around)
        self._removals.append(lambda: patch.remove(around))

    def _remove_activations(self) -> None:
        for remove in self._activations:
            remove()
        self._activations = []


class _Writer:
    """Thread that writes batches, so that no step waits for the encoding."""

    def __init__(self, file: TensorFile) -> None:
        self._file = file
        self._queue: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, batch: Batch) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="hypergauge tensors", daemon=True)
            self._thread.start()
        self._queue.put(batch)

    def close(self) -> None:
        """Write what is left, and wait for it."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while (batch := self._queue.get()) is not None:
            try:
                batch.write(self._file)
            except Exception as error:  # noqa: BLE001 - the training goes on
                self._file.problem(f"tensors of a step are lost: {type(error).__name__}: {error}")
