"""Rank of this process in a parallel training."""

from __future__ import annotations

import os
import sys

__all__ = ["is_first_rank"]

# Variables of torchrun, of Slurm, and of launchers that set only the rank within the host.
_VARIABLES = ("RANK", "SLURM_PROCID", "LOCAL_RANK")


def is_first_rank() -> bool:
    """Return whether this process is the first one of a parallel training, or the only one.

    The other ranks of a training have the same tensors, or parts of them.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank()) == 0
    found = next((os.environ[name] for name in _VARIABLES if os.environ.get(name)), "0")
    return found == "0"
