"""Screenshots of pages, made by Chromium without a window."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from PIL import Image

__all__ = ["find", "screenshot"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_LIMIT_SECONDS = 180


def find() -> str:
    """Return the command of an installed Chromium or Chrome."""
    for name in _NAMES:
        if found := shutil.which(name):
            return found
    raise SystemExit(f"screenshots need Chromium: none of {', '.join(_NAMES)} is installed")


def screenshot(
    address: str, file: Path, *, width: int, height: int, patience: float = 30.0, dark: bool = False
) -> None:
    """Write a page as PNG with 256 colors.

    Parameters
    ----------
    patience
        Seconds of the page's own clock until the picture is taken.
    dark
        Whether the page sees a browser in dark mode.
    """
    with tempfile.TemporaryDirectory(prefix="bench-pictures-") as folder:
        raw = Path(folder) / "raw.png"
        subprocess.run(
            [
                find(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                f"--user-data-dir={folder}/profile", f"--window-size={width},{height}",
                f"--virtual-time-budget={patience * 1000:.0f}", f"--screenshot={raw}",
                *(["--blink-settings=preferredColorScheme=0"] if dark else []), address,
            ],
            check=True, capture_output=True, timeout=_LIMIT_SECONDS,
        )  # fmt: skip
        with Image.open(raw) as picture:
            picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(file, optimize=True)
