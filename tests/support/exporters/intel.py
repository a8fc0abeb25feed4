"""Cards of Intel as the kernel shows them in ``/sys``: the files of its documentation, with values of our own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

__all__ = ["lay_out_card"]


def lay_out_card(
    root: Path,
    card: str,
    address: str,
    *,
    driver: str = "xe",
    vendor: str = "0x8086",
    tiles: int = 1,
    files: Mapping[str, str] | None = None,
) -> Path:
    """Write the files of a card, and return its folder; `files` are further ones in it."""
    folder = root / "sys/class/drm" / card
    known = {
        "device/vendor": vendor,
        "device/device": "0xe20b",
        "device/uevent": f"DRIVER={driver}\nPCI_CLASS=30000\nPCI_SLOT_NAME={address}\n",
    }
    for tile in range(tiles) if driver == "xe" else ():
        known[f"device/tile{tile}/gt0/freq0/act_freq"] = "2400"
    for name, text in (known | dict(files or {})).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    (folder.parent / f"{card}-HDMI-A-1").mkdir()
    return folder
