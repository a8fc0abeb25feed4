"""Display names of quantities."""

from __future__ import annotations

__all__ = ["display_name"]

_WORDS = {
    word.lower(): word
    for word in ("CPU", "GPU", "SM", "IPC", "FP16", "FP32", "FP64", "PCIe", "NVLink", "DRAM", "ECC", "XID", "IO", "MIG")
}  # fmt: skip


def display_name(quantity: str) -> str:
    """Return the display name of a quantity: ``GPU SM active`` for ``gpu_sm_active``."""
    words = " ".join(_WORDS.get(word, word) for word in quantity.split("_"))
    return words[:1].upper() + words[1:]
