"""Sizes in bytes as text: ``512 B``, ``300.0 MiB``."""

from __future__ import annotations

__all__ = ["size_text"]


def size_text(value: float) -> str:
    """Return a size in the largest unit that it reaches."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit in ("B", "KiB") else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
