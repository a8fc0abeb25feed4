"""Display names of quantities."""

from __future__ import annotations

__all__ = ["spoken"]

_WORDS = {
    word.lower(): word
    for word in ("CPU", "GPU", "SM", "IPC", "FP16", "FP32", "FP64", "PCIe", "NVLink", "DRAM", "ECC", "XID", "IO", "MIG")
}  # fmt: skip


def spoken(quantity: str) -> str:
    """Return a quantity's name in words: ``GPU SM active`` for ``gpu_sm_active``."""
    words = " ".join(_WORDS.get(word, word) for word in quantity.split("_"))
    return words[:1].upper() + words[1:]
