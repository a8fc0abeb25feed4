"""Shares of classes among the labels of a batch, and of correct predictions in each class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["class_shares"]

# With more classes than this, a batch holds too few samples of each.
_MOST_CLASSES = 100


def class_shares(arguments: tuple[Any, ...]) -> Iterator[tuple[str, str, int, Tensor]]:
    """Yield collection, class, count of samples and share, from the arguments of a loss: outputs by class, and labels.

    In ``labels`` the share is that of the class among all labels. In ``predictions`` it is that of the correct predictions
    among its labels, NaN without any.
    """
    if len(arguments) < 2 or not all(isinstance(one, Tensor) for one in arguments[:2]):
        return
    outputs, labels = arguments[0].detach(), arguments[1].detach()
    if outputs.dim() != 2 or labels.shape != outputs.shape[:1] or labels.is_floating_point():
        return
    classes = outputs.shape[1]
    if not 2 <= classes <= _MOST_CLASSES:
        return
    # Labels outside the classes, such as -100, are ignored ones.
    valid = (labels >= 0) & (labels < classes)
    members = functional.one_hot(labels.clamp(0, classes - 1).long(), classes).float() * valid[:, None]
    correct = members * (outputs.argmax(1) == labels)[:, None]
    counts, right = members.sum(0), correct.sum(0)
    shares, hits = (counts / valid.sum()).unbind(), torch.where(counts > 0, right / counts, torch.nan).unbind()
    size = labels.numel()
    for number in range(classes):
        yield "labels", str(number), size, shares[number]
        yield "predictions", str(number), size, hits[number]
