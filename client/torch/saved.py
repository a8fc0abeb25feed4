"""Whole tensors as NumPy files."""

from __future__ import annotations

import ctypes
import re
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import torch
from torch import Tensor

__all__ = ["SavedTensors"]

_ORDER = "<" if sys.byteorder == "little" else ">"
_TYPES = {torch.float64: "f8", torch.float32: "f4", torch.float16: "f2", torch.int64: "i8", torch.int32: "i4"}


class SavedTensors:
    """Folder of whole tensors: ``STEP-COLLECTION-NAME.npy``.

    Parameters
    ----------
    patterns
        Tensors to save, as ``COLLECTION/NAME`` with wildcards: ``gradients/encoder.*``.
    """

    def __init__(self, folder: Path, patterns: tuple[str, ...]) -> None:
        self._folder, self._patterns = folder, patterns

    def offer(self, step: int, collection: str, name: str, tensor: Tensor) -> None:
        """Save a tensor if a pattern matches. This waits for the device."""
        if not any(fnmatchcase(f"{collection}/{name}", pattern) for pattern in self._patterns):
            return
        whole = tensor.detach()
        whole = (whole if whole.dtype in _TYPES else whole.float()).cpu().contiguous()
        self._folder.mkdir(mode=0o700, exist_ok=True)
        shape = f"({', '.join(str(length) for length in whole.shape)}{',' if whole.dim() == 1 else ''})"
        header = f"{{'descr': '{_ORDER}{_TYPES[whole.dtype]}', 'fortran_order': False, 'shape': {shape}, }}"
        header = f"{header:<{-(-(len(header) + 11) // 64) * 64 - 11}}\n"
        path = self._folder / f"{step}-{collection}-{re.sub(r'[^A-Za-z0-9._-]', '_', name)}.npy"
        with path.open("wb") as file:
            file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
            file.write(ctypes.string_at(whole.data_ptr(), whole.numel() * whole.element_size()))
